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
    tame,
    tamed,
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


def _plain(drawn: Drawn) -> Drawn:
    """Of one value."""
    return drawn.map(lambda x: ((x,), {}))


def _both(drawn: Drawn) -> Drawn:
    return drawn.map(lambda two: (tuple(two), {}))


def _keyword(drawn: Drawn, *names: str) -> Drawn:
    """The first is a value, the others are keywords."""
    return drawn.map(lambda all: ((all[0],), dict(zip(names, all[1:], strict=True))))


def _without_64(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    return lambda x, y: getattr(np, name)(*_without_64(x, y))


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
        **{name: Case(_plain(arrays(FLOATS, elements=_small)), _wide(name), exact=False) for name in _UNARY},
        "reciprocal": Case(_plain(arrays(FLOATS)), np.reciprocal),
        **{name: Case(_plain(arrays(NUMBERS)), getattr(np, name)) for name in _KEPT},
        **{name: Case(_plain(arrays(ALL)), getattr(np, name)) for name in ("isfinite", "isnan", "logical_not")},
        "isinf": Case(_plain(arrays(ALL)), np.isinf),
        "signbit": Case(_plain(arrays(FLOATS)), lambda x: np.signbit(x) & ~np.isnan(x)),
        "bitwise_invert": Case(_plain(arrays(("bool", *INTEGERS))), np.bitwise_invert),
        **{name: Case(_both(pairs()), _promoted(name)) for name in _ARITHMETIC},
        **{name: Case(_both(pairs(ALL)), _compared(name)) for name in _COMPARED},
        **{name: Case(_both(pairs(ALL)), _promoted(name), zeros=False) for name in ("maximum", "minimum")},
        **{name: Case(_both(pairs(ALL)), getattr(np, name)) for name in ("logical_and", "logical_or", "logical_xor")},
        "divide": Case(_both(pairs()), _beside("divide")),
        **{name: Case(_both(pairs(FLOATS)), _wide(name), exact=False) for name in ("atan2", "hypot")},
        "copysign": Case(_both(pairs(FLOATS)), np.copysign),
        "logaddexp": Case(_both(pairs(FLOATS, elements=_small)), _wide("logaddexp"), exact=False),
        **{
            name: Case(_both(pairs(("bool", *INTEGERS), same=True)), getattr(np, name))
            for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        },
        "bitwise_left_shift": Case(_shifts(), np.bitwise_left_shift),
        "bitwise_right_shift": Case(_shifts(), np.bitwise_right_shift),
        "pow": Case(
            _both(st.one_of(pairs(FLOATS, elements=st.floats(-8, 8, width=32)), _powers())), _power, exact=False
        ),
        "clip": Case(_clipped(), _clip, zeros=False),
        "where": Case(_chosen(), lambda c, x, y: np.where(c, *_without_64(x, y))),
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


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Sums of integers are int32 and uint32 here."""

    def reference(x: np.ndarray, **keywords: Any) -> Any:
        found = np.asarray(function(x, **keywords))
        return found.astype({"int64": np.int32, "uint64": np.uint32}.get(str(found.dtype), found.dtype))

    return reference


def _mean_like(function: Callable[..., Any]) -> Callable[..., Any]:
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
        "sum": Case(tame_axes, _whole(np.sum), exact=False, absolute=1e-3),
        "prod": Case(drawn(_factors()), _whole(np.prod), exact=False),
        "mean": Case(some, _mean_like(np.mean), exact=False, absolute=1e-5),
        "var": Case(_corrected(), _mean_like(np.var), exact=False, absolute=1e-5),
        "std": Case(_corrected(), _mean_like(np.std), exact=False, absolute=1e-5),
        **{name: Case(drawn(with_axes(NUMBERS, side=1)), getattr(np, name), zeros=False) for name in ("max", "min")},
        **{name: Case(drawn(with_axes(ALL)), getattr(np, name)) for name in ("all", "any")},
        **{name: Case(one_axis, _whole(getattr(np, name))) for name in ("argmax", "argmin")},
        "cumulative_sum": Case(_sums(), _whole(np.cumulative_sum), exact=False, absolute=1e-3),
        "count_nonzero": Case(_plain(arrays(ALL)), _whole(np.count_nonzero)),
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


def _linear() -> dict[str, Case]:
    loose = {"exact": False, "relative": 1e-4, "absolute": 1e-3}
    return {
        "matmul": Case(_products(), lambda x, y: np.matmul(*_without_64(x, y)), **loose),
        "outer": Case(
            st.tuples(tamed(NUMBERS, shapes(1, 1)), tamed(NUMBERS, shapes(1, 1))).map(lambda two: (two, {})),
            lambda x, y: np.outer(*_without_64(x, y)),
        ),
        "vecdot": Case(_rows_of_two(), lambda x, y: np.vecdot(*_without_64(x, y)), **loose),
        "tensordot": Case(_contracted(), lambda x, y, axes: np.tensordot(*_without_64(x, y), axes=axes), **loose),
        "det": Case(_plain(_matrices()), np.linalg.det, **loose),
        "inv": Case(_plain(_matrices()), np.linalg.inv, **loose),
        "solve": Case(_systems(), np.linalg.solve, **loose),
        "cholesky": Case(_plain(_matrices().map(_positive)), np.linalg.cholesky, **loose),
        "trace": Case(
            _keyword(_diagonals(), "offset"), _whole(lambda x, offset: np.linalg.trace(x, offset=offset)), **loose
        ),
        "diagonal": Case(_keyword(_diagonals(), "offset"), lambda x, offset: np.linalg.diagonal(x, offset=offset)),
        "cross": Case(_both(_triples()), np.linalg.cross, **loose),
        "vector_norm": Case(_norms(), _mean_like(np.linalg.vector_norm), **loose),
    }


@st.composite
def _products(draw: Any) -> Any:
    side = st.integers(0, 4)
    n, k, m = draw(side), draw(side), draw(side)
    drawn = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, min_side=0, max_side=3))
    first, second = drawn.input_shapes
    x = draw(tame(draw(st.sampled_from(NUMBERS)), draw(st.sampled_from([(k,), (*first, n, k)]))))
    y = draw(tame(draw(st.sampled_from(NUMBERS)), draw(st.sampled_from([(k,), (*second, k, m)]))))
    return (x, y), {}


@st.composite
def _rows_of_two(draw: Any) -> Any:
    shape = draw(shapes(1))
    dtypes = draw(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)))
    return (draw(tame(dtypes[0], shape)), draw(tame(dtypes[1], shape))), {}


@st.composite
def _contracted(draw: Any) -> Any:
    shape = draw(shapes(2, 3))
    x = draw(tame(draw(st.sampled_from(NUMBERS)), shape))
    y = draw(tame(draw(st.sampled_from(NUMBERS)), draw(st.sampled_from([shape[-1:], (*shape[-1:], 2)]))))
    return (x, y), {"axes": 1}


@st.composite
def _matrices(draw: Any) -> np.ndarray:
    """Far from singular."""
    n = draw(st.integers(1, 4))
    x = draw(
        hnp.arrays(draw(st.sampled_from(FLOATS)), (*draw(shapes(0, 1)), n, n), elements=st.floats(-1, 1, width=32))
    )
    return x + 4 * np.eye(n, dtype=x.dtype)[draw(st.permutations(range(n)))]


def _positive(x: np.ndarray) -> np.ndarray:
    return x @ np.matrix_transpose(x) + np.eye(x.shape[-1], dtype=x.dtype)


@st.composite
def _systems(draw: Any) -> Any:
    x = draw(_matrices())
    n = x.shape[-1]
    shape = draw(st.sampled_from([(n, 2), (*x.shape[:-2], n, 3)] + ([(n,)] if x.ndim == 2 else [])))
    return (x, draw(hnp.arrays(x.dtype, shape, elements=st.floats(-9, 9, width=32)))), {}


@st.composite
def _diagonals(draw: Any) -> Any:
    return draw(tamed(NUMBERS, shapes(2))), draw(st.integers(-4, 4))


@st.composite
def _triples(draw: Any) -> Any:
    shape = (*draw(shapes(0, 2)), 3)
    dtype = draw(st.sampled_from(FLOATS))
    return draw(tame(dtype, shape)), draw(tame(dtype, shape))


@st.composite
def _norms(draw: Any) -> Any:
    x, axis = draw(with_axis(FLOATS, side=1, wild=False))
    order = draw(st.sampled_from([0, 1, 2, 3, float("inf"), -float("inf")]))
    return (x,), {"axis": draw(st.sampled_from([axis, None])), "keepdims": draw(st.booleans()), "ord": order}


def number_cases() -> Mapping[str, Case]:
    return {**_elementwise(), **_reduced(), **_linear()}
