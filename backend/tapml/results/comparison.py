"""Two runs of a suite's tests beside each other: tapml.compare/1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tapml.protocol.base import JsonNumber
from tapml.protocol.fields import Count, Created, Line, Plain
from tapml.protocol.methods import Verdict
from tapml.results.base import Doubts, label_of
from tapml.results.headline import as_json, share_of
from tapml.results.validation import ValidationDocument
from tapml.results.verdicts import FAILING

Change: TypeAlias = Literal["worse", "better", "other", "same", "added", "removed"]
"""worse: it fails (fail, error, unbounded) and did not; better: the other way round; other: another verdict that is
neither; added, removed: only the second, only the first run has it."""

CHANGES: tuple[Change, ...] = ("worse", "better", "other", "added", "removed", "same")
"""As they are told: what needs a look first."""


class RunSide(Plain):
    """A run on one device."""

    run: Line
    """Its id; of a file, its name."""
    device: Line
    """"Chromium 156", "Chromium 156 (2)" for another tab of it."""
    adapter: Line
    created: Created
    tests: Count


class ComparedOutcome(Plain):
    """Of a test in one run."""

    verdict: Verdict
    kernel_digest: Line
    """Of the kernel as it ran; empty where it is not known."""
    bound_share: Annotated[JsonNumber | None, Field(default=None)]
    """How much of its bound the worst element takes: 1 for all of it, "Infinity" where a number was expected and none
    came; null where nothing was compared, it has no bound, or an earlier version recorded it."""
    max_abs_error: float | None
    seconds: float | None
    gpu_seconds: float | None


class ComparedTest(Plain):
    """A test in both runs."""

    test: Line
    kernel: Line
    change: Change
    kernel_changed: bool
    """Other WGSL or launches ran; false where a digest is not known."""
    before: ComparedOutcome | None
    after: ComparedOutcome | None


class ComparisonSummary(Plain):
    """Tests by what changed."""

    worse: Count
    better: Count
    other: Count
    added: Count
    removed: Count
    same: Count
    kernels_changed: list[Line]
    seconds: list[float | None]
    """Of the tests that both have, in each run together: the GPU's time where both runs have it, else the runner's;
    null where a run has neither."""
    gpu: bool
    """Whether `seconds` are the GPU's."""


class Comparison(Plain):
    """What changed from one run to another."""

    before: RunSide
    after: RunSide
    summary: ComparisonSummary
    tests: list[ComparedTest]
    """What changed first, then in the order of the second run."""


class ComparisonDocument(Comparison):
    """tapml.compare/1."""

    format: Literal["tapml.compare/1"]
    suite: Line
    suite_name: Line
    doubts: Doubts


class RunSides(Plain):
    """The runs of a suite that can be compared, newest first."""

    runs: list[RunSide]


class RunsDocument(RunSides):
    """tapml.runs/1."""

    format: Literal["tapml.runs/1"]
    suite: Line
    suite_name: Line
    doubts: Doubts


Outcomes: TypeAlias = Mapping[str, tuple[str, ComparedOutcome]]
"""By test: its kernel, and what came of it."""


def compared(before: tuple[RunSide, Outcomes], after: tuple[RunSide, Outcomes]) -> Comparison:
    """What changed from the first to the second. Of time only the sums: a test's own differs from run to run."""
    (first, old), (second, new) = before, after
    tests = [_test(name, old.get(name), new.get(name)) for name in [*new, *(name for name in old if name not in new)]]
    tests.sort(key=lambda test: CHANGES.index(test["change"]))
    count = {change: sum(test["change"] == change for test in tests) for change in CHANGES}
    seconds, gpu = _seconds(tests)
    return {
        "before": first,
        "after": second,
        "summary": {
            "worse": count["worse"],
            "better": count["better"],
            "other": count["other"],
            "added": count["added"],
            "removed": count["removed"],
            "same": count["same"],
            "kernels_changed": list(dict.fromkeys(test["kernel"] for test in tests if test["kernel_changed"])),
            "seconds": seconds,
            "gpu": gpu,
        },
        "tests": tests,
    }


def _test(name: str, old: tuple[str, ComparedOutcome] | None, new: tuple[str, ComparedOutcome] | None) -> ComparedTest:
    kernel, before, after = (new or old or ("", None))[0], old and old[1], new and new[1]
    digests = {side["kernel_digest"] for side in (before, after) if side is not None}
    return {
        "test": name,
        "kernel": kernel,
        "change": _change(before, after),
        "kernel_changed": len(digests) > 1 and "" not in digests,
        "before": before,
        "after": after,
    }


def _change(before: ComparedOutcome | None, after: ComparedOutcome | None) -> Change:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if before["verdict"] == after["verdict"]:
        return "same"
    failed, fails = (side["verdict"] in FAILING for side in (before, after))
    return "other" if failed == fails else "worse" if fails else "better"


def _seconds(tests: Iterable[ComparedTest]) -> tuple[list[float | None], bool]:
    both = [(test["before"], test["after"]) for test in tests if test["before"] and test["after"]]
    for gpu in (True, False):
        pairs = [tuple(side["gpu_seconds"] if gpu else side["seconds"] for side in pair if side) for pair in both]
        known = [(old, new) for old, new in pairs if old is not None and new is not None]
        if known:
            return [sum(old for old, _ in known), sum(new for _, new in known)], gpu
    return [None, None], False


def sides_of(document: ValidationDocument, name: str) -> dict[str, tuple[RunSide, Outcomes]]:
    """Of a validation's file, by its devices' names. `name`: what the file is called."""
    found: dict[str, tuple[RunSide, Outcomes]] = {}
    for device in document["devices"]:
        outcomes: dict[str, tuple[str, ComparedOutcome]] = {
            test["id"]: (
                test["kernel"],
                {
                    "verdict": test["verdict"],
                    "kernel_digest": document["kernel_digests"].get(test["kernel"], ""),
                    "bound_share": as_json(share_of(test["worst"], test["tolerances"], test["max_abs_error"])),
                    "max_abs_error": test["max_abs_error"],
                    "seconds": test["seconds"].get("run"),
                    "gpu_seconds": test["seconds"].get("gpu"),
                },
            )
            for test in document["tests"]
            if test["device"] == device["id"]
        }
        side: RunSide = {
            "run": name,
            "device": label_of(device),
            "adapter": device["adapter"]["description"],
            "created": document["created"],
            "tests": len(outcomes),
        }
        found[label_of(device)] = (side, outcomes)
    return found
