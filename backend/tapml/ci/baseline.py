"""Expected failures (tapml.baseline/1): which tests may fail, why, and until when (docs/results-format.md)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tapml.errors import InputError
from tapml.files import cannot_write, write_json
from tapml.formats import format_version, validated, whole_pairs
from tapml.protocol.fields import day
from tapml.results import SEVERITY, Verdict
from tapml.results.checks import BASELINE
from tapml.results.run import BaselineDocument, BaselineEntry
from tapml.strict_json import parse_json
from tapml.validation.events import now

FORMAT = "tapml.baseline/1"
_MOST_BYTES = 32_000_000

Key: TypeAlias = tuple[str, str, str, str]
"""Suite's name, test, kernel, device as it was asked for."""


def rank(verdict: Verdict) -> int:
    """Further on is worse."""
    return SEVERITY.index(verdict)


@dataclass(frozen=True)
class Expected:
    """One test on one device that is expected not to pass. `expires`: the last day on which this holds."""

    suite: str
    test: str
    kernel: str
    device: str
    verdict: Verdict
    reason: str
    expires: datetime.date | None

    @property
    def key(self) -> Key:
        return (self.suite, self.test, self.kernel, self.device)

    def expired(self, today: datetime.date) -> bool:
        return self.expires is not None and today > self.expires

    def to_json(self) -> BaselineEntry:
        return {
            "suite": self.suite,
            "test": self.test,
            "kernel": self.kernel,
            "device": self.device,
            "verdict": self.verdict,
            "reason": self.reason,
            "expires": self.expires.isoformat() if self.expires else None,
        }


@dataclass(frozen=True)
class Baseline:
    """All expectations of one file."""

    path: Path
    created: str
    expected: Mapping[Key, Expected]

    def find(self, key: Key) -> Expected | None:
        return self.expected.get(key)

    def write(self, expected: Iterable[Expected]) -> None:
        """Replace the file, whole or not at all. Raises InputError where it cannot be written."""
        ordered = sorted(expected, key=lambda entry: (entry.suite, entry.kernel, entry.device, entry.test))
        document: BaselineDocument = {
            "format": "tapml.baseline/1",
            "created": now(),
            "expected": [entry.to_json() for entry in ordered],
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
            return Baseline(path, "", {})
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
    found: dict[Key, Expected] = {}
    for number, entry in enumerate(whole["expected"], 1):
        until = datetime.date.fromisoformat(entry["expires"]) if entry["expires"] else None
        key = entry["suite"], entry["test"], entry["kernel"], entry["device"]
        expected = Expected(*key, entry["verdict"], entry["reason"], until)
        if expected.key in found:
            raise InputError(
                f"{path}: entry {number}: {expected.test} of {expected.suite} on {expected.device} is there twice"
            )
        found[expected.key] = expected
    return Baseline(path, whole["created"], found)


def parse_expiry(text: str) -> datetime.date | None:
    """From `--expires`: a date, or "never". Raises InputError for anything else."""
    try:
        return None if text == "never" else datetime.date.fromisoformat(day(text))
    except ValueError:
        raise InputError(f"--expires {text}: write a date such as 2027-01-31, or never") from None
