"""Which token follows, of logits: repetition penalty, temperature, top-k, top-p, a draw, in this order. The twin of
runner_js/src/generation/sampling.ts; tests/vectors/sampling.json holds both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tapml.errors import InputError, TapmlError
from tapml.generation.philox import uniform

Choose: TypeAlias = Callable[[np.ndarray, Iterable[int], int], int]
"""choose(logits float32 [vocabulary], tokens that are in the text, position) is the token for that position."""

_MOST_SEED = 2**53 - 1
_LEAST, _MOST = 1e-6, 1e6
"""Of what logits are divided by: they stay finite."""
_RANGE = "from 0.000001 to 1000000"
_OF_DRAWS = ("temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen. Raises InputError for what is beyond its range, in one sentence."""

    greedy: bool = False
    """The most likely token, of equal ones that of the lowest id. The penalty is its only other option."""
    temperature: float | None = None
    """Above 0; 1 if nothing is said."""
    top_k: int | None = None
    """How many of the most likely tokens there are to choose from: all if nothing is said."""
    top_p: float | None = None
    """From 0 to 1: the fewest of the most likely tokens that are as likely together. 1 if nothing is said."""
    repetition_penalty: float = 1.0
    """Logits of tokens that are in the text are divided by it, or multiplied where they are below 0."""
    seed: int | None = None
    """A whole number from 0: the same gives the same text. 0 if nothing is said."""

    def __post_init__(self) -> None:
        idle = next((name for name in _OF_DRAWS if getattr(self, name) is not None), None)
        if self.greedy and idle:
            raise InputError(f"greedy takes the most likely token, and {idle} is for draws: leave one of them out")
        if not _in_range(self.temperature):
            raise InputError(
                f"temperature is {self.temperature}: give a number above 0 (for the most likely token give greedy), "
                f"{_RANGE}"
            )
        if not _in_range(self.repetition_penalty):
            raise InputError(
                f"repetition_penalty is {self.repetition_penalty}: give a number above 0 (1 changes nothing), {_RANGE}"
            )
        if self.top_k is not None and not (_whole(self.top_k) and self.top_k >= 1):
            raise InputError(f"top_k is {self.top_k}: give a whole number from 1, or leave it out for all tokens")
        if not (_number(self.top_p) and 0 < (1 if self.top_p is None else self.top_p) <= 1):
            raise InputError(f"top_p is {self.top_p}: give a number above 0 and at most 1")
        if self.seed is not None and not (_whole(self.seed) and 0 <= self.seed <= _MOST_SEED):
            raise InputError(f"seed is {self.seed}: give a whole number from 0 to 2^53 - 1")


def chooser(sampling: Sampling) -> Choose:
    """Raises, when it is called, TapmlError for logits that are no numbers to choose by."""
    penalty, temperature = sampling.repetition_penalty, sampling.temperature or 1.0
    top_p, seed = sampling.top_p or 1.0, sampling.seed or 0

    def choose(logits: np.ndarray, seen: Iterable[int], position: int) -> int:
        scores = logits.astype(np.float64).reshape(-1)
        if penalty != 1.0:
            ids = np.fromiter(set(seen), np.int64)
            scores[ids] = np.where(scores[ids] > 0, scores[ids] / penalty, scores[ids] * penalty)
        best = int(np.argmax(scores))  # of equal ones the first; of NaN the first
        if not math.isfinite(scores[best]):
            what = f"that of token {best} is NaN" if math.isnan(scores[best]) else f"the largest is {scores[best]}"
            raise TapmlError(
                f"the model's logits for position {position} are no numbers to choose by, {what}: find the operator at "
                "fault with `tapml locate`"
            )
        if sampling.greedy:
            return best
        return _drawn(scores / temperature, sampling.top_k, top_p, uniform(seed, position))

    return choose


def _drawn(scores: np.ndarray, top_k: int | None, top_p: float, random: float) -> int:
    # Sums are taken one by one, in the order in which a page takes them.
    with np.errstate(under="ignore"):
        weights = np.exp(scores - scores.max())
    kept = np.arange(scores.size)
    if top_k is not None and top_k < scores.size:
        kept = _ranked(scores)[:top_k]
    if top_p < 1:
        total = np.cumsum(weights[kept])[-1]
        ranked = kept if kept.size < scores.size else _ranked(scores)
        sums = np.cumsum(weights[ranked])
        kept = ranked[: int(np.searchsorted(sums, top_p * total)) + 1]
    sums = np.cumsum(weights[kept])
    place = int(np.searchsorted(sums, random * sums[-1], side="right"))
    if place == sums.size:  # a product that was rounded up
        place = int(np.flatnonzero(weights[kept])[-1])
    return int(kept[place])


def _ranked(scores: np.ndarray) -> np.ndarray:
    """Ids by their scores, the best first, of equal ones the lowest first."""
    return np.argsort(-scores, kind="stable")


def _in_range(value: Any) -> bool:
    return value is None or (_number(value) and _LEAST <= value <= _MOST)


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
