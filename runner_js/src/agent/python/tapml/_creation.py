"""Arrays from nothing, from numbers and from buffers."""

import json
import math

import _tapml_arrays as _js

from tapml._array import FLOAT64, INT32, Array, call, dtype_of, of


def extents(shape):
    shape = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape {shape} has an extent below 0")
    return shape


def asarray(obj, dtype=None, copy=None):
    """Of nested lists, numbers, a buffer or a Tensor: integers are int32, other numbers float64."""
    found = of(obj, dtype)
    return found.astype(found.dtype) if found is obj and copy else found


def full(shape, fill_value, dtype=None):
    shape = extents(shape)
    one = of(fill_value, dtype)
    return Array(call(MemoryError, _js.full, one.dtype.name, math.prod(shape), float(one)), one.dtype, shape)


def zeros(shape, dtype=float):
    return full(shape, 0, dtype)


def ones(shape, dtype=float):
    return full(shape, 1, dtype)


def full_like(x, fill_value, dtype=None):
    return full(x.shape, fill_value, dtype or x.dtype)


def zeros_like(x, dtype=None):
    return full_like(x, 0, dtype)


def ones_like(x, dtype=None):
    return full_like(x, 1, dtype)


def arange(start, stop=None, step=1, dtype=None):
    """`start`, `start + step`, ... below `stop`, or from 0 to below `start`."""
    start, stop = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ValueError("a step is not 0")
    whole = all(isinstance(one, int) for one in (start, stop, step))
    dtype = dtype_of(dtype) if dtype else INT32 if whole else FLOAT64
    count = max(0, math.ceil((stop - start) / step))
    return Array(call(MemoryError, _js.ramp, dtype.name, count, start, step), dtype, (count,))


def linspace(start, stop, num, dtype=float, endpoint=True):
    """`num` numbers from `start` to `stop`, as far from each other."""
    parts = num - 1 if endpoint else num
    found = _js.ramp("float64", num, start, (stop - start) / parts if parts else 0.0)
    if endpoint and num > 1:
        found[num - 1] = stop
    return Array(found, FLOAT64, (num,)).astype(dtype, copy=False)


def eye(n_rows, n_cols=None, k=0, dtype=float):
    n_cols = n_rows if n_cols is None else n_cols
    found = zeros((n_rows, n_cols), dtype)
    count = min(n_rows - max(0, -k), n_cols - max(0, k))
    if count > 0:
        at = max(0, k) if k >= 0 else -k * n_cols
        _js.assign(found.data, at, json.dumps([count]), json.dumps([n_cols + 1]), of(1.0).data, "[0]")
    return found


empty, empty_like = zeros, zeros_like
