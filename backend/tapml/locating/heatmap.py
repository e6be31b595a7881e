"""Where an output is wrong, as a small picture: the excess over the bound along the last two axes."""

from __future__ import annotations

import numpy as np

from tapml.results.locate import HeatMap

MOST = 64
"""Cells along a side."""

DECADES = 6.0
"""Above 10^6 times the bound it does not get any darker."""

_INSIDE = 0.25


def heatmap(excess: np.ndarray, unbounded: np.ndarray) -> HeatMap:
    """`excess`: |error| / bound of each element (compare/elements.py). The worst along leading axes and within a cell.

    A cell is 0 where every element is inside its bound, else from 0.25 (just outside) to 1, by the excess' logarithm;
    null where none is outside and some are `unbounded`.
    """
    columns = excess.shape[-1] if excess.ndim else 1
    rows = excess.shape[-2] if excess.ndim > 1 else 1
    down, across = -(-rows // MOST) or 1, -(-columns // MOST) or 1

    def cells_of(values: np.ndarray) -> np.ndarray:
        flat = values.reshape(-1, rows, columns) if values.size else np.zeros((1, 0, 0))
        worst: np.ndarray = flat.max(axis=0)
        return _binned(_binned(worst, down).T, across).T if worst.size else worst

    cells, free = cells_of(excess), cells_of(unbounded)
    return {
        "rows": cells.shape[0],
        "columns": cells.shape[1],
        "row_extent": down,
        "column_extent": across,
        "values": [
            [None if open_ and not value else round(float(value), 3) for value, open_ in zip(*row, strict=True)]
            for row in zip(shade(cells), free, strict=True)
        ],
        "legend": {
            "0": "every element inside its bound",
            str(_INSIDE): "just outside the bound",
            "null": "none outside, some unbounded",
            "1": f"10^{DECADES:.0f} times the bound or more, NaN or Infinity",
        },
    }


def shade(excess: np.ndarray) -> np.ndarray:
    """0..1, logarithmic above the bound."""
    with np.errstate(divide="ignore"):
        above = np.log10(np.maximum(excess, 1.0)) / DECADES
    return np.where(excess > 1.0, _INSIDE + (1 - _INSIDE) * np.minimum(above, 1.0), 0.0)


def _binned(values: np.ndarray, size: int) -> np.ndarray:
    """The largest of each `size` rows."""
    return np.maximum.reduceat(values, np.arange(0, len(values), size), axis=0)
