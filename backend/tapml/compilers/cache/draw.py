"""The kernel of `draw` (operators/draw.py says what it computes): keys of all tokens, what blocks of them weigh, and
then one workgroup that draws. All in integers, of 64 bits in two of 32, the lower ones first.
"""

from __future__ import annotations

from tapml.compilers.cache.launch import Launch, Launches
from tapml.lowering.operator import Operator
from tapml.operators.draw import (
    BAD,
    COEFFICIENTS,
    FRACTION,
    LEAST_BEST,
    MOST_BEST,
    MOST_RANKED,
    MOST_WORDS,
    NEAR,
    NO_SHIFT,
    RELATIVE,
    ZERO,
)

LANES = 256
EACH = 4
BLOCK = LANES * EACH
"""Tokens of a workgroup."""

LOGITS, SEEN, ASKED, NEXT, DRAWN, AFTER = ({"argument": place} for place in range(6))
KEYS, TOPS, SUMS = ({"temporary": place} for place in range(3))


def draw(operator: Operator) -> Launches | None:
    """None where there are more tokens than it is written for."""
    words = operator.arguments[0]["shape"][-1]
    if not isinstance(words, int) or not 0 < words <= MOST_WORDS:
        return None
    blocks = -(-words // BLOCK)
    names = {"WORDS": words, "BLOCKS": blocks, "TEXT": operator.arguments[1]["shape"][0], **_NAMES}

    def text(*parts: str) -> str:
        found = "".join(parts)
        for name, value in names.items():
            found = found.replace(f"@{name}@", str(value))
        return found

    return Launches(
        [
            Launch(text(_KEYS), [LOGITS, SEEN, ASKED, KEYS, TOPS], [blocks, 1, 1]),
            Launch(text(_SUMS_BOUND, _LONG, _WEIGHT, _BEST, _SUMS), [KEYS, TOPS, SUMS], [blocks, 1, 1]),
            Launch(
                text(_DRAW_BOUND, _LONG, _WEIGHT, _BEST, _RANK, _DRAW),
                # How many bindings a device has is a matter of the device: eight are everywhere.
                [LOGITS, SEEN, ASKED, KEYS, TOPS, SUMS, NEXT, DRAWN],
                [1, 1, 1],
            ),
            Launch(text(_AFTER), [SEEN, DRAWN, AFTER], [-(-names["TEXT"] // LANES), 1, 1]),
        ],
        [words * 8, blocks * 8, blocks * 8],
    )


_NAMES = {
    "LANES": LANES,
    "EACH": EACH,
    "MOST": MOST_RANKED,
    "FIRST": MOST_BEST,
    "NEAR": NEAR,
    "RELATIVE": RELATIVE,
    "ZERO": ZERO >> 32,
    "BAD": BAD >> 32,
    "LEAST": LEAST_BEST >> 32,
    "WHOLE": FRACTION - 32,
    "NO_SHIFT": NO_SHIFT,
    "FRACTION": FRACTION,
    "POLYNOMIAL": ", ".join(f"{found}u" for found in COEFFICIENTS),
    "DEGREE": len(COEFFICIENTS) - 1,
}

_PRODUCT = """\
fn product(a : u32, b : u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let left = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let right = (a & 0xffffu) * (b >> 16u) + (left & 0xffffu);
  return vec2<u32>((right << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u));
}

"""

_SUM = """\
fn sum(a : vec2<u32>, b : vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn difference(a : vec2<u32>, b : vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn less(a : vec2<u32>, b : vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// By 0 to 63.
fn shifted_right(a : vec2<u32>, by : u32) -> vec2<u32> {
  if (by >= 32u) {
    return vec2<u32>(a.y >> (by - 32u), 0u);
  }
  if (by == 0u) {
    return a;
  }
  return vec2<u32>((a.x >> by) | (a.y << (32u - by)), a.y >> by);
}

"""

_LONG = _PRODUCT + _SUM

_KEYS = (
    """\
@group(0) @binding(0) var<storage, read> logits : array<u32>;
@group(0) @binding(1) var<storage, read> seen : array<u32>;
@group(0) @binding(2) var<storage, read> asked : array<u32>;
@group(0) @binding(3) var<storage, read_write> keys : array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> tops : array<vec2<u32>>;

var<workgroup> found : array<vec2<u32>, @LANES@>;

"""
    + _LONG
    + """\
// The score of a token: its logit times what stands in `asked`.
fn key_of(id : u32) -> vec2<u32> {
  let bits = logits[id];
  let size = bits & 0x7fffffffu;
  let negative = bits != size;
  if (size >= 0x7f800000u) {
    return vec2<u32>(0u, select(@BAD@u, 0u, negative && size == 0x7f800000u));
  }
  let exponent = size >> 23u;
  var moved = vec2<u32>(0u, 0u);
  if (exponent > 0u) {
    var kind = 0u;
    if (((seen[id >> 5u] >> (id & 31u)) & 1u) != 0u) {
      kind = select(2u, 4u, negative);
    }
    // A float64: of its 53 bits the upper 48, in two halves.
    let upper = asked[kind + 1u];
    let lower = asked[kind];
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let low = product(mantissa, (lower >> 5u) & 0xffffffu);
    let high = product(mantissa, ((upper & 0xfffffu) << 3u) | 0x800000u | (lower >> 29u));
    moved = sum(high, vec2<u32>((low.x >> 24u) | (low.y << 8u), 0u));
    let shift = i32(exponent + (upper >> 20u)) - @NO_SHIFT@;
    if (shift > 8) {
      return vec2<u32>(0u, select(@BAD@u, 0u, negative));
    }
    if (shift > 0) {
      moved = vec2<u32>(moved.x << u32(shift), (moved.y << u32(shift)) | (moved.x >> u32(32 - shift)));
    } else {
      moved = shifted_right(moved, u32(min(-shift, 63)));
    }
  }
  let zero = vec2<u32>(0u, @ZERO@u);
  if (negative) {
    return difference(zero, moved);
  }
  return sum(zero, moved);
}

@compute @workgroup_size(@LANES@)
fn draw_keys(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  let lane = local.x;
  var highest = vec2<u32>(0u, 0u);
  for (var i = 0u; i < @EACH@u; i++) {
    let id = (group.x * @EACH@u + i) * @LANES@u + lane;
    if (id < @WORDS@u) {
      let key = key_of(id);
      keys[id] = key;
      if (less(highest, key)) {
        highest = key;
      }
    }
  }
  found[lane] = highest;
  workgroupBarrier();
  for (var half = @LANES@u / 2u; half > 0u; half /= 2u) {
    if (lane < half && less(found[lane], found[lane + half])) {
      found[lane] = found[lane + half];
    }
    workgroupBarrier();
  }
  if (lane == 0u) {
    tops[group.x] = found[0];
  }
}
"""
)

_WEIGHT = """\
var<private> polynomial : array<u32, @DEGREE@ + 1> = array<u32, @DEGREE@ + 1>(@POLYNOMIAL@);

// 2^(its score - the best).
fn weight_of(key : vec2<u32>, best : vec2<u32>) -> vec2<u32> {
  let below = difference(best, key);
  let whole = below.y >> @WHOLE@u;
  if (whole >= @FRACTION@u) {
    return vec2<u32>(0u, 0u);
  }
  let behind = ~((below.y << (32u - @WHOLE@u)) | (below.x >> @WHOLE@u));
  var value = polynomial[@DEGREE@];
  for (var power = @DEGREE@u; power > 0u; power--) {
    value = polynomial[power - 1u] + product(value, behind).y;
  }
  return shifted_right(vec2<u32>(value << 12u, value >> 20u), whole);
}

"""

_BEST = """\
var<workgroup> row : array<vec2<u32>, @LANES@>;

// Of all blocks.
fn best_of(lane : u32) -> vec2<u32> {
  var highest = vec2<u32>(0u, 0u);
  for (var block = lane; block < @BLOCKS@u; block += @LANES@u) {
    if (less(highest, tops[block])) {
      highest = tops[block];
    }
  }
  row[lane] = highest;
  workgroupBarrier();
  for (var half = @LANES@u / 2u; half > 0u; half /= 2u) {
    if (lane < half && less(row[lane], row[lane + half])) {
      row[lane] = row[lane + half];
    }
    workgroupBarrier();
  }
  let best = row[0];
  workgroupBarrier();
  return best;
}

"""

_SUMS_BOUND = """\
@group(0) @binding(0) var<storage, read> keys : array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> tops : array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> sums : array<vec2<u32>>;

"""

_SUMS = """\
@compute @workgroup_size(@LANES@)
fn draw_sums(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_id) local : vec3<u32>) {
  let lane = local.x;
  let best = best_of(lane);
  var own = vec2<u32>(0u, 0u);
  for (var i = 0u; i < @EACH@u; i++) {
    let id = (group.x * @EACH@u + i) * @LANES@u + lane;
    if (id < @WORDS@u) {
      own = sum(own, weight_of(keys[id], best));
    }
  }
  row[lane] = own;
  workgroupBarrier();
  for (var half = @LANES@u / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      row[lane] = sum(row[lane], row[lane + half]);
    }
    workgroupBarrier();
  }
  if (lane == 0u) {
    sums[group.x] = row[0];
  }
}
"""

_DRAW_BOUND = """\
@group(0) @binding(0) var<storage, read> logits : array<u32>;
@group(0) @binding(1) var<storage, read> seen : array<u32>;
@group(0) @binding(2) var<storage, read> asked : array<u32>;
@group(0) @binding(3) var<storage, read> keys : array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> tops : array<vec2<u32>>;
@group(0) @binding(5) var<storage, read> sums : array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> next : array<i32>;
@group(0) @binding(7) var<storage, read_write> drawn : array<i32>;

"""

_RANK = """\
const NONE = 0xffffffffu;

var<workgroup> bins : array<atomic<u32>, 256>;
var<workgroup> order : array<vec2<u32>, @MOST@>;
var<workgroup> ids : array<u32, @MOST@>;
var<workgroup> count : atomic<u32>;
var<workgroup> doubt : atomic<u32>;
var<workgroup> place : atomic<u32>;
var<workgroup> cut : atomic<u32>;
var<workgroup> bin : u32;
var<workgroup> rest : u32;

// The sum of each lane's and all before it.
fn scan(lane : u32, own : vec2<u32>) -> vec2<u32> {
  row[lane] = own;
  workgroupBarrier();
  for (var step = 1u; step < @LANES@u; step *= 2u) {
    var through = row[lane];
    if (lane >= step) {
      through = sum(through, row[lane - step]);
    }
    workgroupBarrier();
    row[lane] = through;
    workgroupBarrier();
  }
  return row[lane];
}

// What `part` of 2^32 is of it.
fn share_of(whole : vec2<u32>, part : u32) -> vec2<u32> {
  return sum(product(whole.y, part), vec2<u32>(product(whole.x, part).y, 0u));
}

fn near(a : vec2<u32>, b : vec2<u32>, most : vec2<u32>) -> bool {
  if (less(a, b)) {
    return !less(most, difference(b, a));
  }
  return !less(most, difference(a, b));
}

fn before(a : u32, b : u32) -> bool {
  return less(order[b], order[a]) || (all(order[a] == order[b]) && ids[a] < ids[b]);
}

fn kind_of(id : u32) -> u32 {
  if (asked[0] == asked[2] && asked[1] == asked[3]) {
    return 0u;
  }
  return select(0u, select(1u, 2u, bitcast<i32>(logits[id]) <= 0), ((seen[id >> 5u] >> (id & 31u)) & 1u) != 0u);
}

// Are they in the order of their scores, or equal, whatever was rounded?
fn comparable(a : u32, b : u32) -> bool {
  let one = logits[ids[a]];
  let other = logits[ids[b]];
  if (((one | other) & 0x7fffffffu) == 0u) {
    return true;
  }
  return kind_of(ids[a]) == kind_of(ids[b]) && (any(order[a] != order[b]) || one == other);
}

// The best `wanted` in their order, and those that come near to the last of them.
fn rank(lane : u32, wanted : u32) {
  var prefix = 0u;
  var left = wanted;
  for (var digit = 0u; digit < 3u; digit++) {
    let shift = 17u - 8u * digit;
    atomicStore(&bins[lane], 0u);
    workgroupBarrier();
    for (var id = lane; id < @WORDS@u; id += @LANES@u) {
      let key = keys[id].y;
      if (digit == 0u || key >> (shift + 8u) == prefix) {
        atomicAdd(&bins[(key >> shift) & 255u], 1u);
      }
    }
    workgroupBarrier();
    if (lane == 0u) {
      var at = 255u;
      var still = left;
      loop {
        let inside = atomicLoad(&bins[at]);
        if (inside >= still || at == 0u) {
          break;
        }
        still -= inside;
        at--;
      }
      bin = at;
      rest = still;
    }
    prefix = (prefix << 8u) | workgroupUniformLoad(&bin);
    left = workgroupUniformLoad(&rest);
  }
  for (var at = lane; at < @MOST@u; at += @LANES@u) {
    order[at] = vec2<u32>(0u, 0u);
    ids[at] = NONE;
  }
  workgroupBarrier();
  for (var id = lane; id < @WORDS@u; id += @LANES@u) {
    let key = keys[id];
    if ((key.y >> 1u) + 1u >= prefix) {
      let at = atomicAdd(&count, 1u);
      if (at < @MOST@u) {
        order[at] = key;
        ids[at] = id;
      } else {
        atomicStore(&doubt, 1u);
      }
    }
  }
  workgroupBarrier();
  for (var size = 2u; size <= @MOST@u; size *= 2u) {
    for (var half = size / 2u; half > 0u; half /= 2u) {
      for (var pair = lane; pair < @MOST@u / 2u; pair += @LANES@u) {
        let a = pair / half * half * 2u + pair % half;
        let b = a + half;
        let down = (a & size) == 0u;
        if (before(select(a, b, down), select(b, a, down))) {
          let key = order[a];
          let id = ids[a];
          order[a] = order[b];
          ids[a] = ids[b];
          order[b] = key;
          ids[b] = id;
        }
      }
      workgroupBarrier();
    }
  }
}

"""

_DRAW = """\
@compute @workgroup_size(@LANES@)
fn draw(@builtin(local_invocation_id) local : vec3<u32>) {
  let lane = local.x;
  let best = best_of(lane);
  let best_ones = asked[6];
  let share = asked[7];
  let random = asked[8];
  if (lane == 0u) {
    atomicStore(&place, NONE);
    atomicStore(&cut, NONE);
    if (best.y == @BAD@u || best.y < @LEAST@u) {
      atomicStore(&doubt, 1u);
    }
  }
  // Of all tokens: each lane has blocks that follow one another.
  const blocks = (@BLOCKS@u + @LANES@u - 1u) / @LANES@u;
  var own = vec2<u32>(0u, 0u);
  for (var i = 0u; i < blocks; i++) {
    let block = lane * blocks + i;
    if (block < @BLOCKS@u) {
      own = sum(own, sums[block]);
    }
  }
  let of_blocks = scan(lane, own);
  let everything = row[@LANES@u - 1u];
  workgroupBarrier();
  let ranked = best_ones != 0u || share != 0u;
  var tokens = @WORDS@u;
  var limit = @WORDS@u;
  // What the lanes have together: `first` and so on, behind `base` of those before.
  var first = 0u;
  var base = vec2<u32>(0u, 0u);
  var target_sum = share_of(everything, random);
  if (!ranked) {
    let begin = difference(of_blocks, own);
    if (!less(target_sum, begin) && less(target_sum, of_blocks)) {
      var through = begin;
      for (var i = 0u; i < blocks; i++) {
        let block = lane * blocks + i;
        if (block < @BLOCKS@u) {
          let next_one = sum(through, sums[block]);
          if (!less(target_sum, through) && less(target_sum, next_one)) {
            bin = block;
            row[0] = through;
          }
          through = next_one;
        }
      }
    }
    first = workgroupUniformLoad(&bin) * (@LANES@u * @EACH@u);
    base = row[0];
    workgroupBarrier();
  } else {
    rank(lane, min(select(@FIRST@u, best_ones, best_ones != 0u), @WORDS@u));
    tokens = min(atomicLoad(&count), @MOST@u);
    limit = select(tokens, min(best_ones, tokens), best_ones != 0u);
  }
  // Four each, in their order.
  var weights : array<vec2<u32>, @EACH@>;
  var mine = vec2<u32>(0u, 0u);
  for (var i = 0u; i < @EACH@u; i++) {
    let at = first + lane * @EACH@u + i;
    weights[i] = vec2<u32>(0u, 0u);
    if (at < limit) {
      if (ranked) {
        weights[i] = weight_of(order[at], best);
      } else {
        weights[i] = weight_of(keys[at], best);
      }
    }
    mine = sum(mine, weights[i]);
  }
  let last_of_mine = scan(lane, mine);
  let kept = row[@LANES@u - 1u];
  workgroupBarrier();
  var through = sum(base, difference(last_of_mine, mine));
  for (var i = 0u; i < @EACH@u; i++) {
    through = sum(through, weights[i]);
    weights[i] = through;
  }
  var whole = everything;
  if (best_ones != 0u) {
    whole = kept;
  }
  let margin = sum(shifted_right(whole, @RELATIVE@u), vec2<u32>(2u * @WORDS@u + 4u, 0u));
  var kept_ones = limit;
  if (ranked) {
    if (limit < tokens && near(order[limit - 1u], order[limit], vec2<u32>(@NEAR@u, 0u))) {
      for (var at = lane; at < tokens; at += @LANES@u) {
        var beside = limit - 1u;
        if (at < limit) {
          beside = limit;
        }
        let is_near = near(order[at], order[beside], vec2<u32>(@NEAR@u, 0u));
        if (is_near && at != limit - 1u && !comparable(at, limit - 1u)) {
          atomicStore(&doubt, 1u);
        }
      }
    }
    if (share != 0u) {
      let enough = share_of(whole, share);
      for (var i = 0u; i < @EACH@u; i++) {
        let at = lane * @EACH@u + i;
        if (at < limit) {
          if (near(weights[i], enough, margin)) {
            atomicStore(&doubt, 1u);
          }
          if (!less(weights[i], enough)) {
            atomicMin(&cut, at);
          }
        }
      }
      workgroupBarrier();
      if (lane == 0u) {
        if (atomicLoad(&cut) == NONE) {
          atomicStore(&doubt, 1u);
        }
        bin = min(atomicLoad(&cut), limit - 1u);
      }
      kept_ones = workgroupUniformLoad(&bin) + 1u;
    }
    for (var i = 0u; i < @EACH@u; i++) {
      if (lane * @EACH@u + i == kept_ones - 1u) {
        row[0] = weights[i];
      }
    }
    workgroupBarrier();
    target_sum = share_of(row[0], random);
    workgroupBarrier();
  }
  for (var i = 0u; i < @EACH@u; i++) {
    let at = first + lane * @EACH@u + i;
    if (at < kept_ones && less(target_sum, weights[i])) {
      atomicMin(&place, at);
    }
  }
  workgroupBarrier();
  let chosen = atomicLoad(&place);
  // What is drawn lies clear of the borders of its token, of which the first has none before it.
  var before_it = sum(base, difference(last_of_mine, mine));
  for (var i = 0u; i < @EACH@u; i++) {
    let at = first + lane * @EACH@u + i;
    if (at == chosen) {
      if (!less(margin, difference(weights[i], target_sum))) {
        atomicStore(&doubt, 1u);
      }
      if (at > 0u && !less(margin, difference(target_sum, before_it))) {
        atomicStore(&doubt, 1u);
      }
    }
    before_it = weights[i];
  }
  if (ranked && chosen < tokens) {
    for (var at = lane; at < tokens; at += @LANES@u) {
      let is_near = near(order[at], order[chosen], vec2<u32>(@NEAR@u, 0u));
      if (is_near && at != chosen && !comparable(at, chosen)) {
        atomicStore(&doubt, 1u);
      }
    }
  }
  workgroupBarrier();
  if (lane == 0u) {
    var token = -1;
    if (atomicLoad(&doubt) == 0u && chosen != NONE) {
      token = i32(chosen);
      if (ranked) {
        token = i32(ids[chosen]);
      }
    }
    // A call that is under way behind this one needs some token.
    next[0] = max(token, 0);
    drawn[0] = token;
  }
}
"""

_AFTER = """\
@group(0) @binding(0) var<storage, read> seen : array<u32>;
@group(0) @binding(1) var<storage, read> drawn : array<i32>;
@group(0) @binding(2) var<storage, read_write> after : array<u32>;

@compute @workgroup_size(@LANES@)
fn draw_after(@builtin(global_invocation_id) global : vec3<u32>) {
  let at = global.x;
  if (at < @TEXT@u) {
    let token = drawn[0];
    let own = token >= 0 && (u32(token) >> 5u) == at;
    after[at] = seen[at] | select(0u, 1u << (u32(token) & 31u), own);
  }
}
"""
