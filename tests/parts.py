"""A part of what takes long: `TEST_PART=2/3` keeps the slow tests of the second of three parts, all that are not slow,
and of what these carve a third that is compared everywhere (tests/everywhere.py).

By the seconds that they took when they were measured (`make slow-seconds`), parts take about as long as each other.
What a test's part is depends on nothing else, so that each test is in exactly one, also one that was never measured.
The tests of a file share what they set up, and stay together. A file that would keep one worker busy after the others
have ended is dealt out, in groups that do not mostly set up what they share.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("slow-seconds.json")

SETUP = "setup"
"""Of a file, beside its tests' names: the seconds of what its tests share."""

LEAST = 0.1
"""Seconds: what is measured is rounded to it."""

WORKERS = 3
"""As many as the Makefile starts."""

Measured = Mapping[str, Mapping[str, float]]
"""By file, by test: seconds."""


class Parts:
    """Who is in which of `count` parts, from 1. Each folder, whose tests run by themselves, is dealt out by itself."""

    def __init__(self, measured: Measured, count: int) -> None:
        self.count = count
        self.seconds: dict[str, list[float]] = {}
        """By folder: of each part, of all workers together."""
        self._measured = measured
        self._found: dict[str, int] = {}
        for folder in sorted({_folder(file) for file in measured}):
            self.seconds[folder] = self._dealt({f: tests for f, tests in measured.items() if _folder(f) == folder})

    def of(self, test: str) -> int:
        """The part of a slow test by its full name, `FILE::NAME`."""
        file, _, _ = test.partition("::")
        for name in (test, file):
            if name in self._found:
                return self._found[name]
        unknown = test if file in self._measured else file
        return by_name(unknown, self.count)

    def _dealt(self, measured: Measured) -> list[float]:
        """The longest first, to the part that has the least."""
        parts = [0.0] * self.count
        whole = {file: sum(tests.values()) for file, tests in measured.items()}
        most = sum(whole.values()) / self.count / WORKERS
        units: list[tuple[float, list[str]]] = []
        for file, seconds in whole.items():
            units += self._apart(file, measured[file], most) if seconds > most else [(seconds, [file])]
        for seconds, names in sorted(units, key=lambda unit: (-unit[0], unit[1])):
            part = parts.index(min(parts))
            parts[part] += seconds
            self._found |= dict.fromkeys(names, 1 + part)
        return parts

    def _apart(self, file: str, measured: Mapping[str, float], most: float) -> list[tuple[float, list[str]]]:
        """The tests of a file in so many groups that none is longer than that or than what its tests share, which each
        group sets up."""
        tests = dict(measured)
        setup = tests.pop(SETUP, 0.0)
        count = min(self.count, math.ceil(sum(tests.values()) / max(most, setup, LEAST)))
        groups: list[tuple[float, list[str]]] = [(setup, []) for _ in range(max(1, count))]
        for name in _longest(tests):
            least = min(range(len(groups)), key=lambda n: groups[n][0])
            seconds, names = groups[least]
            groups[least] = seconds + tests[name], [*names, f"{file}::{name}"]
        return groups


def by_name(name: str, count: int) -> int:
    """The part, from 1, of what was never measured."""
    return 1 + zlib.crc32(name.encode()) % count


def _folder(file: str) -> str:
    return file.partition("/")[0]


def _longest(seconds: Mapping[str, float]) -> list[str]:
    """Names, in an order that no machine changes."""
    return sorted(seconds, key=lambda name: (-seconds[name], name))


def pytest_configure() -> None:
    """Says what is wrong before there are workers."""
    chosen()


def chosen() -> tuple[int, int] | None:
    """The part, and of how many; None for all.

    Raises:
        pytest.UsageError: TEST_PART is no part of several.
    """
    given = os.environ.get("TEST_PART")
    if not given:
        return None
    found = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", given)
    if found is None or int(found[1]) > int(found[2]):
        raise pytest.UsageError(f"{given!r} is no part of the tests: write one like 2/3, the second of three")
    return int(found[1]), int(found[2])


def only_part(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests of other parts. What is measured to take longest is begun first."""
    if (found := chosen()) is None:
        return
    part, count = found
    measured: Measured = json.loads(SECONDS.read_text())
    parts = Parts(measured, count)
    kept, others = [], []
    seconds: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("slow") is None:
            kept.append(item)
        elif parts.of(item.nodeid) == part:
            kept.append(item)
            file, _, name = item.nodeid.partition("::")
            seconds[file] += measured.get(file, {}).get(name, 0)
        else:
            others.append(item)
    items[:] = sorted(kept, key=lambda item: -seconds[item.nodeid.partition("::")[0]])
    config.hook.pytest_deselected(items=others)
