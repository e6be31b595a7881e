"""Arrays at random: every type, few axes, extents of 0 and 1 among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
FLOATS = ("float32", "float64")
NUMBERS = (*INTEGERS, *FLOATS)
ALL = ("bool", *NUMBERS)

Drawn = st.SearchStrategy[Any]


def shapes(least: int = 0, most: int = 3, side: int = 0) -> Drawn:
    return hnp.array_shapes(min_dims=least, max_dims=most, min_side=side, max_side=4)


def arrays(dtypes: tuple[str, ...] = NUMBERS, shape: Drawn | None = None, elements: Any = None) -> Drawn:
    drawn = shapes() if shape is None else shape
    return st.tuples(st.sampled_from(dtypes), drawn).flatmap(lambda one: of(*one, elements))


def of(dtype: str, shape: tuple[int, ...], elements: Any = None) -> Drawn:
    if elements is None and dtype in FLOATS:
        width = 32 if dtype == "float32" else 64
        special = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, np.inf, -np.inf, np.nan])
        elements = st.one_of(special, st.floats(-100, 100, width=width), st.floats(width=width))
    return hnp.arrays(dtype, shape, elements=elements if dtype in FLOATS else None)


def tame(dtype: str, shape: tuple[int, ...]) -> Drawn:
    """Numbers of which sums and products are near their like: no overflow, nothing that cancels out to nothing."""
    if dtype in FLOATS:
        return hnp.arrays(dtype, shape, elements=st.floats(-100, 100, width=32))
    if dtype == "bool":
        return hnp.arrays(dtype, shape)
    low = 0 if dtype.startswith("u") else -9
    return hnp.arrays(dtype, shape, elements=st.integers(low, 9))


def tamed(dtypes: tuple[str, ...] = NUMBERS, shape: Drawn | None = None) -> Drawn:
    drawn = shapes() if shape is None else shape
    return st.tuples(st.sampled_from(dtypes), drawn).flatmap(lambda one: tame(*one))


@st.composite
def pairs(draw: Any, dtypes: tuple[str, ...] = NUMBERS, same: bool = False, elements: Any = None) -> tuple[Any, Any]:
    """Two arrays that are broadcast together, or an array and a number of Python's."""
    first = draw(st.sampled_from(dtypes))
    second = first if same else draw(st.sampled_from(dtypes))
    drawn = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3))
    return tuple(
        draw(of(dtype, shape, elements)) for dtype, shape in zip((first, second), drawn.input_shapes, strict=True)
    )


@st.composite
def with_axis(draw: Any, dtypes: tuple[str, ...] = NUMBERS, least: int = 1, side: int = 0, wild: bool = True) -> Any:
    """An array and one of its axes."""
    shape = draw(shapes(max(1, least), 3, side))
    dtype = draw(st.sampled_from(dtypes))
    x = draw(of(dtype, shape) if wild else tame(dtype, shape))
    return x, draw(st.integers(-x.ndim, x.ndim - 1))


@st.composite
def with_axes(draw: Any, dtypes: tuple[str, ...] = NUMBERS, side: int = 0, wild: bool = True) -> Any:
    """An array, and one axis, several or None."""
    x, axis = draw(with_axis(dtypes, side=side, wild=wild))
    several = draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1).map(tuple))
    return x, draw(st.sampled_from([None, axis, several]))
