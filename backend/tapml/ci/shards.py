"""Splitting a run over several machines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tapml.errors import InputError

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
