"""What stands between the brackets of an array."""

import json
import math

import _tapml_arrays as _js

from tapml._array import BOOL, INT32, Array, broadcast_shapes, call, of, spread, steps
from tapml._elementwise import binary


def get(x, key):
    places = _places(x, key)
    if places is None:
        return x.walk(*_walk(x, key))
    data = _taken(x.data, x.dtype.name, x.shape, *places)
    return Array(data, x.dtype, _shape(x, *places))


def put(x, key, value):
    value = of(value)
    places = _places(x, key)
    if places is None:
        at, strides, shape = _walk(x, key)
        given = json.dumps(shape or [1]), json.dumps(strides or [1])
        _js.assign(x.data, at, *given, value.astype(x.dtype).data, json.dumps(spread(value.shape, shape) or [0]))
        return
    targets = _taken(_js.ramp("int32", x.size, 0, 1), "int32", x.shape, *places)
    to = _shape(x, *places)
    value = value.astype(x.dtype).walk(0, spread(value.shape, to), to)
    if value.size:
        _js.put(x.data, targets, value.data)


def _shape(x, flat, shape, lead):
    return (*shape, *x.shape[lead:])


def _taken(data, name, shape, flat, _, lead):
    return call(IndexError, _js.take, data, name, math.prod(shape[:lead]), math.prod(shape[lead:]), flat)


def _walk(x, key):
    """Place, strides and shape of integers, slices, ... and None."""
    key = key if isinstance(key, tuple) else (key,)
    taken = sum(one is not None and one is not ... for one in key)
    if key.count(...) > 1 or taken > x.ndim:
        raise IndexError(f"{len(key)} indexes are too many for an array of {x.ndim} axes")
    if ... not in key:
        key = (*key, ...)
    hole = key.index(...)
    key = (*key[:hole], *[slice(None)] * (x.ndim - taken), *key[hole + 1 :])
    at, strides, shape, axis = 0, [], [], 0
    own = steps(x.shape)
    for one in key:
        if one is None:
            strides.append(0)
            shape.append(1)
            continue
        extent, step = x.shape[axis], own[axis]
        if isinstance(one, slice):
            found = range(*one.indices(extent))
            at += found.start * step if found else 0
            strides.append(found.step * step)
            shape.append(len(found))
        else:
            place = one.__index__()
            if not -extent <= place < extent:
                raise IndexError(f"index {place} is out of bounds for axis {axis} with size {extent}")
            at += place % extent * step
        axis += 1
    return at, strides, shape


def _places(x, key):
    """Places along the leading axes taken as one, their shape, and how many axes these are; None of other keys."""
    if isinstance(key, Array) and key.dtype is BOOL and key.ndim:
        if key.shape != x.shape[: key.ndim]:
            raise IndexError(f"a mask of shape {key.shape} does not fit an array of shape {x.shape}")
        flat = _js.nonzero(key.data)
        return flat, (flat.length,), key.ndim
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(one, Array) and one.ndim for one in parts):
        return None
    if any(one is None or one is ... or isinstance(one, slice) for one in parts):
        raise IndexError("arrays of integers do not stand beside slices: use take")
    parts = [of(one) for one in parts]
    if len(parts) > x.ndim or not all(one.dtype.whole for one in parts):
        raise IndexError("one mask, or arrays of integers for the first axes, are indexes")
    shape = broadcast_shapes(*(one.shape for one in parts))
    flat = Array(_js.full("int32", math.prod(shape), 0), INT32, shape)
    for part, extent in zip(parts, x.shape, strict=False):
        places = part.walk(0, spread(part.shape, shape), shape)
        found = call(IndexError, _js.take, _js.ramp("int32", extent, 0, 1), "int32", extent, 1, places.data)
        flat = binary("add", binary("multiply", flat, extent), Array(found, INT32, shape))
    return flat.data, shape, len(parts)
