"""Cases of functions that make arrays, or put the same elements elsewhere: all exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks.task_arrays.drawn import ALL, INTEGERS, NUMBERS, arrays, of, shapes, with_axes, with_axis
from benchmarks.task_arrays.numbers import Case


def _drawn(function: Callable[..., Any]) -> Any:
    """Of a function of `draw`, which gives the values and keywords."""
    return st.composite(function)()


def _small(found: Any) -> Any:
    """Places are int32 here."""
    if isinstance(found, tuple | list):
        return [_small(one) for one in found]
    return np.asarray(found).astype(np.int32) if np.asarray(found).dtype == np.int64 else np.asarray(found)


def _permuted(draw: Any) -> Any:
    x = draw(arrays(ALL))
    return (x, draw(st.permutations(range(x.ndim)))), {}


def _swapped(draw: Any) -> Any:
    x, axis = draw(with_axis(ALL))
    return (x, axis, draw(st.integers(-x.ndim, x.ndim - 1))), {}


def _shaped(draw: Any) -> Any:
    x = draw(arrays(ALL))
    shape = list(draw(st.permutations(x.shape)))
    if len(shape) > 1 and draw(st.booleans()):
        shape = [shape[0] * shape[1], *shape[2:]]
    if shape and x.size and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = -1
    return (x, shape), {}


def _broadcast(draw: Any) -> Any:
    drawn = draw(hnp.mutually_broadcastable_shapes(num_shapes=1, base_shape=draw(shapes(1)), max_dims=3, min_side=0))
    x = draw(of(draw(st.sampled_from(ALL)), drawn.input_shapes[0]))
    return (x, drawn.result_shape), {}


def _expanded(draw: Any) -> Any:
    x = draw(arrays(ALL))
    return (x,), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


def _squeezed(draw: Any) -> Any:
    x = draw(arrays(ALL, shapes(1, 3, 1)))
    ones = [i for i, extent in enumerate(x.shape) if extent == 1]
    return (x,), {"axis": draw(st.sampled_from([None, tuple(ones), *ones]))}


def _axes(draw: Any) -> Any:
    x, axis = draw(with_axes(ALL))
    return (x,), {"axis": axis}


def _rolled(draw: Any) -> Any:
    x, axis = draw(with_axes(ALL))
    shift = st.integers(-7, 7)
    return (x,), {"shift": [draw(shift) for _ in axis] if isinstance(axis, tuple) else draw(shift), "axis": axis}


def _taken(draw: Any) -> Any:
    x, axis = draw(with_axis(ALL, side=1))
    extent = x.shape[axis]
    indices = draw(hnp.arrays("int32", draw(shapes(0, 2)), elements=st.integers(-extent, extent - 1)))
    return (x, indices), {"axis": axis}


def _along(draw: Any) -> Any:
    x, axis = draw(with_axis(ALL, side=1))
    shape = list(x.shape)
    shape[axis] = draw(st.integers(0, 4))
    extent = x.shape[axis]
    return (x, draw(hnp.arrays("int32", tuple(shape), elements=st.integers(-extent, extent - 1)))), {"axis": axis}


def _repeated(draw: Any) -> Any:
    x, axis = draw(with_axis(ALL))
    each = draw(hnp.arrays("int32", (x.shape[axis],), elements=st.integers(0, 3)))
    return (x, draw(st.one_of(st.integers(0, 3), st.just(each)))), {"axis": axis}


def _tiled(draw: Any) -> Any:
    return (draw(arrays(ALL)), tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))), {}


def _several(draw: Any, grow: bool) -> Any:
    x, axis = draw(with_axis(ALL))
    found = [x]
    for _ in range(draw(st.integers(0, 2))):
        shape = list(x.shape)
        if grow:
            shape[axis] = draw(st.integers(0, 3))
        found.append(draw(of(draw(st.sampled_from(ALL)), tuple(shape))))
    return (found,), {"axis": axis}


def _joined(join: Callable[..., Any]) -> Callable[..., Any]:
    """One by one, as types are found here: integers of 64 bits are float64."""

    def reference(given: list[np.ndarray], axis: int) -> Any:
        dtype = given[0].dtype
        for one in given[1:]:
            dtype = np.result_type(dtype, one.dtype)
            dtype = np.dtype(np.float64) if dtype == np.int64 else dtype
        return join([one.astype(dtype) for one in given], axis=axis)

    return reference


def _split(draw: Any) -> Any:
    x, axis = draw(with_axis(ALL))
    extent = x.shape[axis]
    parts = [count for count in range(1, extent + 1) if extent % count == 0] or [1]
    places = st.lists(st.integers(0, extent), max_size=3).map(sorted)
    return (x, draw(st.one_of(st.sampled_from(parts), places))), {"axis": axis}


def _triangle(draw: Any) -> Any:
    return (draw(arrays(ALL, shapes(2))),), {"k": draw(st.integers(-4, 4))}


def _moved(draw: Any) -> Any:
    x, axes = draw(with_axes(ALL))
    axes = tuple(range(x.ndim)) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    return (x, axes, tuple(draw(st.permutations(range(x.ndim)))[: len(axes)])), {}


def _grid(draw: Any) -> Any:
    count = draw(st.integers(1, 3))
    return tuple(draw(arrays(ALL, shapes(1, 1))) for _ in range(count)), {
        "indexing": draw(st.sampled_from(["xy", "ij"]))
    }


def _sorted(draw: Any) -> Any:
    x, axis = draw(with_axis(ALL))
    return (x,), {"axis": axis, "descending": draw(st.booleans())}


def _sort(x: np.ndarray, axis: int, descending: bool) -> Any:
    found = np.sort(x, axis=axis)
    return np.flip(found, axis) if descending else found


def _argsort(x: np.ndarray, axis: int, descending: bool) -> Any:
    if not descending:
        return _small(np.argsort(x, axis=axis, stable=True))
    # Backwards, and what is equal in its order.
    back = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    return _small(np.flip(x.shape[axis] - 1 - back, axis))


def _searched(draw: Any) -> Any:
    dtype = draw(st.sampled_from(NUMBERS))
    x = np.sort(draw(of(dtype, draw(shapes(1, 1)))))
    return (x, draw(of(dtype, draw(shapes(0, 2))))), {"side": draw(st.sampled_from(["left", "right"]))}


def _made(draw: Any) -> Any:
    return (draw(shapes()),), {"dtype": draw(st.sampled_from(ALL))}


def _filled(draw: Any) -> Any:
    return (draw(shapes()), draw(st.integers(0, 100))), {"dtype": draw(st.sampled_from(NUMBERS))}


def _like(draw: Any) -> Any:
    return (draw(arrays(ALL)),), {}


def _counted(draw: Any) -> Any:
    number = draw(st.sampled_from([st.integers(-9, 9), st.integers(-18, 18).map(lambda half: half / 2)]))
    step = draw(number.filter(lambda one: one != 0))
    return (draw(number), draw(number), step), {}


def _arange(start: Any, stop: Any, step: Any) -> Any:
    return _small(np.arange(start, stop, step))


def _spaced(draw: Any) -> Any:
    ends = st.integers(-20, 20).map(float)
    return (draw(ends), draw(ends), draw(st.integers(0, 9))), {"endpoint": draw(st.booleans())}


def _identity(draw: Any) -> Any:
    side = st.integers(0, 4)
    return (draw(side), draw(side)), {"k": draw(st.integers(-5, 5)), "dtype": draw(st.sampled_from(ALL))}


def _cast(draw: Any) -> Any:
    to = draw(st.sampled_from(ALL))
    # What an integer type does not hold is another on each machine: C leaves it open.
    elements = st.floats(0, 100, width=32) if to in INTEGERS else None
    return (draw(arrays(ALL, elements=elements)), to), {}


def place_cases() -> Mapping[str, Case]:
    drawn: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "permute_dims": (_permuted, np.permute_dims),
        "transpose": (_like, np.transpose),
        "swapaxes": (_swapped, np.swapaxes),
        "moveaxis": (_moved, np.moveaxis),
        "matrix_transpose": (lambda draw: ((draw(arrays(ALL, shapes(2))),), {}), np.matrix_transpose),
        "reshape": (_shaped, np.reshape),
        "broadcast_to": (_broadcast, np.broadcast_to),
        "broadcast_arrays": (
            lambda draw: (tuple(draw(_broadcast_pair())), {}),
            lambda *given: [np.asarray(one) for one in np.broadcast_arrays(*given)],
        ),
        "expand_dims": (_expanded, np.expand_dims),
        "squeeze": (_squeezed, np.squeeze),
        "flip": (_axes, np.flip),
        "roll": (_rolled, np.roll),
        "take": (_taken, np.take),
        "take_along_axis": (_along, np.take_along_axis),
        "repeat": (_repeated, np.repeat),
        "tile": (_tiled, np.tile),
        "concat": (lambda draw: _several(draw, True), _joined(np.concat)),
        "stack": (lambda draw: _several(draw, False), _joined(np.stack)),
        "unstack": (lambda draw: ((draw(with_axis(ALL))[0],), {}), lambda x: list(np.unstack(x))),
        "split": (_split, np.split),
        "tril": (_triangle, np.tril),
        "triu": (_triangle, np.triu),
        "meshgrid": (_grid, lambda *given, indexing: list(np.meshgrid(*given, indexing=indexing))),
        "nonzero": (lambda draw: ((draw(arrays(ALL, shapes(1))),), {}), lambda x: _small(np.nonzero(x))),
        "sort": (_sorted, _sort),
        "argsort": (_sorted, _argsort),
        "searchsorted": (_searched, lambda *given, side: _small(np.searchsorted(*given, side=side))),
        "unique_values": (_like, lambda x: np.sort(np.unique_values(x))),
        "unique_counts": (_like, lambda x: _small(np.unique_counts(x))),
        "unique_inverse": (_like, lambda x: _small(np.unique_inverse(x))),
        "unique_all": (_like, lambda x: _small(np.unique_all(x))),
        "zeros": (_made, np.zeros),
        "ones": (_made, np.ones),
        "full": (_filled, np.full),
        "zeros_like": (_like, np.zeros_like),
        "ones_like": (_like, np.ones_like),
        "full_like": (lambda draw: ((draw(arrays(NUMBERS)), 7), {}), np.full_like),
        "asarray": (_like, np.asarray),
        "arange": (_counted, _arange),
        "linspace": (_spaced, np.linspace),
        "eye": (_identity, lambda n, m, k, dtype: np.eye(n, m, k, dtype=dtype)),
        "astype": (_cast, lambda x, to: x.astype(to)),
    }
    close = {"linspace"}
    return {
        name: Case(
            _drawn(function),
            reference,
            exact=name not in close,
            relative=1e-15,
            absolute=1e-14,
            # Which zero comes first is open.
            zeros=not name.startswith(("sort", "unique")),
        )
        for name, (function, reference) in drawn.items()
    }


@st.composite
def _broadcast_pair(draw: Any) -> Any:
    drawn = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3))
    return [draw(of(draw(st.sampled_from(ALL)), shape)) for shape in drawn.input_shapes]


@st.composite
def keys(draw: Any) -> Any:
    """An array, what stands between its brackets, and what is put there: as (x, key, value)."""
    x = draw(arrays(ALL))
    kind = draw(st.sampled_from(["basic", "basic", "mask", "places"])) if x.ndim and x.size else "basic"
    if kind == "mask":
        key = draw(of("bool", x.shape[: draw(st.integers(1, x.ndim))]))
    elif kind == "places":
        shape = draw(shapes(1, 2))
        count = draw(st.integers(1, x.ndim))
        within = [st.integers(-extent, extent - 1) for extent in x.shape[:count]]
        found = [draw(hnp.arrays("int32", shape, elements=one)) for one in within]
        key = tuple(found) if count > 1 else found[0]
    else:
        key = draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True))
    shape = x[key].shape
    value = draw(of(str(x.dtype), draw(st.sampled_from([shape, shape[1:], ()]))))
    return x, key, value
