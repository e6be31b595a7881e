"""How close two sets of model outputs are: cosine and largest absolute error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapml.results import base as results


@dataclass(frozen=True)
class Agreement:
    """`cosine` of all elements as one vector (NaN where either is zero or not finite), `max_abs_error` of any."""

    cosine: float
    max_abs_error: float

    def to_json(self) -> results.Agreement:
        """JSON with null for what is not a number."""
        return {
            "cosine": self.cosine if np.isfinite(self.cosine) else None,
            "max_abs_error": self.max_abs_error if np.isfinite(self.max_abs_error) else None,
        }


def agreement(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> Agreement:
    """Compare outputs pairwise, in float64. Shapes must be equal (ValueError).

    Equal infinities agree, and have no part in the cosine; a NaN on one side only makes both numbers NaN.
    """
    flat_got = _flatten(got)
    flat_expected = _flatten(expected)
    if flat_got.shape != flat_expected.shape:
        raise ValueError(f"outputs of {flat_got.size} and {flat_expected.size} elements cannot be compared")
    with np.errstate(invalid="ignore", over="ignore"):
        same = (flat_got == flat_expected) | (np.isnan(flat_got) & np.isnan(flat_expected))
        difference = np.where(same, 0.0, np.abs(flat_got - flat_expected))
        compared = ~same | np.isfinite(flat_got)
        flat_got, flat_expected = flat_got[compared], flat_expected[compared]
        norm = float(np.linalg.norm(flat_got) * np.linalg.norm(flat_expected))
        cosine = float(flat_got @ flat_expected) / norm if norm else float("nan")
    largest = float(np.max(difference, initial=0.0))
    if bool(same.all()) and not np.isfinite(cosine):
        cosine = 1.0  # all zero on both sides, or the same infinities: nothing disagrees
    return Agreement(min(cosine, 1.0), largest)


def _flatten(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(a, dtype=np.float64).reshape(-1) for a in arrays]) if arrays else np.zeros(0)
