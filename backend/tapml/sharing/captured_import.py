"""A captured call into the suite of its model: each operator judged, and kept as a test (docs/http-api.md)."""

from __future__ import annotations

from typing import Any

from tapml.results.verdicts import SEVERITY
from tapml.sharing.capture import Capture
from tapml.sharing.captured import Progress, judge
from tapml.sharing.imports import add_all
from tapml.suite import Suite


def import_into(capture: Capture, suite: Suite, progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """What came of each call, and the test of the suite that it is now, as the document of a job.

    Raises InputError where the suite has another model, or cannot be written to.
    """
    document = capture.document
    found = judge(capture, suite, progress)
    ids = iter(add_all([one.repro for one in found if one.repro is not None], suite))
    return {
        "interrupted": False,
        "suite": suite.name,
        "path": str(suite.path),
        "device": dict(document.device),
        "function": document.function,
        "sizes": dict(document.sizes),
        "summary": {verdict: sum(one.verdict == verdict for one in found) for verdict in SEVERITY},
        "calls": [
            {
                "node": one.call.node,
                "kernel": one.call.kernel,
                "variant": one.call.variant,
                "verdict": one.verdict,
                "message": one.message,
                "suspicious": one.suspicious,
                "notes": list(one.notes),
                "test": None if one.repro is None else next(ids),
            }
            for one in found
        ],
        "left_out": document.left_out,
        "why": list(document.why),
    }
