"""The runner's comparison (runner_js/src/compare/compare.ts) in numpy: for every element, not only for the worst."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapml.protocol import base as protocol
from tapml.suite import Tolerance
from tapml.suite.ties import accepted_ties

Read = Callable[[Any], np.ndarray]
"""Gives the array of a tensor that a tolerance refers to."""

_AT_ONCE = 1 << 16
"""Elements: in float64 what comes between them and their errors is many times what they are."""


def bound_of(tolerance: Tolerance | protocol.Tolerance, expected: np.ndarray, read: Read) -> np.ndarray:
    """What each element may differ by, in float64; infinite where it is unbounded, and 0 where `expected` is no number:
    such are met exactly."""
    if tolerance.bound is not None:
        return read(tolerance.bound).astype(np.float64).reshape(expected.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        bound = tolerance.absolute + tolerance.relative * np.abs(expected.astype(np.float64))
    return np.where(np.isfinite(bound), bound, 0.0)


def errors(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|got - expected| in float64: 0 for equal infinities and for NaN on both sides, infinite for NaN on one."""
    if got.size <= _AT_ONCE or got.shape != expected.shape:
        return _errors(got, expected)
    found = np.empty(got.shape)
    into, ours, theirs = (array.reshape(-1) for array in (found, got, expected))
    for start in range(0, got.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        into[part] = _errors(ours[part], theirs[part])
    return found


def _errors(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    a, b = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.asarray(np.abs(a - b))
    if np.isfinite(difference).all():
        return difference
    both = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(both, 0.0, np.where(np.isnan(difference), np.inf, difference))


def largest(values: np.ndarray) -> float:
    """The largest magnitude of those that are finite; 0 where none is."""
    magnitudes = np.abs(values)
    return float(np.max(magnitudes[np.isfinite(magnitudes)], initial=0.0))


def outside(error: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Elements that are mismatched: outside their bound. An unbounded one never is."""
    return (error > bound) & ~np.isposinf(bound)


def excesses(error: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """error / bound: above 1 is outside. Infinite where nothing was allowed and something is off; 0 where unbounded."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = error / bound
    return np.where(error == 0, 0.0, np.where(np.isposinf(bound), 0.0, ratio))


def tied(tolerance: Tolerance | protocol.Tolerance, got: np.ndarray, expected: np.ndarray, read: Read) -> np.ndarray:
    """Elements that differ and are accepted, because the operator may choose among equals (suite-format.md)."""
    if tolerance.ties is None:
        return np.zeros(expected.shape, bool)
    return accepted_ties(read(tolerance.ties), got, expected)
