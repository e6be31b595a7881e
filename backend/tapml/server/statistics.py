"""What a tensor looks like in numbers, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapml.locating.evidence import jsonable

_BINS = 24
_HEAD = 8
_PIECE = 1 << 18


def statistics(array: np.ndarray) -> dict[str, Any]:
    """min, max, mean, std over the finite elements (null where there are none), counts, histogram, first elements.

    Goes over the elements in pieces: what is needed beside the array does not grow with it.
    """
    flat = array.reshape(-1)
    count = nan = inf = zeros = 0
    least, most, total = math.inf, -math.inf, 0.0
    for numbers, finite in _pieces(flat):
        nan += int(np.isnan(numbers).sum())
        inf += int(np.isinf(numbers).sum())
        zeros += int((numbers == 0).sum())
        if finite.size:
            count += finite.size
            least, most = min(least, float(finite.min())), max(most, float(finite.max()))
            total += float(finite.sum())
    found: dict[str, Any] = {"min": None, "max": None, "mean": None, "std": None}
    histogram = None
    if count:
        mean = total / count
        squares, counts = 0.0, np.zeros(_BINS, np.int64)
        edges = _edges(least, most)
        for _, finite in _pieces(flat):
            with np.errstate(over="ignore"):
                squares += float(np.square(finite - mean).sum())
            if edges is not None:
                counts += np.histogram(finite, bins=edges)[0]
        found = {"min": least, "max": most, "mean": mean, "std": math.sqrt(squares / count)}
        if edges is not None:
            histogram = {"edges": edges, "counts": counts}
    more = {"nan": nan, "inf": inf, "zeros": zeros, "histogram": histogram, "head": flat[:_HEAD].astype(np.float64)}
    return {name: jsonable(value) for name, value in {**found, **more}.items()}


def _edges(least: float, most: float) -> np.ndarray | None:
    """Of the histogram's bins; None where the range is too narrow for so many numbers, or wider than a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            edges = np.histogram_bin_edges(np.array([least, most]), bins=_BINS)
        except ValueError:
            return None
    return edges if np.isfinite(edges).all() else None


def _pieces(flat: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """In float64: all elements of a piece, and the finite ones."""
    for start in range(0, len(flat), _PIECE):
        numbers = flat[start : start + _PIECE].astype(np.float64)
        yield numbers, numbers[np.isfinite(numbers)]
