"""Arrays: elements row by row in a typed array of JavaScript, which computes; shapes are Python's matter."""

import array
import json
import math

import _tapml_arrays as _js
from pyodide.ffi import JsException, to_js


class DType:
    """A type of elements. The names of all are in DTYPES."""

    def __init__(self, name, kind, bits, code):
        self.name, self.kind, self.bits, self.code = name, kind, bits, code

    def __repr__(self):
        return self.name

    @property
    def whole(self):
        return self.kind in "iu"

    @property
    def itemsize(self):
        return max(1, self.bits // 8)

    def range(self):
        """Least and most of an integer type."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.kind == "i" else (0, (1 << self.bits) - 1)


DTYPES = {
    name: DType(name, kind, bits, code)
    for name, kind, bits, code in [
        *[("bool", "b", 1, "B"), ("int8", "i", 8, "b"), ("int16", "i", 16, "h"), ("int32", "i", 32, "i")],
        *[("uint8", "u", 8, "B"), ("uint16", "u", 16, "H"), ("uint32", "u", 32, "I")],
        *[("float32", "f", 32, "f"), ("float64", "f", 64, "d")],
    ]
}
BOOL, INT32, UINT32, FLOAT32, FLOAT64 = (DTYPES[name] for name in ("bool", "int32", "uint32", "float32", "float64"))
_PYTHON = {bool: BOOL, int: INT32, float: FLOAT64}


def dtype_of(given):
    """Of a DType, its name, or bool, int, float."""
    found = given if isinstance(given, DType) else _PYTHON.get(given) or DTYPES.get(str(given))
    if found is None:
        raise TypeError(f"{given!r} is not one of {', '.join(DTYPES)}")
    return found


def promote(a, b):
    """The type that holds both, as in NumPy; float64 where that would have integers of 64 bits."""
    if a is b or b.kind == "b":
        return a
    if a.kind == "b":
        return b
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    if "f" in (a.kind, b.kind):
        real, whole = (a, b) if a.kind == "f" else (b, a)
        return FLOAT64 if whole.bits > 16 else real
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return DTYPES.get(f"int{2 * unsigned.bits}", FLOAT64)


def call(kind, function, *given):
    """What JavaScript refuses is raised as `kind`."""
    try:
        return function(*given)
    except JsException as error:
        raise kind(str(error).removeprefix("RangeError: ")) from None


def steps(shape):
    """How far it is from one element to the next along each axis."""
    found, step = [], 1
    for extent in reversed(shape):
        found.append(step)
        step *= extent
    return found[::-1]


def spread(shape, to):
    """Strides by which elements of `shape` are read as `to`. Raises ValueError."""
    found = [0] * (len(to) - len(shape)) + steps(shape)
    for i, extent in enumerate(shape, len(to) - len(shape)):
        if i < 0 or extent not in (1, to[i]):
            raise ValueError(f"shape {tuple(shape)} cannot be broadcast to {tuple(to)}")
        if extent == 1:
            found[i] = 0
    return found


def broadcast_shapes(*shapes):
    """The shape that all can be broadcast to. Raises ValueError."""
    found = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        extents = {shape[-axis] for shape in shapes if axis <= len(shape)} - {1}
        if len(extents) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast together")
        found.append(extents.pop() if extents else 1)
    return tuple(found[::-1])


def axis_of(axis, count):
    """Counted from the front. Raises IndexError."""
    found = axis + count if axis < 0 else axis
    if not 0 <= found < count:
        raise IndexError(f"there is no axis {axis} among {count}")
    return found


class Array:
    """Elements of one type in a shape. What gives another array copies."""

    def __init__(self, data, dtype, shape):
        self.data, self.dtype, self.shape = data, dtype, tuple(shape)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    def walk(self, at, strides, shape):
        """The elements found from place `at` by these strides."""
        shape = tuple(shape)
        given = json.dumps(shape or (1,)), json.dumps(list(strides) or [1])
        return Array(_js.strided(self.data, self.dtype.name, at, *given), self.dtype, shape)

    def tolist(self):
        """Nested lists, or one value."""
        flat = self.data.to_py().tolist()
        if self.dtype is BOOL:
            flat = list(map(bool, flat))
        for extent in self.shape[:0:-1]:
            flat = [flat[i : i + extent] for i in range(0, len(flat), extent)] if extent else []
        if self.ndim == 0:
            return flat[0]
        if self.size == 0:
            return _nothing(self.shape)
        return flat

    def tobytes(self):
        """The elements' bytes, little-endian."""
        return _js.bytes(self.data).to_bytes()

    def item(self):
        """The one element."""
        if self.size != 1:
            raise TypeError(f"an array of shape {self.shape} is no single value")
        return self.data.to_py().tolist()[0] if self.dtype is not BOOL else bool(self.data[0])

    def astype(self, dtype, copy=True):
        """To another type: to integers towards 0 and modulo their size."""
        dtype = dtype_of(dtype)
        if dtype is self.dtype and not copy:
            return self
        return Array(_js.cast(self.data, dtype.name), dtype, self.shape)

    def __len__(self):
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __index__(self):
        if not self.dtype.whole or self.ndim:
            raise TypeError("only an integer without axes is an index")
        return int(self.item())

    def __repr__(self):
        if self.size > 1000:
            return f"<array of shape {self.shape}, {self.dtype}>"
        return f"array({self.tolist()}, dtype={self.dtype})"

    def __getitem__(self, key):
        from tapml import _index

        return _index.get(self, key)

    def __setitem__(self, key, value):
        from tapml import _index

        _index.put(self, key, value)


def _nothing(shape):
    return [_nothing(shape[1:]) for _ in range(shape[0])] if shape[0] else []


def flat_list(given, shape, depth=0):
    """Elements of nested lists; `shape` is filled. Raises ValueError where they are ragged."""
    if not isinstance(given, (list, tuple)):
        if depth != len(shape):
            raise ValueError("lists are nested unevenly")
        return [given]
    if len(shape) == depth:
        if depth and shape[-1] is None:
            raise ValueError("lists are nested unevenly")
        shape.append(len(given))
        if given and not isinstance(given[0], (list, tuple)):
            if any(isinstance(one, (list, tuple)) for one in given):
                raise ValueError("lists are nested unevenly")
            return list(given)
    if shape[depth] != len(given):
        raise ValueError("lists are nested unevenly")
    return [value for one in given for value in flat_list(one, shape, depth + 1)]


def from_values(flat, dtype, shape):
    """Of Python's numbers. Raises OverflowError where one does not fit."""
    if dtype is None:
        kinds = {type(value) for value in flat}
        dtype = BOOL if kinds == {bool} else INT32 if kinds and kinds <= {bool, int} else FLOAT64
    if dtype is BOOL:
        flat = [bool(value) for value in flat]
    elif dtype.whole:
        flat = [int(value) for value in flat]
        least, most = dtype.range()
        for value in flat:
            if not least <= value <= most:
                raise OverflowError(f"{value} does not fit {dtype}: give another dtype")
    return Array(to_js(array.array(dtype.code, flat)), dtype, shape)


def of(given, dtype=None):
    """The array, or one of nested lists, a number, a buffer, or what a model gave."""
    if isinstance(given, Array):
        return given if dtype is None else given.astype(dtype, copy=False)
    dtype = None if dtype is None else dtype_of(dtype)
    if type(given) in (bool, int, float):
        return from_values([given], dtype, ())
    if hasattr(given, "data") and hasattr(given, "dtype"):  # a Tensor
        found = Array(to_js(given.data), DTYPES[given.dtype], given.shape)
        return found if dtype is None else found.astype(dtype, copy=False)
    if not isinstance(given, (list, tuple)):
        view = memoryview(given)
        kinds = {one.code: one for one in DTYPES.values() if one is not BOOL}
        if view.format not in kinds or not view.c_contiguous:
            raise TypeError(f"a buffer of {view.format!r} is no array")
        found = Array(to_js(view.cast("B").cast(view.format)), kinds[view.format], view.shape)
        return found if dtype is None else found.astype(dtype, copy=False)
    if any(isinstance(one, Array) for one in given):
        given = [one.tolist() if isinstance(one, Array) else one for one in given]
    shape = []
    return from_values(flat_list(given, shape), dtype, shape)
