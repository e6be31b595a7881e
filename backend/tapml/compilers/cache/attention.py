"""Attention to a cache that reads no further than the positions of its queries: a workgroup for each head and token,
or for each head and some tokens of a chunk, which share what they read of the cache.

A tile of places at a time: each lane has the scores of one, then the lanes mix the tile's values, a column each, or
several places at once where a value has fewer columns than there are lanes. What was mixed before is scaled to a new
highest score (online softmax), so nothing is kept of scores. How many places there are is read off the values' buffer,
so that one kernel serves caches of any capacity (a bias is of one). With `blocks` the caches are of several sequences,
and a workgroup is of one token, for what it reads is its own text's. How far to look is read from `positions`, which no
kernel may write: only what a storage buffer holds that is read counts as uniform, and barriers stand inside that loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapml.lowering.by_hand import MadeWith, made_with
from tapml.lowering.operator import Operator

LANES = 128
TOKENS = 4
"""Of a chunk, in one workgroup."""
OPTIONS = {"scaling", "window", "softcap"}


def attention(operator: Operator, made: MadeWith) -> str | None:
    """WGSL; None for tensors that it is not written for."""
    shapes = _shapes(operator.arguments)
    paged = "blocks" in made.also
    if made.options.keys() != OPTIONS | ({"block"} if paged else set()) or made.also not in _ALSO or shapes is None:
        return None
    heads, dim, kv_heads, capacity, width = shapes
    options, also = made.options, operator.arguments[4:-1]
    dtypes = [_DTYPES[name] for name in made.also]
    if [argument["dtype"] for argument in also] != [dtype for dtype, _ in dtypes]:
        return None
    inputs = "".join(
        f"@group(0) @binding({number}) var<storage, read> {name} : array<{kind}>;\n"
        for number, (name, (_, kind)) in enumerate(zip(made.also, dtypes, strict=True), 4)
    )
    by_name = dict(zip(made.also, also, strict=True))
    # A bias for all heads, or one for each.
    of_head = "0" if "bias" in by_name and by_name["bias"]["shape"][0] == 1 else "head"
    block = int(made.options["block"]) if paged else 0
    count = by_name["blocks"]["shape"][1] if paged else 0
    seen_most = count * block if paged else capacity
    vector = 4 if dim % 4 == 0 else 1
    number = f"vec{vector}<f32>" if vector > 1 else "f32"
    columns = min(LANES, 1 << (width - 1).bit_length())
    pieces, tokens = -(-width // columns), _tokens(operator)
    term = f"query_rows[t * {dim // vector} + r]"
    sinks = "sinks" in made.also
    window, softcap = int(options["window"]), options["softcap"]
    return _TEXT.format(
        LANES=LANES,
        HEADS=heads,
        GROUPS=heads // kv_heads,
        OF_PLACE=kv_heads * width,
        NUMBER=number,
        TOKENS=tokens,
        TERMS=dim // vector,
        ALL_TERMS=tokens * dim // vector,
        ALL_LANES=tokens * LANES,
        ALL_PIECES=tokens * pieces,
        PRODUCT=f"dot({term}, key)" if vector > 1 else f"{term} * key",
        WIDTH=width,
        COLUMNS=columns,
        PARTS=LANES // columns,
        PIECES=pieces,
        BEGIN=f"max(position - {window - 1}, 0)" if window else "0",
        SEEN=f"at <= position && at > position - {window}" if window else "at <= position",
        SCALING=_f32(options["scaling"]),
        LIMITED=f"{_f32(softcap)} * tanh_of(scaled / {_f32(softcap)})" if softcap else "scaled",
        TANH=_TANH if softcap else "",
        ALSO=inputs,
        RESULT=4 + len(made.also),
        BIAS=f" + bias[({of_head} * tokens + token + t) * {seen_most} + at]" if "bias" in made.also else "",
        CAPACITY=seen_most if paged else "places",
        PLACE_OF=_PLACE_OF.format(BLOCK=block, COUNT=count) if paged else "",
        AT="place_of(token, at, places)" if paged else "at",
        TILE_AT="place_of(token, tile + j, places)" if paged else "tile + j",
        FIRST_HIGHEST="sinks[head]" if sinks else "NOWHERE",
        FIRST_TOTAL="1.0" if sinks else "0.0",
    )


def attention_grid(operator: Operator) -> list[Any]:
    """Workgroups: heads, tokens."""
    heads, tokens, _ = operator.arguments[0]["shape"]
    at_once = _tokens(operator)
    if isinstance(tokens, int):
        return [heads, -(-tokens // at_once), 1]
    return [heads, ["ceildiv", tokens, at_once], 1]


def _tokens(operator: Operator) -> int:
    """In one workgroup."""
    tokens = operator.arguments[0]["shape"][1]
    if (found := made_with(operator.prim_func, "cached_attention")) is not None and "blocks" in found.also:
        return 1
    return min(tokens, TOKENS) if isinstance(tokens, int) else TOKENS


_ALSO = tuple(
    (*also, *blocks) for also in ((), ("sinks",), ("bias",), ("sinks", "bias")) for blocks in ((), ("blocks",))
)
"""Arguments that it may have behind the four that it always has."""

_DTYPES = {"sinks": ("float32", "f32"), "bias": ("float32", "f32"), "blocks": ("int32", "i32")}


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

_PLACE_OF = """
fn place_of(token : i32, at : i32, places : i32) -> i32 {{
  return clamp(blocks[token * {COUNT} + at / {BLOCK}] * {BLOCK} + at % {BLOCK}, 0, places - 1);
}}
"""

_TEXT = """\
@group(0) @binding(0) var<storage, read> query : array<{NUMBER}>;
@group(0) @binding(1) var<storage, read> keys : array<{NUMBER}>;
@group(0) @binding(2) var<storage, read> values : array<f32>;
@group(0) @binding(3) var<storage, read> positions : array<i32>;
{ALSO}@group(0) @binding({RESULT}) var<storage, read_write> attended : array<f32>;

const NOWHERE = -1e30f;

var<workgroup> query_rows : array<{NUMBER}, {ALL_TERMS}>;
var<workgroup> scores : array<f32, {ALL_LANES}>;
var<workgroup> parts : array<f32, {LANES}>;
{TANH}{PLACE_OF}
@compute @workgroup_size({LANES})
fn cached_attention(
  @builtin(workgroup_id) group : vec3<u32>,
  @builtin(local_invocation_id) local : vec3<u32>,
) {{
  let lane = i32(local.x);
  let head = i32(group.x);
  let tokens = i32(arrayLength(&positions));
  let token = i32(group.y) * {TOKENS};
  let known = min(tokens - token, {TOKENS});
  // From the first place that one of the tokens sees to the last.
  let places = i32(arrayLength(&values)) / {OF_PLACE};
  let capacity = {CAPACITY};
  var begin = capacity;
  var end = 0;
  for (var t = 0; t < known; t++) {{
    let position = positions[token + t];
    let first = {BEGIN};
    let last = clamp(position, -1, capacity - 1);
    // Where nothing is seen all places count alike.
    begin = min(begin, select(first, 0, first > last));
    end = max(end, select(last + 1, capacity, first > last));
  }}
  for (var r = lane; r < known * {TERMS}; r += {LANES}) {{
    query_rows[r] = query[(head * tokens + token) * {TERMS} + r];
  }}
  let row_of_head = head / {GROUPS} * places;
  let column = lane % {COLUMNS};
  let part = lane / {COLUMNS};
  var highest = array<f32, {TOKENS}>();
  var total = array<f32, {TOKENS}>();
  var mixed = array<f32, {ALL_PIECES}>();
  for (var t = 0; t < {TOKENS}; t++) {{
    highest[t] = {FIRST_HIGHEST};
    total[t] = {FIRST_TOTAL};
  }}
  workgroupBarrier();
  for (var tile = begin; tile < end; tile += {LANES}) {{
    let count = min(end - tile, {LANES});
    let at = tile + lane;
    if (lane < count) {{
      let row = (row_of_head + {AT}) * {TERMS};
      // Said, for Dawn (SwiftShader) and wgpu (lavapipe) keep what the turn before left where it is not.
      var found = array<f32, {TOKENS}>();
      for (var r = 0; r < {TERMS}; r++) {{
        let key = keys[row + r];
        for (var t = 0; t < {TOKENS}; t++) {{
          if (t < known) {{
            found[t] += {PRODUCT};
          }}
        }}
      }}
      for (var t = 0; t < {TOKENS}; t++) {{
        if (t < known) {{
          let position = positions[token + t];
          let scaled = found[t] * {SCALING};
          scores[t * {LANES} + lane] = select(NOWHERE, {LIMITED}{BIAS}, {SEEN});
        }}
      }}
    }}
    workgroupBarrier();
    var most = highest;
    for (var t = 0; t < {TOKENS}; t++) {{
      if (t < known) {{
        for (var j = 0; j < count; j++) {{
          most[t] = max(most[t], scores[t * {LANES} + j]);
        }}
      }}
    }}
    workgroupBarrier();
    for (var t = 0; t < {TOKENS}; t++) {{
      if (t < known && lane < count) {{
        scores[t * {LANES} + lane] = exp(scores[t * {LANES} + lane] - most[t]);
      }}
    }}
    workgroupBarrier();
    for (var t = 0; t < {TOKENS}; t++) {{
      if (t < known) {{
        if (most[t] > highest[t]) {{
          let rescaled = exp(highest[t] - most[t]);
          total[t] *= rescaled;
          for (var piece = 0; piece < {PIECES}; piece++) {{
            mixed[t * {PIECES} + piece] *= rescaled;
          }}
          highest[t] = most[t];
        }}
        for (var j = 0; j < count; j++) {{
          total[t] += scores[t * {LANES} + j];
        }}
      }}
    }}
    for (var j = part; j < count; j += {PARTS}) {{
      let row = (row_of_head + {TILE_AT}) * {WIDTH};
      for (var piece = 0; piece < {PIECES}; piece++) {{
        let place = column + piece * {COLUMNS};
        if (place < {WIDTH}) {{
          let value = values[row + place];
          for (var t = 0; t < {TOKENS}; t++) {{
            if (t < known) {{
              mixed[t * {PIECES} + piece] += scores[t * {LANES} + j] * value;
            }}
          }}
        }}
      }}
    }}
    workgroupBarrier();
  }}
  for (var t = 0; t < {TOKENS}; t++) {{
    for (var piece = 0; piece < {PIECES}; piece++) {{
      parts[lane] = mixed[t * {PIECES} + piece];
      workgroupBarrier();
      let place = column + piece * {COLUMNS};
      if (t < known && part == 0 && place < {WIDTH}) {{
        var found = 0.0;
        for (var p = 0; p < {PARTS}; p++) {{
          found += parts[p * {COLUMNS} + column];
        }}
        attended[((token + t) * {HEADS} + head) * {WIDTH} + place] = found / total[t];
      }}
      workgroupBarrier();
    }}
  }}
}}
"""
