"""Appending to a cache in place: new rows into their places, and nothing else of it is touched. How many places it has
is read off the buffer, so that one kernel serves caches of any capacity."""

from __future__ import annotations

from typing import Any

from tapml.lowering.by_hand import MadeWith
from tapml.lowering.operator import Operator

CACHE, NEW, POSITIONS, AFTER = range(4)
"""Places among the operator's arguments."""

_LANES = 64


def append(operator: Operator, made: MadeWith) -> str | None:
    """WGSL; None for tensors that it is not written for."""
    arguments = operator.arguments
    if (
        made.also
        or made.options
        or [found["dtype"] for found in arguments] != ["float32", "float32", "int32", "float32"]
    ):
        return None
    heads, _, dim = arguments[CACHE]["shape"]
    fixed = all(isinstance(size, int) and size > 0 for size in arguments[CACHE]["shape"])
    return _TEXT.format(ROW=heads * dim, DIM=dim, LANES=_LANES) if fixed else None


def append_grid(operator: Operator) -> list[Any]:
    """Workgroups: pieces of a row, tokens, heads."""
    heads, tokens, dim = operator.arguments[NEW]["shape"]
    return [-(-dim // _LANES), tokens, heads]


_TEXT = """\
@group(0) @binding(0) var<storage, read_write> cache : array<f32>;
@group(0) @binding(1) var<storage, read> added : array<f32>;
@group(0) @binding(2) var<storage, read> positions : array<i32>;

@compute @workgroup_size({LANES})
fn cache_append(
  @builtin(workgroup_id) group : vec3<u32>,
  @builtin(num_workgroups) all : vec3<u32>,
  @builtin(global_invocation_id) id : vec3<u32>,
) {{
  let column = i32(id.x);
  let token = i32(group.y);
  let head = i32(group.z);
  let first = positions[0];
  let capacity = i32(arrayLength(&cache)) / {ROW};
  // Rows that would lie outside are left out. A sum may be beyond what an i32 holds: each is held against the other.
  if (column < {DIM} && first < capacity - token && first >= -token) {{
    let place = (head * capacity + first + token) * {DIM} + column;
    cache[place] = added[(head * i32(all.y) + token) * {DIM} + column];
  }}
}}
"""
