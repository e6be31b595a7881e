"""What a kernel's text shows: workgroup memory that is written and read with no barrier between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

_SHARED = re.compile(r"var<workgroup>\s+(\w+)\s*:\s*array<")
_MOST_LINES = 20_000
"""That are looked at: each loop doubles those in it."""

_LOOP = re.compile(r"\s*(for|while|loop)\b")


@dataclass(frozen=True)
class Unordered:
    """Two accesses to elements of one array in workgroup memory that nothing orders, by their lines, counted from 1."""

    array: str
    written: int
    read: int

    def words(self) -> str:
        """What is true of the text; whether other invocations' elements are read is for people to judge."""
        return (
            f"the kernel writes workgroup memory {self.array} in line {self.written} and reads other elements of it in "
            f"line {self.read}, with no workgroupBarrier() between"
        )


@dataclass
class _Since:
    """Accesses since the last barrier: array -> (index as it is written, line)."""

    written: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    read: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


def unordered(wgsl: str) -> Unordered | None:
    """The first such pair, as the lines follow on each other and loops begin again; none where each index that is read
    is the one that was written, which is the same invocation's."""
    arrays = _SHARED.findall(wgsl)
    lines = wgsl.splitlines()
    if not arrays or not any("workgroupBarrier" in line for line in lines):
        return None  # one that was never meant to share anything keeps to its own elements
    access = re.compile(rf"\b({'|'.join(map(re.escape, arrays))})\[")
    since = _Since()
    for number in islice(_order(lines), _MOST_LINES):
        line = lines[number].split("//")[0]
        if "workgroupBarrier" in line:
            since = _Since()
        if (found := _line(line, number + 1, access, since)) is not None:
            return found
    return None


def _line(line: str, number: int, access: re.Pattern[str], since: _Since) -> Unordered | None:
    """What a line adds to what there is since the last barrier; the pair that it makes with that, if any."""
    stores: list[tuple[str, str]] = []
    loads: list[tuple[str, str]] = []
    for match in access.finditer(line):
        if line.startswith("var<workgroup>"):
            continue
        end, ahead = _closing(line, match.end() - 1), line[: match.start()].rstrip()
        index = line[match.end() : end].replace(" ", "")
        begins = not ahead or ahead[-1] in "{};)" or ahead.endswith("else")
        stored = begins and re.match(r"\s*=[^=]", line[end + 1 :])
        (stores if stored else loads).append((match[1], index))
    for array, index in loads:
        before = next((at for other, at in since.written.get(array, ()) if other != index), None)
        if before is not None:
            return Unordered(array, before, number)
    for array, index in stores:
        before = next((at for other, at in since.read.get(array, ()) if other != index), None)
        if before is not None:
            return Unordered(array, number, before)
    for kind, accesses in ((since.read, loads), (since.written, stores)):
        for array, index in accesses:
            kind.setdefault(array, []).append((index, number))
    return None


def _closing(line: str, position: int) -> int:
    depth = 0
    for place in range(position, len(line)):
        depth += {"[": 1, "]": -1}.get(line[place], 0)
        if depth == 0:
            return place
    return len(line)


def _order(lines: Sequence[str], begin: int = 0, end: int | None = None) -> Iterator[int]:
    """Numbers of lines as they run, each loop twice: what one turn ends with, the next one begins with."""
    number = begin
    end = len(lines) if end is None else end
    while number < end:
        if _LOOP.match(lines[number]) and (last := _block(lines, number, end)) > number:
            for _ in range(2):
                yield from _order(lines, number + 1, last)
            number = last + 1
        else:
            yield number
            number += 1


def _block(lines: Sequence[str], start: int, end: int) -> int:
    """The line in which the block ends that begins in line `start`."""
    depth = 0
    for number in range(start, end):
        depth += lines[number].count("{") - lines[number].count("}")
        if depth <= 0 and "{" in "".join(lines[start : number + 1]):
            return number
    return start
