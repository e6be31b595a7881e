"""What a tensor looks like in numbers, for people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_BINS = 24
_HEAD = 8


def json_number(value: float) -> float | str:
    """Numbers as JSON can carry them: non-finite ones as strings."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def statistics(array: np.ndarray) -> dict[str, Any]:
    """min, max, mean, std over the finite elements (null where there are none), counts, histogram, first elements."""
    flat = array.reshape(-1)
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    some = finite.size > 0
    histogram = None
    if some:
        counts, edges = np.histogram(finite, bins=_BINS)
        histogram = {"edges": [float(e) for e in edges], "counts": [int(c) for c in counts]}
    return {
        "min": float(finite.min()) if some else None,
        "max": float(finite.max()) if some else None,
        "mean": float(finite.mean()) if some else None,
        "std": float(finite.std()) if some else None,
        "nan": int(np.isnan(numbers).sum()),
        "inf": int(np.isinf(numbers).sum()),
        "zeros": int((numbers == 0).sum()),
        "histogram": histogram,
        "head": [json_number(float(v)) for v in numbers[:_HEAD]],
    }
