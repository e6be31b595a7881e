"""Elements that hypotheses are made from, and others that they are tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tapml.locating.evidence import Evidence, explained
from tapml.locating.held_out import accepted, halves

_FITTED = 16
_HELD = 192
_RIGHT = 96


@dataclass(frozen=True)
class Part:
    """Some elements: their places in memory, what the device gave, what was expected, the bound."""

    places: np.ndarray
    got: np.ndarray
    expected: np.ndarray
    bound: np.ndarray

    def __len__(self) -> int:
        return len(self.places)

    def matches(self, predicted: np.ndarray) -> np.ndarray:
        """Those that a hypothesis gives."""
        return explained(self.got, predicted, self.expected, self.bound)

    def share(self, predicted: np.ndarray) -> float:
        """Of them; NaN and Infinity are easily had, so what gives them has to give numbers as well."""
        if not np.isfinite(self.got).any():
            return 0.0
        right = self.matches(predicted)
        return min(float(right[some].mean()) for some in self._kinds)

    def accepted(self, predicted: np.ndarray, least: float) -> float | None:
        """That share, where these are elements that the hypothesis was not made from; None where it is refused."""
        if not np.isfinite(self.got).any():
            return None
        right = self.matches(predicted)
        shares = [accepted(right, some, least) for some in self._kinds]
        return None if None in shares else min(share for share in shares if share is not None)

    @property
    def _kinds(self) -> list[np.ndarray]:
        finite = np.isfinite(self.got)
        return [some for some in (finite, ~finite) if some.any()]

    def unchanged(self, predicted: np.ndarray) -> float:
        """The share of them that is inside its bound in a hypothesis, too, or what the device gave: a fault brings
        elements to the edge of their bounds, and rounding brings some of these inside."""
        with np.errstate(invalid="ignore"):
            near = np.fmin(np.abs(predicted - self.expected), np.abs(predicted - self.got)) <= self.bound
        return float((near | (predicted == self.expected)).mean()) if len(self) else 1.0


@dataclass(frozen=True)
class Sample:
    """Wrong elements to make a hypothesis from, and `held` ones to test it on, and `right` ones."""

    fitted: Part
    held: Part
    right: Part
    every_wrong: Part
    """Wrong ones of both halves."""


def sample(evidence: Evidence, most: float = 1.0) -> Sample:
    """`most`: a share of the usual numbers, where each is much to compute."""
    chance = np.random.default_rng(0)
    wrong = np.flatnonzero(evidence.wrong.reshape(-1))
    first, second = (wrong[half] for half in halves(len(wrong)))
    # The largest errors show most; but all of them may be of one kind.
    excess = np.nan_to_num(evidence.excess.reshape(-1)[first], nan=np.inf, posinf=np.finfo(np.float64).max)
    count = max(4, round(_FITTED * most))
    by_size = first[np.argsort(-excess, kind="stable")]
    fitted = np.concatenate([by_size[: count // 2], by_size[count // 2 :][:: max(1, len(by_size) // count)][:count]])[
        :count
    ]
    right = chance.permutation(np.flatnonzero(~evidence.wrong.reshape(-1) & np.isfinite(evidence.bound.reshape(-1))))
    held = second[: max(4, round(_HELD * most))]
    return Sample(
        _part(evidence, np.sort(fitted)),
        _part(evidence, np.sort(held)),
        _part(evidence, np.sort(right[: max(4, round(_RIGHT * most))])),
        _part(evidence, np.sort(np.concatenate([fitted, held]))),
    )


def _part(evidence: Evidence, places: np.ndarray) -> Part:
    def of(array: np.ndarray) -> np.ndarray:
        found: np.ndarray = array.reshape(-1)[places]
        return found

    return Part(places, of(evidence.g), of(evidence.e), of(evidence.allowed))
