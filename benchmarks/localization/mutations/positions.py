"""Mistakes in kernels that read a decoder's positions and caches, which show from some position on, or at one only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit
from benchmarks.localization.wgsl_text import Code, Span

_PLACES = (16, 48, 64)
"""From these on: behind what is carved, and before the capacity's end."""

_ROW = re.compile(r"\((row_of_head) \+ (at|tile \+ j)\) \*")
_SEEN = "at <= position"


def window(code: Code) -> Iterator[Edit]:
    """Only so many places before are seen, or those of a window are one less."""
    for found in re.finditer(re.escape(_SEEN), code.text):
        for size in _PLACES:
            text = f"{_SEEN} && at + {size} > position"
            yield Span(found.start(), found.end()), text, f"no place is seen {size} before a position"
    for found in re.finditer(r"(?:at > position|position) - (\d+)\b", code.text):
        text = str(int(found[1]) - 1)
        yield Span(found.start(1), found.end(1)), text, f"a window is one place less than {found[1]}"


def position_modulo(code: Code) -> Iterator[Edit]:
    for span in _reads(code):
        for size in (16, 32, 64):
            yield span, f"({code[span]} & {size - 1}i)", f"{code[span]} modulo {size}"


def position_limited(code: Code) -> Iterator[Edit]:
    for span in _reads(code):
        for place in _PLACES:
            yield span, f"min({code[span]}, {place - 1}i)", f"{code[span]} is {place - 1} at most"


def stale_row(code: Code) -> Iterator[Edit]:
    """A row of keys or values, or each from one on, is that of the place before."""
    for span, row, place in _rows(code):
        for size in _PLACES:
            for sign, words in (("==", "row"), (">=", "rows from")):
                text = f"({row} + {place} - select(0, 1, {place} {sign} {size})) *"
                yield span, text, f"{words} {size} of {place} are of the place before"


def wrong_head(code: Code) -> Iterator[Edit]:
    """Rows of the first head's keys or values, from a place on."""
    for span, row, place in _rows(code):
        for size in _PLACES:
            yield span, f"(select({row}, 0, {place} >= {size}) + {place}) *", f"head 0 from {size} of {place} on"


def row_not_written(code: Code) -> Iterator[Edit]:
    for found in re.finditer(r"\bfirst < \w+ - token", code.text):
        for size in _PLACES:
            yield Span(found.start(), found.end()), f"first < {size} - token", f"no row from {size} on is written"


def _reads(code: Code) -> list[Span]:
    """Where a kernel reads a position."""
    names = ("positions", "positions_ptr")
    return [access.whole for access in code.accesses if access.name in names and not access.stores]


def _rows(code: Code) -> list[tuple[Span, str, str]]:
    """(What is replaced, a head's first row, the place that is read)."""
    return [(Span(found.start(), found.end()), found[1], f"({found[2]})") for found in _ROW.finditer(code.text)]
