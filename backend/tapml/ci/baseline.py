"""Expected failures (tapml.baseline/1): which tests may fail, why, and until when (docs/results-format.md), and what a
verdict means for a run: good, bad, expected or fixed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

from tapml.errors import InputError
from tapml.files import cannot_write, write_json
from tapml.formats import format_version, validated, whole_pairs
from tapml.protocol.fields import day
from tapml.protocol.methods import Verdict
from tapml.results.checks import ATTEMPT, BASELINE
from tapml.results.run import BaselineDocument, BaselineEntry, Expectation, Judgement, Outcome
from tapml.results.validation import TestResult
from tapml.results.verdicts import FAILING, SEVERITY
from tapml.strict_json import parse_json
from tapml.validation.events import now

FORMAT = "tapml.baseline/1"
_MOST_BYTES = 32_000_000

Key: TypeAlias = tuple[str, str, str, str]
"""Suite's name, test, kernel, device as it was asked for."""


def rank(verdict: Verdict) -> int:
    """Further on is worse."""
    return SEVERITY.index(verdict)


def key_of(entry: BaselineEntry) -> Key:
    """What an entry is known by."""
    return entry["suite"], entry["test"], entry["kernel"], entry["device"]


def expired(entry: BaselineEntry, today: datetime.date) -> bool:
    """`expires` is the last day on which it holds."""
    return entry["expires"] is not None and entry["expires"] < today.isoformat()


@dataclass(frozen=True)
class Baseline:
    """All expectations of one file."""

    path: Path
    expected: Mapping[Key, BaselineEntry]

    def write(self, expected: Iterable[BaselineEntry]) -> None:
        """Replace the file, whole or not at all. Raises InputError where it cannot be written."""
        document: BaselineDocument = {
            "format": "tapml.baseline/1",
            "created": now(),
            "expected": sorted(expected, key=itemgetter("suite", "kernel", "device", "test")),
        }
        try:
            write_json(self.path, document)
        except OSError as error:
            raise InputError(cannot_write(f"the baseline {self.path}", error)) from error


def read_baseline(path: Path, *, may_be_new: bool = False) -> Baseline:
    """`may_be_new`: a file that is not there is an empty baseline.

    Raises InputError, naming the file and the entry, where it is no baseline, damaged, or of a newer version.
    """
    try:
        # Where it lies is its user's choice; a FIFO would be waited for.
        if path.exists() and not path.is_file():
            raise InputError(f"the baseline {path} is no file")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        if may_be_new:
            return Baseline(path, {})
        raise InputError(f"{path} does not exist: record a baseline with --baseline {path} --update-baseline") from None
    except OSError as error:
        raise InputError(f"the baseline {path} cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise InputError(f"the baseline {path} is larger than {_MOST_BYTES} bytes")
    document = parse_json(
        whole_pairs(data), f"the baseline {path}", "correct it, or record it anew with --update-baseline"
    )
    if not isinstance(document, dict):
        raise InputError(f"the baseline {path} is no JSON object: see docs/results-format.md")
    format_version(path, document, FORMAT, "a baseline")
    whole: BaselineDocument = validated(path, BASELINE, document, ": see docs/results-format.md")
    found: dict[Key, BaselineEntry] = {}
    for number, entry in enumerate(whole["expected"], 1):
        suite, test, _, device = key = key_of(entry)
        if key in found:
            raise InputError(f"{path}: entry {number}: {test} of {suite} on {device} is there twice")
        found[key] = entry
    return Baseline(path, found)


def parse_expiry(text: str) -> datetime.date | None:
    """From `--expires`: a date, or "never". Raises InputError for anything else."""
    try:
        return None if text == "never" else datetime.date.fromisoformat(day(text))
    except ValueError:
        raise InputError(f"--expires {text}: write a date such as 2027-01-31, or never") from None


@dataclass(frozen=True)
class Judge:
    """Holds verdicts against a baseline, where there is one."""

    baseline: Baseline | None
    today: datetime.date
    fail_on_flaky: bool = False

    def excused(self, key: Key, verdict: Verdict) -> bool:
        """Is this verdict no worse than what is expected of the test?"""
        entry = self._entry(key)
        return entry is not None and not expired(entry, self.today) and rank(verdict) <= rank(entry["verdict"])

    def judge(self, key: Key, attempts: Sequence[TestResult], *, unavailable: bool) -> Judgement:
        """What a test's entry says beyond its last result.

        `unavailable`: the whole device cannot run WebGPU, which must not look as good as one operator without WGSL.
        """
        verdict = attempts[-1]["verdict"]
        flaky = verdict == "pass" and len(attempts) > 1
        entry = self._entry(key)
        excused = self.excused(key, verdict)
        outcome: Outcome = verdict
        if entry is not None and excused and (verdict != "pass" or flaky):
            # One that passes only sometimes still needs its entry.
            outcome = "expected" if flaky or verdict == entry["verdict"] else "fixed"
        elif entry is not None and verdict == "pass" and not flaky:
            outcome = "fixed"
        expected: Expectation | None = None
        if entry is not None:
            expected = {
                "verdict": entry["verdict"],
                "reason": entry["reason"],
                "expires": entry["expires"],
                "expired": expired(entry, self.today),
            }
        bad = verdict in FAILING or (verdict == "unsupported" and (unavailable or self.baseline is not None))
        flaky_fails = flaky and self.fail_on_flaky and outcome != "expected"
        return {
            "attempts": [attempt["verdict"] for attempt in attempts],
            "earlier": [ATTEMPT.validate_python(attempt) for attempt in attempts[:-1]],
            "flaky": flaky,
            "outcome": outcome,
            "fails_run": (bad and not excused) or flaky_fails,
            "expected": expected,
        }

    def _entry(self, key: Key) -> BaselineEntry | None:
        return self.baseline.expected.get(key) if self.baseline else None
