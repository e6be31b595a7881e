"""Mistakes at the edges of tiles and workgroups."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import Code, Span


def tile_column(code: Code) -> Iterator[Edit]:
    """One column of threads reads what its neighbour reads, or one workgroup in two what the one before it reads."""
    for whole, where in code.reads:
        for thread in code.threads:
            name = rf"(?<!\w){re.escape(thread.text)}(?!\w)"
            if re.search(name, code[where]):
                text = re.sub(name, thread.instead, code[where])
                yield where, text, f"{thread.description} in {shown(code[whole])}"


def missing_last_tile(code: Code) -> Iterator[Edit]:
    """The last workgroup does nothing, or what is left over after whole tiles is left out."""
    for match in re.finditer(r"blockIdx\.z \* gridDim\.x \+ blockIdx\.x (>=?) podArgs", code.text):
        span = Span(match.start(1), match.end(1))
        yield span, f"+ 1u {match[1]}", "the last workgroup does nothing"
    if "blockIdx.y" in code.text[code.body :]:
        span = Span(code.body, code.body)
        text = "\n  if (gridDim.y > 1u && blockIdx.y + 1u == gridDim.y) { return; }"
        yield span, text, "the last row of workgroups does nothing"
    for span, extent, whole, tile in code.last_tiles():
        if 0 < whole < extent:
            yield span, str(whole), f"only {whole} of {extent}, whole tiles of {tile}"
