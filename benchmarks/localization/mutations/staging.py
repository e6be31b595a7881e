"""Mistakes of tiles in workgroup memory, and of the workgroups and invocations at their edges."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import Access, Code, Span


def _staged(code: Code) -> set[str]:
    return {name for name in re.findall(r"var<workgroup> (\w+) : array<f32, \d+>", code.text) if "pad_shared" in name}


def _of_tiles(code: Code, *, stores: bool) -> list[Access]:
    names = _staged(code)
    return [access for access in code.accesses if access.name in names and access.stores == stores]


def staged_elsewhere(code: Code) -> Iterator[Edit]:
    """An element of a tile is stored in another's place."""
    for access in _of_tiles(code, stores=True):
        index = code[access.index]
        for text, what in ((f"({index} ^ 1i)", "its neighbour's place"), (f"({index} & -2i)", "the place before it")):
            yield access.index, text, f"{shown(code[access.whole])} stored in {what}"


def staging_lost(code: Code) -> Iterator[Edit]:
    """An element of a tile is not stored."""
    for access in _of_tiles(code, stores=True):
        statement = code.statement(access.whole.start)
        yield statement, "", f"{shown(code[access.whole])} not stored"


def stale_tile(code: Code) -> Iterator[Edit]:
    """Only the first tile is loaded, or each second one."""
    for loop in re.findall(r"for \(var (ax3_0|ax\d_0\w*) : i32 = 0i; \w+ < \d+i; \w+\+\+\)", code.text):
        for access in _of_tiles(code, stores=True):
            statement = code.statement(access.whole.start)
            for condition, what in ((f"{loop} == 0i", "first tile"), (f"({loop} & 1i) == 0i", "even tiles")):
                text = f"if ({condition}) {{ {code[statement]} }}"
                yield statement, text, f"{shown(code[access.whole])} stored for the {what} only"


def neighbour_tile(code: Code) -> Iterator[Edit]:
    """The tile of the step before or beside it."""
    for access in code.loads:
        index = code[access.index]
        for loop in set(re.findall(r"\bax\d_0\b", index)):
            for text, what in ((f"max({loop} - 1i, 0i)", "the tile before"), (f"({loop} ^ 1i)", "the tile beside")):
                changed = re.sub(rf"\b{loop}\b", text, index)
                yield access.index, changed, f"{shown(code[access.whole])} of {what}"


def reversed_loop(code: Code) -> Iterator[Edit]:
    """One load counts the loop's variable down."""
    loops = dict(re.findall(r"for \(var (\w+) : i32 = 0i; \w+ < (\d+)i; \w+\+\+\)", code.text))
    for access in code.loads:
        for name, size in loops.items():
            if int(size) > 1 and re.search(rf"\b{name}\b", code[access.index]):
                text = re.sub(rf"\b{name}\b", f"({int(size) - 1}i - {name})", code[access.index])
                yield access.index, text, f"{name} counts down in {shown(code[access.whole])}"


def tile_read_elsewhere(code: Code) -> Iterator[Edit]:
    """One use of a tile reads another row or column of it."""
    for access in _of_tiles(code, stores=False):
        for by in (1, 8, 32):
            yield access.index, f"({code[access.index]} + {by}i)", f"{shown(code[access.whole])} read {by} further"


def swapped_lanes(code: Code) -> Iterator[Edit]:
    """What is loaded is that of the other invocation of a pair."""
    for access in code.loads:
        for thread in ("i32(threadIdx.x)", "i32(threadIdx.y)"):
            if thread in code[access.index]:
                text = code[access.index].replace(thread, f"({thread} ^ 1i)")
                yield access.index, text, f"{thread} exchanged in pairs in {shown(code[access.whole])}"


def idle_group(code: Code) -> Iterator[Edit]:
    """Some workgroups do nothing."""
    span = Span(code.body, code.body)
    for axis in "xy":
        if f"blockIdx.{axis}" in code.text[code.body :]:
            yield span, f"\n  if (blockIdx.{axis} % 3u == 2u) {{ return; }}", f"every third workgroup along {axis} idle"
            yield span, f"\n  if (blockIdx.{axis} == 0u) {{ return; }}", f"the first workgroup along {axis} idle"


def idle_threads(code: Code) -> Iterator[Edit]:
    """Some invocations do not store what they have."""
    size = code.group_size.get("x", 1)
    for access in code.accesses:
        if access.stores and access.name in code.outputs and size > 4:
            statement = code.statement(access.whole.start)
            for condition, what in (
                (f"threadIdx.x < {size - 2}u", "the last two"), ("(threadIdx.x & 3u) != 1u", "every fourth"),
            ):  # fmt: skip
                text = f"if ({condition}) {{ {code[statement]} }}"
                yield statement, text, f"{what} of {size} invocations do not store {shown(code[access.whole])}"
