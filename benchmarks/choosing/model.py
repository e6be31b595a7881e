"""The coefficients of the analytic model (backend/tapml/compilers/auto/model.json), fitted to tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from scipy.optimize import nnls

from tapml.compilers.auto.cost import Cost


@dataclass(frozen=True)
class Sample:
    """A candidate of an operator, as it was measured on a device."""

    operator: str
    candidate: str
    cost: Cost
    microseconds: float


def fitted(samples: Sequence[Sample]) -> list[float]:
    """None of them negative: of the relative differences the least squares."""
    numbers = np.array([[1.0, *astuple(one.cost)] for one in samples])
    relative = numbers / np.array([one.microseconds for one in samples])[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(relative / scale, np.ones(len(samples)))
    return [float(f"{value:.4g}") for value in found / scale]


def behind(coefficients: Sequence[float], samples: Sequence[Sample]) -> Mapping[str, float]:
    """Of each operator: by how much the candidate that the model has for the fastest is slower than the fastest."""
    found: dict[str, list[tuple[float, float]]] = {}
    for one in samples:
        guessed = float(np.dot(coefficients, [1.0, *astuple(one.cost)]))
        found.setdefault(one.operator, []).append((guessed, one.microseconds))
    return {operator: min(pairs)[1] / min(spent for _, spent in pairs) - 1 for operator, pairs in found.items()}
