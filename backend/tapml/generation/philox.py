"""Random numbers that a seed and a counter give, in no order: Philox 4x32-10 (Salmon et al., SC 2011). The twin of
runner_js/src/generation/random.ts."""

from __future__ import annotations

from typing import TypeAlias

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF

Four: TypeAlias = tuple[int, int, int, int]


def philox(counter: Four, key: tuple[int, int]) -> Four:
    """Four words of 32 bits."""
    a, b, c, d = counter
    left, right = key
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (second >> 32) ^ b ^ left, second & _WORD, (first >> 32) ^ d ^ right, first & _WORD
        left, right = (left + _KEY_STEPS[0]) & _WORD, (right + _KEY_STEPS[1]) & _WORD
    return a, b, c, d


def uniform(seed: int, position: int) -> float:
    """From 0 to below 1, of 53 bits. A text that is gone on with later has the same numbers, for they belong to its
    positions."""
    high, low, _, _ = philox((position, 0, 0, 0), (seed & _WORD, seed >> 32))
    return float((high >> 5) * 2**26 + (low >> 6)) / float(2**53)
