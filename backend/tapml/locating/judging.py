"""The runner's comparison (runner_js/src/runner/compare.ts) in numpy: for every element, not only for the worst."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tapml.suite import Suite, TensorRef, Tolerance


def bound_of(suite: Suite, tolerance: Tolerance, expected: np.ndarray) -> np.ndarray:
    """What each element may differ by, in float64; infinite where it is unbounded."""
    if tolerance.bound is not None:
        return suite.tensors.get(tolerance.bound).astype(np.float64).reshape(expected.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        bound = tolerance.absolute + tolerance.relative * np.abs(expected.astype(np.float64))
    # An expected infinity is met by itself only, and NaN by NaN.
    return np.where(np.isfinite(bound), bound, 0.0)


def errors(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|got - expected| in float64: 0 for equal infinities and for NaN on both sides, infinite for NaN on one."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(a - b)
    both = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(both, 0.0, np.where(np.isnan(difference), np.inf, difference))


def outside(error: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Elements that are mismatched: outside their bound. An unbounded one never is."""
    return (error > bound) & ~np.isposinf(bound)


def excesses(error: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """error / bound: above 1 is outside. Infinite where nothing was allowed and something is off; 0 where unbounded."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = error / bound
    return np.where(error == 0, 0.0, np.where(np.isposinf(bound), 0.0, ratio))


def tied(suite: Suite, ties: TensorRef | None, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Index elements that are accepted because the operator may choose among equals (suite-format.md, "Tolerances")."""
    accepted = np.zeros(expected.size, bool)
    if ties is None:
        return accepted.reshape(expected.shape)
    positions: dict[int, list[int]] = defaultdict(list)
    values: dict[int, set[int]] = defaultdict(set)
    for group, kind, number in suite.tensors.get(ties).reshape(-1, 3).tolist():
        if kind == 0:
            positions[group].append(number)
        else:
            values[group].add(number)
    flat, wanted = got.reshape(-1), expected.reshape(-1)
    for group, places in positions.items():
        chosen = flat[places].tolist()
        if len(set(chosen)) == len(chosen) and values[group].issuperset(chosen):
            accepted[places] = flat[places] != wanted[places]
    return accepted.reshape(expected.shape)
