"""Mistakes at the edges of tiles and workgroups."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import Code, Span


def tile_column(code: Code) -> Iterator[Edit]:
    """One column of threads reads what its neighbour reads, or one workgroup in two what the one before it reads."""
    for access in code.accesses:
        if access.stores:
            continue
        index = code[access.index]
        for axis, size in code.group_size.items():
            thread = f"i32(threadIdx.{axis})"
            if size > 1 and thread in index:
                text = index.replace(thread, f"min({thread}, {size - 2}i)")
                yield access.index, text, f"last threads along {axis} as those before in {shown(code[access.whole])}"
        for group in filter(None, (code.group, "i32(blockIdx.y)")):
            if re.search(rf"(?<!\w){re.escape(group)}(?!\w)", index):
                text = re.sub(rf"(?<!\w){re.escape(group)}(?!\w)", f"({group} & -2i)", index)
                yield access.index, text, f"odd workgroups as those before in {shown(code[access.whole])}"


def missing_last_tile(code: Code) -> Iterator[Edit]:
    """The last workgroup does nothing, or what is left over after whole tiles is left out."""
    for match in re.finditer(r"blockIdx\.z \* gridDim\.x \+ blockIdx\.x (>=?) podArgs", code.text):
        span = Span(match.start(1), match.end(1))
        yield span, f"+ 1u {match[1]}", "the last workgroup does nothing"
    if "blockIdx.y" in code.text[code.body :]:
        span = Span(code.body, code.body)
        text = "\n  if (gridDim.y > 1u && blockIdx.y + 1u == gridDim.y) { return; }"
        yield span, text, "the last row of workgroups does nothing"
    size = code.group_size.get("x", 1)
    for match in code.matches(r"i32\(threadIdx\.x\)\) < (\d+)i"):
        extent = int(match[1])
        whole = extent - extent % size
        if 0 < whole < extent:
            span = Span(match.start(1), match.end(1))
            yield span, str(whole), f"only {whole} of {extent}, whole tiles of {size}"
