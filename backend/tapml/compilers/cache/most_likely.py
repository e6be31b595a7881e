"""The most likely token of logits: a workgroup for each row, or, of a large vocabulary, for each block of one, and then
one that compares what these found.

Logits are compared by their bits, in an order of unsigned integers: what WebGPU's arithmetic makes of NaN and of
infinities is left open, and here both have to be found.
"""

from __future__ import annotations

from tapml.compilers.cache.launch import Launch, Launches
from tapml.lowering.by_hand import MadeWith
from tapml.lowering.operator import Operator

LANES = 256
BLOCK = 8192
"""Logits that a workgroup looks through."""


def most_likely(operator: Operator, made: MadeWith) -> Launches | None:
    """None for tensors that it is not written for."""
    logits, token = operator.arguments
    if made.also or made.options or [logits["dtype"], token["dtype"]] != ["float32", "int32"]:
        return None
    rows, words = logits["shape"]
    if not isinstance(words, int) or words < 1:
        return None
    blocks = -(-words // BLOCK)
    if blocks == 1:
        text = _text("most_likely", _LOGITS, _TOKEN, f"key_of(row * {words} + i)", "i", words)
        return Launches([Launch(text, [{"argument": 0}, {"argument": 1}], [1, rows, 1])], [])
    place, best = f"block * {BLOCK} + i", f"best[row * {blocks} + i]"
    count = f"min({BLOCK}, {words} - block * {BLOCK})"
    of_block = _BEST.format(BLOCKS=blocks)
    first = _text("most_likely_of_block", _LOGITS, of_block, f"key_of(row * {words} + {place})", place, count)
    last = _text("most_likely", _READ_BEST, _TOKEN, f"{best}.x", f"i32({best}.y)", blocks)
    return Launches(
        [
            Launch(first, [{"argument": 0}, {"temporary": 0}], [blocks, rows, 1]),
            Launch(last, [{"temporary": 0}, {"argument": 1}], [1, rows, 1]),
        ],
        [rows * blocks * 8 if isinstance(rows, int) else ["mul", rows, blocks * 8]],
    )


def _text(name: str, given: str, result: str, key: str, token: str, count: int | str) -> str:
    """`key` and `token` of element i of `count`; `given` and `result` declare what is bound, and what is done."""
    bound, done = result.split("---\n")
    return given + bound + _TEXT.format(NAME=name, KEY=key, ID=token, COUNT=count, DONE=done.rstrip(), LANES=LANES)


_LOGITS = """\
@group(0) @binding(0) var<storage, read> logits : array<u32>;

// Of larger logits the key is larger; 0 and -0 have one, and that of NaN is above all.
fn key_of(at : i32) -> u32 {
  let bits = logits[at];
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) {
    return 0xffffffffu;
  }
  return select(0x80000000u - size, 0x80000000u + size, bits == size);
}

"""

_READ_BEST = """\
@group(0) @binding(0) var<storage, read> best : array<vec2<u32>>;
"""

_BEST = """\
@group(0) @binding(1) var<storage, read_write> best : array<vec2<u32>>;
---
    best[row * {BLOCKS} + block] = vec2<u32>(keys[0], u32(tokens[0]));
"""

_TOKEN = """\
@group(0) @binding(1) var<storage, read_write> token : array<i32>;
---
    // Infinite, or NaN: no number to choose by.
    let finite = keys[0] > 0x00800000u && keys[0] < 0xff800000u;
    token[row] = select(-1 - tokens[0], tokens[0], finite);
"""

_TEXT = """
var<workgroup> keys : array<u32, {LANES}>;
var<workgroup> tokens : array<i32, {LANES}>;

@compute @workgroup_size({LANES})
fn {NAME}(
  @builtin(workgroup_id) group : vec3<u32>,
  @builtin(local_invocation_id) local : vec3<u32>,
) {{
  let lane = i32(local.x);
  let block = i32(group.x);
  let row = i32(group.y);
  // A key of 0 is that of no logit.
  var highest = 0u;
  var found = 0;
  for (var i = lane; i < {COUNT}; i += {LANES}) {{
    let key = {KEY};
    if (key > highest) {{
      highest = key;
      found = {ID};
    }}
  }}
  keys[lane] = highest;
  tokens[lane] = found;
  workgroupBarrier();
  for (var half = {LANES} / 2; half > 0; half /= 2) {{
    if (lane < half) {{
      let other = keys[lane + half];
      let same = other == keys[lane] && tokens[lane + half] < tokens[lane];
      if (other > keys[lane] || same) {{
        keys[lane] = other;
        tokens[lane] = tokens[lane + half];
      }}
    }}
    workgroupBarrier();
  }}
  if (lane == 0) {{
{DONE}
  }}
}}
"""
