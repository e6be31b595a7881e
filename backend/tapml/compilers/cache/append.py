"""Appending to a cache in place: new rows into their places, and nothing else of it is touched. How many places it has
is read off the buffer, so that one kernel serves caches of any capacity. A cache of several sequences is in
blocks: where those of each token's text lie is one argument more."""

from __future__ import annotations

from typing import Any

from tapml.lowering.by_hand import MadeWith
from tapml.lowering.operator import Operator

CACHE, NEW, POSITIONS, BLOCKS = range(4)
"""Places among the operator's arguments; the last of them is what the cache becomes."""

_LANES = 64


def append(operator: Operator, made: MadeWith) -> str | None:
    """WGSL; None for tensors that it is not written for."""
    arguments = operator.arguments
    paged = made.also == ("blocks",) and [*made.options] == ["block"]
    dtypes = ["float32", "float32", "int32", *(["int32"] if paged else []), "float32"]
    if (not paged and (made.also or made.options)) or [found["dtype"] for found in arguments] != dtypes:
        return None
    heads, _, dim = arguments[CACHE]["shape"]
    fixed = all(isinstance(size, int) and size > 0 for size in arguments[CACHE]["shape"])
    if not fixed:
        return None
    if not paged:
        return _TEXT.format(ROW=heads * dim, DIM=dim, LANES=_LANES, BLOCKS="", PLACE=_FOLLOWING)
    block, count = int(made.options["block"]), arguments[BLOCKS]["shape"][1]
    place = _IN_BLOCKS.format(BLOCK=block, COUNT=count, CAPACITY=count * block)
    return _TEXT.format(ROW=heads * dim, DIM=dim, LANES=_LANES, BLOCKS=_BLOCKS, PLACE=place)


def append_grid(operator: Operator) -> list[Any]:
    """Workgroups: pieces of a row, tokens, heads."""
    heads, tokens, dim = operator.arguments[NEW]["shape"]
    return [-(-dim // _LANES), tokens, heads]


_BLOCKS = """\
@group(0) @binding(3) var<storage, read> blocks : array<i32>;
"""

_FOLLOWING = """\
  let first = positions[0];
  // Rows that would lie outside are left out. A sum may be beyond what an i32 holds: each is held against the other.
  let inside = first < capacity - token && first >= -token;
  let row = first + token;
"""

_IN_BLOCKS = """\
  let position = positions[token];
  let block = blocks[token * {COUNT} + clamp(position, 0, {CAPACITY} - 1) / {BLOCK}];
  // Rows that would lie outside are left out.
  let inside = position >= 0 && position < {CAPACITY} && block >= 0 && block < (capacity + {BLOCK} - 1) / {BLOCK};
  let row = block * {BLOCK} + position % {BLOCK};
"""

_TEXT = """\
@group(0) @binding(0) var<storage, read_write> cache : array<f32>;
@group(0) @binding(1) var<storage, read> added : array<f32>;
@group(0) @binding(2) var<storage, read> positions : array<i32>;
{BLOCKS}
@compute @workgroup_size({LANES})
fn cache_append(
  @builtin(workgroup_id) group : vec3<u32>,
  @builtin(num_workgroups) all : vec3<u32>,
  @builtin(global_invocation_id) id : vec3<u32>,
) {{
  let column = i32(id.x);
  let token = i32(group.y);
  let head = i32(group.z);
  let capacity = i32(arrayLength(&cache)) / {ROW};
{PLACE}  if (column < {DIM} && inside && row < capacity) {{
    let place = (head * capacity + row) * {DIM} + column;
    cache[place] = added[(head * i32(all.y) + token) * {DIM} + column];
  }}
}}
"""
