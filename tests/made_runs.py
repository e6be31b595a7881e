"""Runs of `tapml test` on devices that answer as a test says, and documents made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from helpers import FakeRunner, verdict
from tapml.devices import Blobs, DeviceHub
from tapml.results.verdicts import VERDICTS

Verdicts = Callable[[str, str, int], Mapping[str, Any]]
"""verdicts(kernel, test, attempt from 1): what of a pass is different."""


def failing(**changes: Any) -> dict[str, Any]:
    """A verdict that is a fail with all its evidence."""
    element = {"index": [1, 2], "expected": 0.5, "got": "NaN", "bound": 0.25}
    comparison = {
        "total": 96, "mismatched": 7, "unbounded": 0, "tied": 0, "nan": 1, "inf": 0,
        "max_abs_error": 0.25, "max_rel_error": 0.5, "max_ulp": 4096,
        "ulp_histogram": [80, 9, 6, 1], "first": element, "worst": element,
    }  # fmt: skip
    return {"verdict": "fail", "message": "7 of 96 elements differ", "outputs": [comparison], **changes}


def erring(message: str = "it does not compile") -> dict[str, Any]:
    """A verdict that is an error of the WGSL compiler."""
    found = {"severity": "error", "line": 3, "column": 5, "message": "no such name", "source": "  x = y;", "file": "?"}
    error = {"kind": "compile", "message": message, "diagnostics": [found], "gpu_message": "the GPU's own words"}
    return {"verdict": "error", "message": message, "outputs": [], "error": error}


class FakeServer:
    """What `tapml test` needs of a server: devices by the names they are asked for, some with a page's picture."""

    def __init__(self, runners: Mapping[str, FakeRunner], pictures: Mapping[str, bytes | None] | None = None) -> None:
        self.stopped = False
        processes = {
            name: SimpleNamespace(screenshot=lambda picture=picture: picture)
            for name, picture in (pictures or {}).items()
        }
        self.state = SimpleNamespace(
            blobs=Blobs(),
            processes=processes,
            runner_url="http://x/runner",
            device=lambda name, *rest: runners[name].device,
        )

    def stop(self) -> None:
        self.stopped = True

    @contextmanager
    def serve(self, *_: Any) -> Iterator[FakeServer]:
        yield self


def answering(hub: DeviceHub, name: str, verdicts: Verdicts, **hello: Any) -> FakeRunner:
    """A device whose verdicts are passes, but for what `verdicts` says."""
    attempts: dict[str, int] = {}

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            attempts[test["id"]] = attempts.get(test["id"], 0) + 1
            changes = verdicts(test["kernel"], test["id"], attempts[test["id"]])
            runner.progress(message, {**verdict(test), **changes})
        runner.finish(message)

    return FakeRunner(hub, answer, name, **hello)


def result(**changes: Any) -> dict[str, Any]:
    """An entry of tapml.test/1's `tests` that passed, or as `changes` say."""
    return {
        "suite": "s", "id": "n000.s0", "node": "n000", "kernel": "matmul", "step": 0, "device": "d", "edited": False,
        "tolerances": [{"absolute": 1e-5, "relative": 1e-6, "reasons": ["a reason"]}], "verdict": "pass",
        "max_abs_error": 0.0, "max_rel_error": 0.0, "max_ulp": 0, "ulp_histogram": [4, 0, 0], "mismatched": 0,
        "unbounded": 0, "tied": 0, "total": 4, "nan": 0, "inf": 0,
        "first": None, "worst": None, "seconds": {"run": 0.5, "compare": 0.25},
        "message": "", "variant": "256", "error": None, "diagnostics": [], "attempts": ["pass"], "earlier": [],
        "flaky": False, "outcome": "pass", "fails_run": False, "expected": None, **changes,
    }  # fmt: skip


def bad(**changes: Any) -> dict[str, Any]:
    """One that fails the run."""
    element = {"output": 0, "index": [0], "expected": 1.0, "got": 2.0, "bound": 1e-5}
    failed = {
        "verdict": "fail", "outcome": "fail", "fails_run": True, "attempts": ["fail"], "mismatched": 1,
        "first": element, "worst": element, "max_abs_error": 1.0, "message": "1 of 4 elements differ",
    }  # fmt: skip
    return result(**{**failed, **changes})


def document(tests: Sequence[Mapping[str, Any]], **changes: Any) -> dict[str, Any]:
    """tapml.test/1 of one suite and device, with its sums."""
    device = {
        "id": "d", "name": "Fake 1", "runtime": "tests", "user_agent": "tests", "features": ["shader-f16"],
        "adapter": {"vendor": "none", "architecture": "", "device": "", "description": "fake"},
        "limits": {"maxBufferSize": 1024}, "requested": "chromium", "driver": "Playwright",
        "unavailable": None,
    }  # fmt: skip
    suite = {
        "id": "s", "digest": "0" * 16, "name": "s", "path": "/tmp/s.suite", "synthetic": False, "doubts": [],
        "edited_kernels": [], "tests": len(tests),
    }  # fmt: skip
    words = {word: sum(test["verdict"] == word for test in tests) for word in VERDICTS}
    outcomes = {word: sum(test["outcome"] == word for test in tests) for word in ("expected", "fixed")}
    failing_kernels = list(dict.fromkeys(test["kernel"] for test in tests if test["fails_run"]))
    return {
        "format": "tapml.test/1", "tapml": "0.1.0", "created": "2026-11-21T10:00:00+00:00", "interrupted": False,
        "shard": None, "baseline": None, "suites": [suite], "devices": [device], "tests": list(tests),
        "summary": {
            "total": len(tests), **words, **outcomes, "flaky": sum(test["flaky"] for test in tests),
            "fails_run": sum(test["fails_run"] for test in tests), "not_run": 0, "failing_kernels": failing_kernels,
            "seconds": 1.5, "devices": {"d": {"wall": 1.5}},
        },
        **changes,
    }  # fmt: skip
