"""What a page captured of a deployed model, from Python."""

from __future__ import annotations

from pathlib import Path

from tapml.errors import InputError
from tapml.sharing.capture import read_capture
from tapml.sharing.captured import CapturedVerdict, judge
from tapml.sharing.imports import add_all
from tapml.suite import Suite


def import_capture(path: str | Path, suite: Suite | str | Path) -> list[CapturedVerdict]:
    """Compute each captured call of a file that `model.capture` of @tapml/runtime gave, by the operators of the suite's
    model, compare what the page's GPU gave within derived bounds, and add the calls to the suite as tests.

    Raises InputError for another file or a damaged one, and where the suite's model is another than the page ran.
    """
    capture = read_capture(Path(path))
    if capture is None:
        raise InputError(f"{path} is no captured call: give a file of `model.capture` (docs/capture.md)")
    found = suite if isinstance(suite, Suite) else Suite(Path(suite))
    verdicts = judge(capture, found)
    add_all([verdict.repro for verdict in verdicts if verdict.repro is not None], found)
    return verdicts
