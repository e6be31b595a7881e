"""The document of a run (tapml.test/1), and its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tapml import files
from tapml.ci.baseline import Judge
from tapml.ci.plan import Shard
from tapml.ci.run import CiRun
from tapml.errors import InputError
from tapml.results.run import RunDocument, RunSummary, RunTest
from tapml.results.verdicts import verdict_counts
from tapml.validation.events import now


def document(run: CiRun, judge: Judge, *, shard: Shard | None = None) -> RunDocument:
    """What was run so far, judged."""
    tests: list[RunTest] = []
    for planned in run.planned:
        for place in run.places:
            for test in planned.tests:
                if attempts := run.attempts.get((planned.id, place.id, test.id)):
                    key = run.key(planned, place, test)
                    judged = judge.judge(key, attempts, unavailable=place.unavailable is not None)
                    tests.append({"suite": planned.id, **attempts[-1], **judged})
    return {
        "format": "tapml.test/1",
        "tapml": version("tapml"),
        "created": now(),
        "interrupted": run.interrupted,
        "shard": str(shard) if shard else None,
        "baseline": str(judge.baseline.path) if judge.baseline else None,
        "suites": [
            {
                "id": planned.id,
                "digest": planned.suite.id,
                "name": planned.suite.name,
                "path": str(planned.suite.path),
                "synthetic": planned.suite.synthetic,
                "doubts": planned.suite.doubts,
                "edited_kernels": run.edited[planned.id],
                "tests": len(planned.tests),
            }
            for planned in run.planned
        ],
        "devices": [place.describe() for place in run.places],
        "tests": tests,
        "summary": _summary(run, tests),
    }


def _summary(run: CiRun, tests: Sequence[RunTest]) -> RunSummary:
    outcomes = Counter(test["outcome"] for test in tests)
    bad = [test for test in tests if test["fails_run"]]
    return {
        "total": len(tests),
        **verdict_counts(test["verdict"] for test in tests),
        "expected": outcomes["expected"],
        "fixed": outcomes["fixed"],
        "flaky": sum(test["flaky"] for test in tests),
        "fails_run": len(bad),
        "not_run": run.total - len(tests),
        "failing_kernels": list(dict.fromkeys(test["kernel"] for test in bad)),
        "seconds": round(run.wall, 4),
        "devices": {device: dict(parts) for device, parts in run.seconds.items()},
    }


def exit_code(found: RunDocument) -> int:
    """0 good, 1 something fails or got worse, 130 interrupted."""
    if found["interrupted"]:
        return 130
    return 1 if found["summary"]["fails_run"] else 0


def json_text(found: RunDocument) -> str:
    """As JSON with a line for each test: quick to write, and it still can be read and compared line by line."""
    lines = []
    for name, value in found.items():
        if name == "tests":
            tests = ",\n  ".join(_dumps(test) for test in found["tests"])
            lines.append(f' "tests": [\n  {tests}\n ]' if tests else ' "tests": []')
        else:
            lines.append(f" {_dumps(name)}: {files.json_text(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _dumps(value: object) -> str:
    return files.json_text(value, indent=None)


def write_report(path: Path, text: str | bytes) -> None:
    """Write a report, whole or not at all. Raises InputError where the file cannot be written."""
    data = text.encode() if isinstance(text, str) else text
    try:
        files.write_bytes(path, data)
    except OSError as error:
        raise InputError(files.cannot_write(path, error)) from error
