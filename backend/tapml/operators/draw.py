"""The operator `draw`: the token that a random number draws of logits, where it is sure, on a device.

A token is drawn of float64 numbers (generation/sampling.py), which no device has. Here all is integers: what a device
computes is the same everywhere, bit for bit, and this is what it computes. Scores are multiples of 2^-44 in powers of
two, weights of 2^-44 of the best one's, sums of these are exact. How far they may be from what float64 gives is
known; where that could make it another token (the border of two tokens is as near, or the last one that top-k or
top-p keeps, or a token whose score is nearly the same and was rounded otherwise) none is drawn, and whoever asked
draws of the logits. `compilers/cache/draw.py` is the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MOST_WORDS = 2**18
"""Of a vocabulary: sums of more weights would need more than 64 bits."""
MOST_BEST = 960
"""That top-k may leave; of top-p alone, tokens that it may keep."""
MOST_RANKED = 1024
"""That are put in order: besides the best ones those of which nobody knows before."""

FRACTION = 44
"""Bits of a score behind the point; a score of 0 is `ZERO`, one that is as small as can be 0."""
ZERO = 1 << 56
BAD = 0xFFFFFFFF << 32
"""The key of what is no number to choose by, or too large."""
LEAST_BEST = 64 << FRACTION
"""Of the best score, so that what is cut off below weighs nothing."""
NEAR = 1 << 12
"""Scores that are as near may be the other way round where one of them is penalised and the other is not."""
RELATIVE = 26
"""Sums and what they are held against are right to 2^-26 together, besides 2 units for each token: 16.5 units of
2^-31 of a weight by its polynomial, 2^-32 for each of what a score and its fraction lose, twice."""
COEFFICIENTS = tuple(round(math.log(2) ** power / math.factorial(power) * 2**31) for power in range(12))
"""Of 2^x for x from 0 to 1, in units of 2^-31."""

NO_SHIFT = 1023 + 47 + 150 - 24 - FRACTION
"""The exponents of a float64 and a float32 together of which the product's upper 48 bits are a score as they are."""
_WORD = np.uint64(0xFFFFFFFF)


def asked_of(temperature: float, top_k: int, top_p: float, penalty: float, random: float, words: int) -> np.ndarray:
    """What the operator is asked for, int32 [9]: what logits are multiplied by, the bits of three float64 (of tokens
    that are not in the text, and of those that are, above 0 and otherwise), how many are the best (0: all), the share
    that is kept (0: all), and the random number. `top_k` 1 and `random` 0 is the most likely token.

    runner_js/src/generation/draw.ts is the same."""
    scale = 1.0 / temperature / math.log(2)
    best = top_k if top_k < words else 0
    share = 0 if top_p >= 1 else max(1, math.floor(top_p * 2**32))
    rest = np.array([best, share, math.floor(random * 2**32)], np.uint32)
    scales = np.array([scale, scale / penalty, scale * penalty], np.float64)
    return np.concatenate([scales.view(np.int32), rest.view(np.int32)])


def bits_of(tokens: Sequence[int], words: int) -> np.ndarray:
    """The tokens of a text, as the operator takes them: int32 [words / 32], a bit for each."""
    found = np.zeros(-(-words // 32) * 32, np.uint8)
    found[list(tokens)] = 1
    return np.packbits(found, bitorder="little").view(np.int32).copy()


def draw(logits: np.ndarray, seen: np.ndarray, asked: np.ndarray) -> list[np.ndarray]:
    """Of logits float32 [1, words], tokens of the text int32 [words / 32] and what is asked for int32 [9]: int32
    [1, 1], the token (0 where none is drawn); int32 [1], the token, or -1; and the tokens of the text with it."""
    found = _drawn(logits.reshape(-1), seen, asked.view(np.uint32).tolist())
    after = seen.copy()
    if found >= 0:
        after.view(np.uint32)[found >> 5] |= np.uint32(1 << (found & 31))
    return [np.array([[max(found, 0)]], np.int32), np.array([found], np.int32), after]


def _drawn(logits: np.ndarray, seen: np.ndarray, asked: list[int]) -> int:
    words = logits.size
    best_ones, share, random = asked[6:]
    kinds = _kinds(logits, seen, asked)
    keys = _keys(logits, kinds, asked)
    best = int(keys.max())
    if best >= BAD or best < LEAST_BEST:
        return -1
    everything = int(_weights(keys, best).sum())
    if not best_ones and not share:
        sums = np.cumsum(_weights(keys, best))
        target = everything * random >> 32
        place = int(np.searchsorted(sums, np.uint64(target), side="right"))
        return place if _clear(sums, place, target, _margin(everything, words)) else -1
    order = _ranked(keys, min(best_ones or MOST_BEST, words))
    if order.size > MOST_RANKED:
        return -1
    limit = min(best_ones or order.size, order.size)
    ranked = [int(key) for key in keys[order]]
    if limit < order.size and _edge(order, ranked, limit, logits, kinds):
        return -1
    sums = np.cumsum(_weights(keys[order[:limit]], best))
    whole = int(sums[-1]) if best_ones else everything
    margin = _margin(whole, words)
    cut = limit - 1
    if share:
        enough = whole * share >> 32
        cut = int(np.searchsorted(sums, np.uint64(enough)))
        # What is left out is known to be less likely where the next one is in `sums`.
        if cut == limit or any(abs(int(found) - enough) <= margin for found in sums):
            return -1
    target = int(sums[cut]) * random >> 32
    place = min(int(np.searchsorted(sums, np.uint64(target), side="right")), cut)
    if not _clear(sums, place, target, margin):
        return -1
    beside = (at for at in range(order.size) if at != place and abs(ranked[at] - ranked[place]) <= NEAR)
    if any(not _comparable(order, ranked, at, place, logits, kinds) for at in beside):
        return -1
    return int(order[place])


def _kinds(logits: np.ndarray, seen: np.ndarray, asked: list[int]) -> np.ndarray:
    """Of each token what its logit is multiplied by: 0, 1 or 2. All are 0 where there is no penalty."""
    if asked[0:2] == asked[2:4]:
        return np.zeros(logits.size, np.int64)
    bits = np.unpackbits(seen.view(np.uint8), bitorder="little")[: logits.size]
    positive = logits.view(np.int32) > 0
    return np.where(bits == 1, np.where(positive, 1, 2), 0)


def _keys(logits: np.ndarray, kinds: np.ndarray, asked: list[int]) -> np.ndarray:
    """Scores, uint64: of larger scores the key is larger or the same."""
    bits = logits.view(np.uint32).astype(np.uint64)
    size, negative = bits & np.uint64(0x7FFFFFFF), bits >> np.uint64(31) == 1
    exponent = (size >> np.uint64(23)).astype(np.int64)
    mantissa = size & np.uint64(0x7FFFFF) | np.uint64(0x800000)
    # Of a float64's 53 bits the upper 48.
    scales = [word << 32 | half for half, word in zip(asked[:6:2], asked[1:6:2], strict=True)]
    upper = np.array([(scale & (1 << 52) - 1 | 1 << 52) >> 5 for scale in scales], np.uint64)[kinds]
    high, low = upper >> np.uint64(24), upper & np.uint64(0xFFFFFF)
    shift = exponent + np.array([(scale >> 52) - NO_SHIFT for scale in scales])[kinds]
    product = mantissa * high + (mantissa * low >> np.uint64(24))
    right = product >> np.clip(-shift, 0, 63).astype(np.uint64)
    moved = np.where(shift < 0, right, product << np.clip(shift, 0, 8).astype(np.uint64))
    moved = np.where(exponent == 0, np.uint64(0), moved)
    keys = np.where(negative, np.uint64(ZERO) - moved, np.uint64(ZERO) + moved)
    outside = (shift > 8) & (exponent > 0) | (size >= 0x7F800000)
    keys = np.where(outside, np.where(negative, np.uint64(0), np.uint64(BAD)), keys)
    return np.where(size > 0x7F800000, np.uint64(BAD), keys)


def _weights(keys: np.ndarray, best: int) -> np.ndarray:
    """Of each 2^(score - the best), in units of 2^-44, uint64: rounded down."""
    below = np.uint64(best) - keys
    whole = below >> np.uint64(FRACTION)
    behind = ~(below >> np.uint64(12)) & _WORD
    found = np.full(keys.shape, COEFFICIENTS[-1], np.uint64)
    for coefficient in COEFFICIENTS[-2::-1]:
        found = np.uint64(coefficient) + (found * behind >> np.uint64(32))
    weight = found << np.uint64(12) >> np.minimum(whole, np.uint64(63))
    return np.where(whole < FRACTION, weight, np.uint64(0))


def _ranked(keys: np.ndarray, count: int) -> np.ndarray:
    """Ids of the best ones in their order, and of those that come so near to the last of them that they may be
    others."""
    rough = keys >> np.uint64(33)
    least = np.partition(rough, rough.size - count)[rough.size - count]
    ids = np.flatnonzero(rough + np.uint64(1) >= least)
    return np.asarray(ids[np.lexsort((ids, ~keys[ids]))])


def _margin(whole: int, words: int) -> int:
    return (whole >> RELATIVE) + 2 * words + 4


def _clear(sums: np.ndarray, place: int, target: int, margin: int) -> bool:
    """Is what is wanted far enough from the borders of the token at `place`, of which the first has none before it?"""
    if place >= sums.size or int(sums[place]) - target <= margin:
        return False
    return place == 0 or target - int(sums[place - 1]) > margin


def _comparable(
    order: np.ndarray, ranked: Sequence[int], one: int, other: int, logits: np.ndarray, kinds: np.ndarray
) -> bool:
    """Are they in the order of their scores, or equal, whatever was rounded?"""
    a, b = order[one], order[other]
    both = logits.view(np.int32)[[a, b]]
    if not (both & 0x7FFFFFFF).any():  # 0 is 0, penalised or not
        return True
    return bool(kinds[a] == kinds[b] and (ranked[one] != ranked[other] or both[0] == both[1]))


def _edge(order: np.ndarray, ranked: Sequence[int], limit: int, logits: np.ndarray, kinds: np.ndarray) -> bool:
    """May one of the best `limit` be another, behind them?"""
    last, behind = ranked[limit - 1], ranked[limit]
    if last - behind > NEAR:
        return False
    near = [at for at in range(len(ranked)) if (ranked[at] - behind if at < limit else last - ranked[at]) <= NEAR]
    return any(not _comparable(order, ranked, at, limit - 1, logits, kinds) for at in near if at != limit - 1)
