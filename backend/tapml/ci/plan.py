"""What a run is going to do: suites opened, their tests chosen, in the order in which shards cut them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tapml.errors import InputError
from tapml.files import slug, unique
from tapml.suite import CarvedTest, Suite

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """Part `index` (from 1) of `count`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def part(self, things: Sequence[T]) -> list[T]:
        """This shard's run of `things`: contiguous, so that each kernel compiles in as few shards as possible.

        The shards' parts are disjoint, together they are all things, and their sizes differ by at most one.
        """
        begin = len(things) * (self.index - 1) // self.count
        end = len(things) * self.index // self.count
        return list(things[begin:end])


def parse_shard(text: str) -> Shard:
    """From "2/5". Raises InputError for anything else."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", text.strip(), re.ASCII)
    if found and int(found[1]) <= int(found[2]):
        return Shard(int(found[1]), int(found[2]))
    raise InputError(f"--shard {text}: write it as I/N with I from 1 to N, such as 1/4")


@dataclass(frozen=True)
class PlannedSuite:
    """One suite and those of its tests that this run is about. `id` is unique among the run's suites."""

    id: str
    suite: Suite
    tests: tuple[CarvedTest, ...]
    kernels: frozenset[str]
    """Kernels that `--kernel` lets through, whatever the shard holds of them."""


def plan(paths: Sequence[Path], *, kernels: Sequence[str] = (), shard: Shard | None = None) -> list[PlannedSuite]:
    """Open the suites and choose tests: of these kernels only (all, where none is named), of this shard only.

    Tests are in the order of suites, then kernels. Raises InputError for what is no suite, for a suite given twice,
    and for a kernel that no suite has.
    """
    for number, path in enumerate(paths):
        if path.resolve() in {other.resolve() for other in paths[:number]}:
            raise InputError(f"{path} is given twice: give each suite once")
    suites = [Suite(path) for path in paths]
    for name in kernels:
        if not any(name in suite.kernels for suite in suites):
            known = ", ".join(list(dict.fromkeys(k for suite in suites for k in suite.kernels))[:8])
            raise InputError(f"no suite has a kernel {name!r}; there are {known}, ...: `tapml show SUITE` lists them")
    ids: list[str] = []
    for suite in suites:
        ids.append(unique(slug(suite.name, "suite").lower(), ids.__contains__))
    chosen = [frozenset(name for name in suite.kernels if not kernels or name in kernels) for suite in suites]
    ordered = [
        (number, test)
        for number, suite in enumerate(suites)
        for kernel in suite.kernels
        if kernel in chosen[number]
        for test in suite.tests
        if test.kernel == kernel
    ]
    part = ordered if shard is None else shard.part(ordered)
    for number, kernel in dict.fromkeys((number, test.kernel) for number, test in part):
        suites[number].kernel_files(kernel)  # a damaged one is an error before any browser starts
    return [
        PlannedSuite(ids[number], suite, tuple(t for of, t in part if of == number), chosen[number])
        for number, suite in enumerate(suites)
    ]
