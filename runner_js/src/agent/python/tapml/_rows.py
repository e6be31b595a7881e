"""What is computed of all elements, or of those along axes."""

import math

import _tapml_arrays as _js

from tapml._array import BOOL, FLOAT64, INT32, UINT32, Array, axis_of, call, dtype_of, of
from tapml._creation import asarray
from tapml._elementwise import binary, real, unary
from tapml._layout import concat, permute_dims, reshape, take


def _rows(x, axis):
    """The data with the axes last, how many rows they make, and the shapes with and without them."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = sorted({axis_of(one, x.ndim) for one in axes})
    kept = [one for one in range(x.ndim) if one not in axes]
    if [*kept, *axes] != list(range(x.ndim)):
        x = permute_dims(x, [*kept, *axes])
    shape = x.shape[: len(kept)]
    held = list(shape)
    for one in axes:
        held.insert(one, 1)
    return x.data, math.prod(shape), shape, tuple(held)


def _reduced(name, x, axis, keepdims, dtype):
    data, count, shape, held = _rows(x, axis)
    return Array(call(OverflowError, _js.reduce, name, data, count, dtype.name), dtype, held if keepdims else shape)


def _summed(x, dtype):
    if dtype is not None:
        return dtype_of(dtype)
    return {"b": INT32, "i": INT32, "u": UINT32}.get(x.dtype.kind, x.dtype)


def _sum_like(name):
    def function(x, axis=None, dtype=None, keepdims=False):
        x = of(x)
        dtype = _summed(x, dtype)
        x = x if x.dtype.kind != "f" or dtype.kind == "f" else x.astype(dtype)
        return _reduced(name, x, axis, keepdims, dtype)

    function.__name__ = name
    function.__doc__ = "Integers give int32 or uint32; what these do not hold raises OverflowError."
    return function


def _extreme(name):
    def function(x, axis=None, keepdims=False):
        x = of(x)
        data, count, *_ = _rows(x, axis)
        if count and not data.length:
            raise ValueError(f"{name} of nothing")
        return _reduced(name, x, axis, keepdims, INT32 if name.startswith("arg") else x.dtype)

    function.__name__ = name
    return function


def _truth(name):
    def function(x, axis=None, keepdims=False):
        return _reduced(name, of(x), axis, keepdims, BOOL)

    function.__name__ = name
    return function


FUNCTIONS = {
    **{name: _sum_like(name) for name in ("sum", "prod")},
    **{name: _extreme(name) for name in ("max", "min", "argmax", "argmin")},
    **{name: _truth(name) for name in ("all", "any")},
}


def _extent(x, axis):
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return math.prod(x.shape[axis_of(one, x.ndim)] for one in axes)


def mean(x, axis=None, keepdims=False):
    x = of(x)
    dtype = real(x.dtype)
    total = _reduced("sum", x, axis, keepdims, FLOAT64)
    return binary("divide", total, asarray(float(_extent(x, axis)))).astype(dtype, copy=False)


def var(x, axis=None, correction=0.0, keepdims=False):
    """The mean of squares of differences to the mean: of n - correction of them."""
    x = of(x)
    squares = _reduced("squares", x, axis, keepdims, FLOAT64)
    count = max(0.0, float(_extent(x, axis) - correction))
    return binary("divide", squares, asarray(count)).astype(real(x.dtype), copy=False)


def std(x, axis=None, correction=0.0, keepdims=False):
    x = of(x)
    return unary("sqrt", var(x.astype(FLOAT64), axis, correction, keepdims)).astype(real(x.dtype), copy=False)


def cumulative_sum(x, axis=None, dtype=None, include_initial=False):
    return _cumulated("sum", 0, x, axis, dtype, include_initial)


def cumulative_prod(x, axis=None, dtype=None, include_initial=False):
    return _cumulated("prod", 1, x, axis, dtype, include_initial)


def _cumulated(name, initial, x, axis, dtype, include_initial):
    x = of(x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an axis is needed where there are several")
        axis = 0
    dtype = _summed(x, dtype)
    last, order = _last(x, axis)
    count = math.prod(last.shape[:-1])
    found = Array(call(OverflowError, _js.cumulate, name, last.data, count, dtype.name), dtype, last.shape)
    if include_initial:
        found = concat([Array(_js.full(dtype.name, count, initial), dtype, (*last.shape[:-1], 1)), found], -1)
    return permute_dims(found, order)


def diff(x, axis=-1, n=1, prepend=None, append=None):
    """From each element to the next, `n` times over."""
    if n < 0:
        raise ValueError(f"n is {n}: give 0 or more")
    around = [of(one) for one in ((prepend, x, append) if n else (x,)) if one is not None]
    x = concat(around, axis) if len(around) > 1 else around[0]
    before = [slice(None)] * axis_of(axis, x.ndim)
    for _ in range(n):
        x = binary("subtract", x[(*before, slice(1, None))], x[(*before, slice(None, -1))])
    return x


def _last(x, axis):
    """With the axis last, and the order that puts it back."""
    axis = axis_of(axis, x.ndim)
    axes = [one for one in range(x.ndim) if one != axis]
    return permute_dims(x, [*axes, axis]), [*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)]


def sort(x, axis=-1, descending=False, stable=True):
    """NaN comes last, or first where it is descending."""
    last, order = _last(of(x), axis)
    data = _js.sort(last.data, math.prod(last.shape[:-1]), descending)
    return permute_dims(Array(data, last.dtype, last.shape), order)


def argsort(x, axis=-1, descending=False, stable=True):
    """What is equal stays in its order."""
    last, order = _last(of(x), axis)
    data = _js.argsort(last.data, math.prod(last.shape[:-1]), descending)
    return permute_dims(Array(data, INT32, last.shape), order)


def searchsorted(x1, x2, side="left"):
    """Where each of `x2` would go in the sorted `x1` of one axis."""
    x1, x2 = of(x1), of(x2)
    return Array(_js.searchsorted(x1.data, x2.data, side == "right"), INT32, x2.shape)


def take_along_axis(x, indices, axis=-1):
    """Of each row along the axis, those at the places of the same row."""
    x, indices = of(x), of(indices)
    (rows, order), (places, _) = _last(x, axis), _last(indices, axis)
    if rows.shape[:-1] != places.shape[:-1]:
        raise ValueError(f"shape {indices.shape} does not fit shape {x.shape} along axis {axis}")
    extent = rows.shape[-1]
    count = math.prod(rows.shape[:-1])
    if places.size:
        call(IndexError, _js.take, _js.ramp("int32", extent, 0, 1), "int32", extent, 1, places.data)
    wrapped = binary("remainder", places.astype(INT32), max(1, extent))
    starts = asarray([i * extent for i in range(count)], INT32)
    flat = binary("add", reshape(wrapped, (count, places.shape[-1])), reshape(starts, (count, 1)))
    return permute_dims(reshape(take(reshape(rows, (-1,)), flat), places.shape), order)


def unique_all(x):
    """Sorted values, first places of each, which of them each element is, and how often each comes; each NaN is one."""
    flat = reshape(of(x), (-1,))
    order = argsort(flat)
    values = take(flat, order)
    first = concat([asarray([True] * min(1, flat.size), bool), binary("not_equal", values[1:], values[:-1])])
    starts = Array(_js.nonzero(first.data), INT32, (0,))
    starts.shape = (starts.data.length,)
    group = binary("subtract", cumulative_sum(first), 1)
    inverse = Array(_js.full("int32", flat.size, 0), INT32, flat.shape)
    if flat.size:
        inverse[order] = group
    ends = concat([starts[1:], asarray([flat.size] * min(1, flat.size), INT32)])
    return (
        take(values, starts),
        take(order, starts),
        reshape(inverse, of(x).shape),
        binary("subtract", ends, starts),
    )


def unique_values(x):
    return unique_all(x)[0]


def unique_counts(x):
    values, _, _, counts = unique_all(x)
    return values, counts


def unique_inverse(x):
    values, _, inverse, _ = unique_all(x)
    return values, inverse
