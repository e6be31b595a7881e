"""Cases of products and of linear algebra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks.task_arrays.drawn import FLOATS, NUMBERS, Drawn, shapes, tame, tamed, with_axis
from benchmarks.task_arrays.numbers import Case, both, mean_like, plain, whole_32, without_64


def keyword(drawn: Drawn, *names: str) -> Drawn:
    """The first is a value, the others are keywords."""
    return drawn.map(lambda all: ((all[0],), dict(zip(names, all[1:], strict=True))))


def product_cases() -> Mapping[str, Case]:
    loose = {"exact": False, "relative": 1e-4, "absolute": 1e-3}
    return {
        "matmul": Case(_products(), lambda x, y: np.matmul(*without_64(x, y)), **loose),
        "outer": Case(
            st.tuples(tamed(NUMBERS, shapes(1, 1)), tamed(NUMBERS, shapes(1, 1))).map(lambda two: (two, {})),
            lambda x, y: np.outer(*without_64(x, y)),
        ),
        "vecdot": Case(_rows_of_two(), lambda x, y: np.vecdot(*without_64(x, y)), **loose),
        "tensordot": Case(_contracted(), lambda x, y, axes: np.tensordot(*without_64(x, y), axes=axes), **loose),
        "det": Case(plain(_matrices()), np.linalg.det, **loose),
        "inv": Case(plain(_matrices()), np.linalg.inv, **loose),
        "solve": Case(_systems(), np.linalg.solve, **loose),
        "cholesky": Case(plain(_matrices().map(_positive)), np.linalg.cholesky, **loose),
        "trace": Case(
            keyword(_diagonals(), "offset"), whole_32(lambda x, offset: np.linalg.trace(x, offset=offset)), **loose
        ),
        "diagonal": Case(keyword(_diagonals(), "offset"), lambda x, offset: np.linalg.diagonal(x, offset=offset)),
        "cross": Case(both(_triples()), np.linalg.cross, **loose),
        "vector_norm": Case(_norms(), mean_like(np.linalg.vector_norm), **loose),
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
