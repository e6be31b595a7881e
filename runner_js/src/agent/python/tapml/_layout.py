"""The same elements in another shape or order."""

import json
import math

import _tapml_arrays as _js

from tapml._array import INT32, Array, axis_of, broadcast_shapes, call, of, promote, spread, steps
from tapml._creation import arange, asarray, extents, zeros
from tapml._elementwise import binary, where


def meshgrid(*arrays, indexing="xy"):
    """Of arrays of one axis each, their elements along axes of their own."""
    shape = [one.size for one in arrays]
    found = []
    for i, one in enumerate(arrays):
        strides = [0] * len(shape)
        strides[i] = 1
        found.append(one.walk(0, strides, shape))
    return [swapaxes(one, 0, 1) for one in found] if indexing == "xy" and len(shape) > 1 else found


def broadcast_to(x, shape):
    x, shape = of(x), extents(shape)
    return x.walk(0, spread(x.shape, shape), shape)


def broadcast_arrays(*arrays):
    shape = broadcast_shapes(*(one.shape for one in arrays))
    return [broadcast_to(one, shape) for one in arrays]


def reshape(x, shape, copy=None):
    """The same elements, row by row; one extent may be -1."""
    x = of(x)
    shape = [shape] if isinstance(shape, int) else list(shape)
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        shape[shape.index(-1)] = x.size // known if known else 0
    if math.prod(shape) != x.size or any(extent < 0 for extent in shape):
        raise ValueError(f"an array of shape {x.shape} has no shape {tuple(shape)}")
    return Array(_js.cast(x.data, x.dtype.name), x.dtype, shape)


def permute_dims(x, axes):
    x = of(x)
    axes = [axis_of(axis, x.ndim) for axis in axes]
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError(f"{tuple(axes)} are not the {x.ndim} axes in some order")
    own = steps(x.shape)
    return x.walk(0, [own[axis] for axis in axes], [x.shape[axis] for axis in axes])


def transpose(x, axes=None):
    x = of(x)
    return permute_dims(x, range(x.ndim)[::-1] if axes is None else axes)


def swapaxes(x, axis1, axis2):
    x = of(x)
    axes = list(range(x.ndim))
    first, second = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    axes[first], axes[second] = axes[second], axes[first]
    return permute_dims(x, axes)


def matrix_transpose(x):
    return swapaxes(x, -1, -2)


def moveaxis(x, source, destination):
    x = of(x)
    source, destination = (
        [axis_of(axis, x.ndim) for axis in ([one] if isinstance(one, int) else one)] for one in (source, destination)
    )
    if len(source) != len(destination) or len(set(source)) != len(source) or len(set(destination)) != len(source):
        raise ValueError("as many axes go away as come, each once")
    axes = [axis for axis in range(x.ndim) if axis not in source]
    for to, axis in sorted(zip(destination, source, strict=True)):
        axes.insert(to, axis)
    return permute_dims(x, axes)


def expand_dims(x, axis=0):
    x = of(x)
    at = axis_of(axis, x.ndim + 1)
    return reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


def squeeze(x, axis=None):
    x = of(x)
    if axis is None:
        gone = [i for i, extent in enumerate(x.shape) if extent == 1]
    else:
        gone = [axis_of(one, x.ndim) for one in ([axis] if isinstance(axis, int) else axis)]
    if any(x.shape[i] != 1 for i in gone):
        raise ValueError(f"only axes of extent 1 are squeezed out of shape {x.shape}")
    return reshape(x, [extent for i, extent in enumerate(x.shape) if i not in gone])


def flip(x, axis=None):
    x = of(x)
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    own, at = steps(x.shape), 0
    for one in {axis_of(each, x.ndim) for each in axes}:
        at += (x.shape[one] - 1) * own[one]
        own[one] = -own[one]
    return x.walk(at, own, x.shape)


def roll(x, shift, axis=None):
    """Elements go on by `shift` places, those at the end to the front."""
    x = of(x)
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, 0), x.shape)
    pairs = [(shift, axis)] if isinstance(axis, int) else list(zip(shift, axis, strict=True))
    for by, one in pairs:
        extent = x.shape[axis_of(one, x.ndim)]
        if extent:
            x = take(x, asarray([(i - by) % extent for i in range(extent)]), one)
    return x


def take(x, indices, axis=None):
    """Along an axis those at the places. Raises IndexError."""
    x, indices = of(x), of(indices)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = axis_of(axis, x.ndim)
    if not indices.dtype.whole:
        raise TypeError("places are integers")
    if 0 in x.shape and indices.size and x.shape[axis] == 0:
        raise IndexError("there is nothing to take")
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    inner = math.prod(x.shape[axis + 1 :])
    data = call(IndexError, _js.take, x.data, x.dtype.name, x.shape[axis], inner, indices.data)
    return Array(data, x.dtype, shape)


def repeat(x, repeats, axis=None):
    """Each element `repeats` times, one after the other."""
    x = of(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = axis_of(axis, x.ndim)
    counts = [repeats] * x.shape[axis] if isinstance(repeats, int) else of(repeats).tolist()
    if len(counts) != x.shape[axis] or any(count < 0 for count in counts):
        raise ValueError(f"repeats are one number of at least 0, or {x.shape[axis]} of them")
    return take(x, asarray([i for i, count in enumerate(counts) for _ in range(count)], INT32), axis)


def tile(x, repetitions):
    x = of(x)
    times = (repetitions,) if isinstance(repetitions, int) else tuple(repetitions)
    times = (1,) * (x.ndim - len(times)) + times
    x = reshape(x, (1,) * (len(times) - x.ndim) + x.shape)
    pairs = [extent for pair in zip(times, x.shape, strict=True) for extent in pair]
    spaced = [extent for own in x.shape for extent in (1, own)]
    whole = reshape(broadcast_to(reshape(x, spaced), pairs), [a * b for a, b in zip(times, x.shape, strict=True)])
    return whole


def concat(arrays, axis=0):
    """One behind the other along an axis; None: all elements of all."""
    arrays = [of(one) for one in arrays]
    if not arrays:
        raise ValueError("there is nothing to concatenate")
    if axis is None:
        arrays, axis = [reshape(one, (-1,)) for one in arrays], 0
    axis = axis_of(axis, arrays[0].ndim)
    rest = {(*one.shape[:axis], *one.shape[axis + 1 :]) for one in arrays}
    if len(rest) > 1 or any(one.ndim != arrays[0].ndim for one in arrays):
        raise ValueError(f"shapes {', '.join(str(one.shape) for one in arrays)} do not fit behind each other")
    dtype = arrays[0].dtype
    for one in arrays[1:]:
        dtype = promote(dtype, one.dtype)
    shape = list(arrays[0].shape)
    shape[axis] = sum(one.shape[axis] for one in arrays)
    found, own = zeros(shape, dtype), json.dumps(steps(shape))
    at = 0
    for one in arrays:
        _js.assign(found.data, at, json.dumps(one.shape), own, one.data, json.dumps(steps(one.shape)))
        at += one.shape[axis] * steps(shape)[axis]
    return found


def stack(arrays, axis=0):
    """Along a new axis."""
    arrays = [of(one) for one in arrays]
    if len({one.shape for one in arrays}) != 1:
        raise ValueError("only arrays of one shape are stacked")
    at = axis_of(axis, arrays[0].ndim + 1)
    return concat([expand_dims(one, at) for one in arrays], at)


def unstack(x, axis=0):
    axis = axis_of(axis, of(x).ndim)
    return tuple(take(x, i, axis) for i in range(of(x).shape[axis]))


def split(x, parts, axis=0):
    """As many parts of the same size, or those between the given places."""
    x = of(x)
    axis = axis_of(axis, x.ndim)
    extent = x.shape[axis]
    if isinstance(parts, int):
        if parts < 1 or extent % parts:
            raise ValueError(f"{extent} is not {parts} times the same")
        parts = range(extent // parts, extent, extent // parts) if extent else [0] * (parts - 1)
    ends = [*parts, extent]
    before = (slice(None),) * axis
    return [x[(*before, slice(a, b))] for a, b in zip([0, *ends], ends, strict=False)]


def _kept(x, k, lower):
    x = of(x)
    n, m = x.shape[-2:]
    columns = binary("subtract", arange(m), k).walk(0, [0, 1], (n, m))
    rows = arange(n).walk(0, [1, 0], (n, m))
    return where(binary("less_equal" if lower else "greater_equal", columns, rows), x, zeros((), x.dtype))


def tril(x, k=0):
    """Elements above the diagonal k are 0."""
    return _kept(x, k, True)


def triu(x, k=0):
    """Elements below the diagonal k are 0."""
    return _kept(x, k, False)


def diagonal(x, offset=0):
    """Of the last two axes."""
    x = of(x)
    n, m = x.shape[-2:]
    count = max(0, min(n - max(0, -offset), m - max(0, offset)))
    own = steps(x.shape)
    at = offset * own[-1] if offset >= 0 else -offset * own[-2]
    return x.walk(at if count else 0, [*own[:-2], own[-2] + own[-1]], (*x.shape[:-2], count))


def nonzero(x):
    """Of each axis the places of what is not 0."""
    x = of(x)
    if not x.ndim:
        raise ValueError("an array without axes has no places")
    flat = Array(_js.nonzero(x.data), INT32, (0,))
    flat.shape = (flat.data.length,)
    found = []
    for extent, step in zip(x.shape, steps(x.shape), strict=True):
        found.append(binary("remainder", binary("floor_divide", flat, max(1, step)), max(1, extent)))
    return tuple(found)


def count_nonzero(x):
    return of(_js.nonzero(of(x).data).length)


concatenate = concat
