"""Attention to a cache that reads no further than the position of its query: one workgroup for each head and query.

A tile of places at a time: each lane has the score of one, then the lanes mix the tile's values, a column each, several
places at once where a value has fewer columns than there are lanes. What was mixed before is scaled to a new highest
score (online softmax), so nothing is kept of scores. How far to look is read from `positions`, which no kernel may
write: only what a storage buffer holds that is read counts as uniform, and barriers stand inside that loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapml.lowering.by_hand import MadeWith
from tapml.lowering.operator import Operator

LANES = 128
OPTIONS = {"scaling", "window", "softcap"}


def attention(operator: Operator, made: MadeWith) -> str | None:
    """WGSL; None for tensors that it is not written for."""
    shapes = _shapes(operator.arguments)
    if made.options.keys() != OPTIONS or made.also not in _ALSO or shapes is None:
        return None
    heads, dim, kv_heads, capacity, width = shapes
    options, also = made.options, operator.arguments[4:-1]
    if [argument["dtype"] for argument in also] != ["float32"] * len(made.also):
        return None
    inputs = "".join(
        f"@group(0) @binding({number}) var<storage, read> {name} : array<f32>;\n"
        for number, name in enumerate(made.also, 4)
    )
    of_head = "0" if also and also[-1]["shape"][0] == 1 else "head"  # a bias for all heads, or one for each
    vector = 4 if dim % 4 == 0 else 1
    number = f"vec{vector}<f32>" if vector > 1 else "f32"
    columns = min(LANES, 1 << (width - 1).bit_length())
    sinks = "sinks" in made.also
    window, softcap = int(options["window"]), options["softcap"]
    return _TEXT.format(
        LANES=LANES,
        HEADS=heads,
        GROUPS=heads // kv_heads,
        CAPACITY=capacity,
        NUMBER=number,
        TERMS=dim // vector,
        SUM="found += dot(query_row[r], keys[row + r]);" if vector > 1 else "found += query_row[r] * keys[row + r];",
        WIDTH=width,
        COLUMNS=columns,
        PARTS=LANES // columns,
        PIECES=-(-width // columns),
        BEGIN=f"max(position - {window - 1}, 0)" if window else "0",
        SEEN=f"at <= position && at > position - {window}" if window else "at <= position",
        SCALED=f"found * {_f32(options['scaling'])}",
        LIMITED=f"{_f32(softcap)} * tanh_of(scaled / {_f32(softcap)})" if softcap else "scaled",
        TANH=_TANH if softcap else "",
        ALSO=inputs,
        RESULT=4 + len(made.also),
        BIAS=f" + bias[({of_head} * tokens + token) * {capacity} + at]" if "bias" in made.also else "",
        FIRST_HIGHEST="sinks[head]" if sinks else "NOWHERE",
        FIRST_TOTAL="1.0" if sinks else "0.0",
    )


def attention_grid(operator: Operator) -> list[Any]:
    """Workgroups: heads, queries."""
    heads, queries, _ = operator.arguments[0]["shape"]
    return [heads, queries, 1]


_ALSO = ((), ("sinks",), ("bias",), ("sinks", "bias"))
"""Arguments that it may have behind the four that it always has."""


def _shapes(arguments: Sequence[Mapping[str, Any]]) -> tuple[int, int, int, int, int] | None:
    """Heads, dim, heads of keys and values, capacity, width of values."""
    if [argument["dtype"] for argument in (*arguments[:4], arguments[-1])] != [*["float32"] * 3, "int32", "float32"]:
        return None
    (heads, _, dim), (kv_heads, capacity, _), (_, _, width) = (found["shape"] for found in arguments[:3])
    fixed = (heads, dim, kv_heads, capacity, width)
    return fixed if all(isinstance(size, int) and size > 0 for size in fixed) else None


def _f32(value: float) -> str:
    """The float32 next to `value`, whole."""
    return f"{float(np.float32(value))!r}f"


_TANH = """
fn tanh_of(x : f32) -> f32 {
  let e = exp(-2.0 * abs(x));
  let found = (1.0 - e) / (1.0 + e);
  return select(found, -found, x < 0.0);
}
"""

_TEXT = """\
@group(0) @binding(0) var<storage, read> query : array<{NUMBER}>;
@group(0) @binding(1) var<storage, read> keys : array<{NUMBER}>;
@group(0) @binding(2) var<storage, read> values : array<f32>;
@group(0) @binding(3) var<storage, read> positions : array<i32>;
{ALSO}@group(0) @binding({RESULT}) var<storage, read_write> attended : array<f32>;

const NOWHERE = -1e30f;

var<workgroup> query_row : array<{NUMBER}, {TERMS}>;
var<workgroup> scores : array<f32, {LANES}>;
var<workgroup> parts : array<f32, {LANES}>;
{TANH}
@compute @workgroup_size({LANES})
fn cached_attention(
  @builtin(workgroup_id) group : vec3<u32>,
  @builtin(num_workgroups) all : vec3<u32>,
  @builtin(local_invocation_id) local : vec3<u32>,
) {{
  let lane = i32(local.x);
  let head = i32(group.x);
  let token = i32(group.y);
  let tokens = i32(all.y);
  let position = positions[token];
  var begin = min({BEGIN}, {CAPACITY});
  var end = clamp(position, -1, {CAPACITY} - 1) + 1;
  if (begin >= end) {{ // nothing is seen: all places count alike
    begin = 0;
    end = {CAPACITY};
  }}
  for (var r = lane; r < {TERMS}; r += {LANES}) {{
    query_row[r] = query[(head * tokens + token) * {TERMS} + r];
  }}
  let first = head / {GROUPS} * {CAPACITY}; // row of the cache
  let column = lane % {COLUMNS};
  let part = lane / {COLUMNS};
  var highest = {FIRST_HIGHEST};
  var total = {FIRST_TOTAL};
  var mixed : array<f32, {PIECES}>;
  workgroupBarrier();
  for (var tile = begin; tile < end; tile += {LANES}) {{
    let count = min(end - tile, {LANES});
    let at = tile + lane;
    var score = NOWHERE;
    if (lane < count) {{
      let row = (first + at) * {TERMS};
      var found = 0.0;
      for (var r = 0; r < {TERMS}; r++) {{
        {SUM}
      }}
      let scaled = {SCALED};
      score = select(NOWHERE, {LIMITED}{BIAS}, {SEEN});
    }}
    scores[lane] = score;
    workgroupBarrier();
    var most = highest;
    for (var j = 0; j < count; j++) {{
      most = max(most, scores[j]);
    }}
    workgroupBarrier();
    scores[lane] = exp(score - most);
    workgroupBarrier();
    if (most > highest) {{
      let rescaled = exp(highest - most);
      total *= rescaled;
      for (var piece = 0; piece < {PIECES}; piece++) {{
        mixed[piece] *= rescaled;
      }}
      highest = most;
    }}
    for (var j = 0; j < count; j++) {{
      total += scores[j];
    }}
    for (var j = part; j < count; j += {PARTS}) {{
      let row = (first + tile + j) * {WIDTH};
      for (var piece = 0; piece < {PIECES}; piece++) {{
        let place = column + piece * {COLUMNS};
        if (place < {WIDTH}) {{
          mixed[piece] += scores[j] * values[row + place];
        }}
      }}
    }}
    workgroupBarrier();
  }}
  for (var piece = 0; piece < {PIECES}; piece++) {{
    parts[lane] = mixed[piece];
    workgroupBarrier();
    let place = column + piece * {COLUMNS};
    if (part == 0 && place < {WIDTH}) {{
      var found = 0.0;
      for (var p = 0; p < {PARTS}; p++) {{
        found += parts[p * {COLUMNS} + column];
      }}
      attended[(token * {HEADS} + head) * {WIDTH} + place] = found / total;
    }}
    workgroupBarrier();
  }}
}}
"""
