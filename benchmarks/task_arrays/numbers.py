"""Cases of the functions of arrays: what they are called with, and what NumPy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks.task_arrays.drawn import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Drawn,
    arrays,
    of,
    pairs,
    shapes,
    with_axes,
    with_axis,
)


@dataclass(frozen=True)
class Case:
    """`drawn`: (values, keywords). `exact`: no rounding is allowed for."""

    drawn: Drawn
    reference: Callable[..., Any]
    exact: bool = True
    relative: float = 1e-6
    absolute: float = 0.0
    zeros: bool = True
    """Whether the sign of 0 is compared, where no rounding is allowed for."""


def plain(drawn: Drawn) -> Drawn:
    """Of one value."""
    return drawn.map(lambda x: ((x,), {}))


def both(drawn: Drawn) -> Drawn:
    return drawn.map(lambda two: (tuple(two), {}))


def without_64(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """There are no integers of 64 bits here: float64 holds both."""
    if np.result_type(x, y) == np.int64:
        return x.astype(np.float64), y.astype(np.float64)
    return x, y


def _reals(name: str) -> Callable[..., Any]:
    """NumPy gives float16 of int8: here it is float64 of all integers."""

    def reference(*given: np.ndarray) -> Any:
        return getattr(np, name)(*(x if x.dtype.kind == "f" else x.astype(np.float64) for x in given))

    return reference


def _promoted(name: str) -> Callable[..., Any]:
    return lambda x, y: getattr(np, name)(*without_64(x, y))


def _beside(name: str) -> Callable[..., Any]:
    return lambda x, y: getattr(np, name)(*(_real_pair(x, y)))


def _real_pair(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    dtype = np.result_type(x, y)
    return (x, y) if dtype.kind == "f" else (x.astype(np.float64), y.astype(np.float64))


_UNARY = [
    *["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p", "log2"],
    *["log10", "sin", "sinh", "sqrt", "tan", "tanh"],
]
_KEPT = ["abs", "negative", "positive", "square", "sign", "ceil", "floor", "round", "trunc"]
_ARITHMETIC = ["add", "subtract", "multiply", "floor_divide", "remainder"]
_COMPARED = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]

_small = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]), st.floats(-50, 50, width=32))


def _elementwise() -> dict[str, Case]:
    return {
        # float32 goes through float64 here: beyond 2**20 NumPy's own of float32 is no reference for sine and cosine.
        **{name: Case(plain(arrays(FLOATS, elements=_small)), _wide(name), exact=False) for name in _UNARY},
        "reciprocal": Case(plain(arrays(FLOATS)), np.reciprocal),
        **{name: Case(plain(arrays(NUMBERS)), getattr(np, name)) for name in _KEPT},
        **{name: Case(plain(arrays(ALL)), getattr(np, name)) for name in ("isfinite", "isnan", "logical_not")},
        "isinf": Case(plain(arrays(ALL)), np.isinf),
        "signbit": Case(plain(arrays(FLOATS)), lambda x: np.signbit(x) & ~np.isnan(x)),
        "bitwise_invert": Case(plain(arrays(("bool", *INTEGERS))), np.bitwise_invert),
        **{name: Case(both(pairs()), _promoted(name)) for name in _ARITHMETIC},
        **{name: Case(both(pairs(ALL)), _compared(name)) for name in _COMPARED},
        **{name: Case(both(pairs(ALL)), _promoted(name), zeros=False) for name in ("maximum", "minimum")},
        **{name: Case(both(pairs(ALL)), getattr(np, name)) for name in ("logical_and", "logical_or", "logical_xor")},
        "divide": Case(both(pairs()), _beside("divide")),
        **{name: Case(both(pairs(FLOATS)), _wide(name), exact=False) for name in ("atan2", "hypot")},
        "copysign": Case(both(pairs(FLOATS)), np.copysign),
        "logaddexp": Case(both(pairs(FLOATS, elements=_small)), _wide("logaddexp"), exact=False),
        **{
            name: Case(both(pairs(("bool", *INTEGERS), same=True)), getattr(np, name))
            for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        },
        "bitwise_left_shift": Case(_shifts(), np.bitwise_left_shift),
        "bitwise_right_shift": Case(_shifts(), np.bitwise_right_shift),
        "pow": Case(
            both(st.one_of(pairs(FLOATS, elements=st.floats(-8, 8, width=32)), _powers())), _power, exact=False
        ),
        "clip": Case(_clipped(), _clip, zeros=False),
        "where": Case(_chosen(), lambda c, x, y: np.where(c, *without_64(x, y))),
    }


def _wide(name: str) -> Callable[..., Any]:
    """Computed in float64, and rounded once."""

    def reference(*given: np.ndarray) -> Any:
        dtype = np.result_type(*given)
        return np.asarray(getattr(np, name)(*(x.astype(np.float64) for x in given))).astype(dtype)

    return reference


def _compared(name: str) -> Callable[..., Any]:
    return lambda x, y: getattr(np, name)(x, y)


@st.composite
def _shifts(draw: Any) -> Any:
    x, y = draw(pairs(INTEGERS, same=True))
    bits = 8 * x.dtype.itemsize
    return (x, (y.astype(np.int64) % bits).astype(y.dtype)), {}


@st.composite
def _powers(draw: Any) -> Any:
    x, y = draw(pairs(INTEGERS, same=True))
    return x, (y.astype(np.int64) % 9).astype(y.dtype)


def _power(x: np.ndarray, y: np.ndarray) -> Any:
    dtype = np.result_type(x, y)
    return np.pow(x, y) if dtype.kind != "f" else np.pow(x.astype(np.float64), y.astype(np.float64)).astype(dtype)


@st.composite
def _clipped(draw: Any) -> Any:
    dtype = draw(st.sampled_from(NUMBERS))
    x = draw(of(dtype, draw(shapes())))
    number = st.integers(0, 60) if dtype in INTEGERS else st.floats(-50, 50, width=32)
    low, high = draw(st.one_of(st.none(), number)), draw(st.one_of(st.none(), number))
    return (x,), {"min": low, "max": high}


def _clip(x: np.ndarray, min: Any, max: Any) -> Any:
    return x if min is None and max is None else np.clip(x, min, max)


@st.composite
def _chosen(draw: Any) -> Any:
    drawn = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3))
    first, second, third = drawn.input_shapes
    dtypes = draw(st.tuples(st.sampled_from(ALL), st.sampled_from(ALL)))
    return (draw(of("bool", first)), draw(of(dtypes[0], second)), draw(of(dtypes[1], third))), {}


def whole_32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Sums of integers are int32 and uint32 here."""

    def reference(x: np.ndarray, **keywords: Any) -> Any:
        found = np.asarray(function(x, **keywords))
        return found.astype({"int64": np.int32, "uint64": np.uint32}.get(str(found.dtype), found.dtype))

    return reference


def mean_like(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: np.ndarray, **keywords: Any) -> Any:
        return np.asarray(function(x.astype(np.float64), **keywords)).astype(x.dtype if x.dtype.kind == "f" else float)

    return reference


def _reduced() -> dict[str, Case]:
    kept = st.booleans()

    def drawn(source: Drawn) -> Drawn:
        return st.tuples(source, kept).map(lambda one: ((one[0][0],), {"axis": one[0][1], "keepdims": one[1]}))

    tame_axes = drawn(with_axes(ALL, wild=False))
    some = drawn(with_axes(NUMBERS, side=1, wild=False))
    one_axis = drawn(with_axis(NUMBERS, side=1))
    return {
        "sum": Case(tame_axes, whole_32(np.sum), exact=False, absolute=1e-3),
        "prod": Case(drawn(_factors()), whole_32(np.prod), exact=False),
        "mean": Case(some, mean_like(np.mean), exact=False, absolute=1e-5),
        "var": Case(_corrected(), mean_like(np.var), exact=False, absolute=1e-5),
        "std": Case(_corrected(), mean_like(np.std), exact=False, absolute=1e-5),
        **{name: Case(drawn(with_axes(NUMBERS, side=1)), getattr(np, name), zeros=False) for name in ("max", "min")},
        **{name: Case(drawn(with_axes(ALL)), getattr(np, name)) for name in ("all", "any")},
        **{name: Case(one_axis, whole_32(getattr(np, name))) for name in ("argmax", "argmin")},
        "cumulative_sum": Case(_sums(), whole_32(np.cumulative_sum), exact=False, absolute=1e-3),
        "cumulative_prod": Case(_products(), whole_32(np.cumulative_prod), exact=False),
        "diff": Case(_differences(), np.diff),
        "count_nonzero": Case(plain(arrays(ALL)), whole_32(np.count_nonzero)),
    }


@st.composite
def _factors(draw: Any) -> Any:
    x, axis = draw(with_axes(("int16", "uint8", "float32", "float64"), wild=False))
    return (np.sign(x) if x.dtype.kind != "f" else x / np.float32(50)).astype(x.dtype), axis


@st.composite
def _corrected(draw: Any) -> Any:
    x, axis = draw(with_axes(NUMBERS, side=2, wild=False))
    return (x,), {"axis": axis, "correction": float(draw(st.integers(0, 1))), "keepdims": draw(st.booleans())}


@st.composite
def _sums(draw: Any) -> Any:
    x, axis = draw(with_axis(NUMBERS, wild=False))
    return (x,), {"axis": axis, "include_initial": draw(st.booleans())}


@st.composite
def _products(draw: Any) -> Any:
    x, axis = draw(with_axis(("int16", "uint8", "float32", "float64"), wild=False))
    factors = (np.sign(x) if x.dtype.kind != "f" else x / np.float32(50)).astype(x.dtype)
    return (factors,), {"axis": axis, "include_initial": draw(st.booleans())}


@st.composite
def _differences(draw: Any) -> Any:
    x, axis = draw(with_axis(NUMBERS))
    shape = list(x.shape)

    def beside() -> Any:
        shape[axis] = draw(st.integers(0, 2))
        return draw(of(x.dtype.name, tuple(shape)))

    more = {name: beside() for name in ("prepend", "append") if draw(st.booleans())}
    return (x,), {"axis": axis, "n": draw(st.integers(0, 3)), **more}


def number_cases() -> Mapping[str, Case]:
    return {**_elementwise(), **_reduced()}
