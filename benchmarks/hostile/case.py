"""One fuzzed document, and what whoever makes it has at hand."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile import mutate
from benchmarks.hostile.checks import Checks, Outcome


class Case:
    """One fuzzed document: where it lies, and what chance it is made by."""

    def __init__(self, seed: str, suite: Path, checks: Checks, outside: Path) -> None:
        self.choose = random.Random(seed)
        self.suite = suite
        self.checks = checks
        self.outside = outside
        self.outcome = Outcome()

    def watched(self, action: Callable[[], object]) -> None:
        """Run it, with everybody watching (worker.py)."""
        action()

    def mutated(self, data: bytes) -> bytes:
        """As JSON where it is some, else as bytes."""
        try:
            return mutate.mutate_json(json.loads(data), self.choose, self.outside)
        except ValueError:
            return mutate.mutate_bytes(data, self.choose)

    def any_of(self, pattern: str) -> Path:
        return self.choose.choice(sorted(path for path in self.suite.glob(pattern) if path.is_file()))

    def read_suite(self, *wanted: str) -> None:
        self.checks.suite(self.suite, self.outcome, self.choose, wanted)
