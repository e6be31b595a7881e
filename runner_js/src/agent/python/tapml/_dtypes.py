"""What is asked of types of elements."""

from tapml._array import DTYPES, Array, DType, dtype_of, promote

_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "", "numeric": "iuf",
}  # fmt: skip
# Bits of a fraction, and the least and the largest exponent.
_FLOATS = {"float32": (23, -126, 127), "float64": (52, -1022, 1023)}


def _type(given):
    return given.dtype if isinstance(given, Array) else dtype_of(given)


def result_type(*given):
    """The type that holds all: arrays and types."""
    found = None
    for one in map(_type, given):
        found = one if found is None else promote(found, one)
    return found


def can_cast(from_, to):
    """Whether every value of the first type is one of the second. `from_` may be an array."""
    to = dtype_of(to)
    return promote(_type(from_), to) is to


def isdtype(dtype, kind):
    """`kind`: a type, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
    "numeric", or a tuple of these: one of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, DType):
        return dtype_of(dtype) is kind
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is no kind of types: give one of {', '.join(_KINDS)}")
    return dtype_of(dtype).kind in list(_KINDS[kind])


class finfo:  # noqa: N801
    """Of a type of floats, or of an array of one."""

    def __init__(self, given):
        self.dtype = _type(given)
        if self.dtype.kind != "f":
            raise TypeError(f"{self.dtype.name} is no type of floats")
        fraction, least, largest = _FLOATS[self.dtype.name]
        self.bits = self.dtype.bits
        self.eps = 2.0**-fraction
        self.max = (2.0 - self.eps) * 2.0**largest
        self.min = -self.max
        self.smallest_normal = 2.0**least


class iinfo:  # noqa: N801
    """Of a type of integers, or of an array of one."""

    def __init__(self, given):
        self.dtype = _type(given)
        if not self.dtype.whole:
            raise TypeError(f"{self.dtype.name} is no type of integers")
        self.bits = self.dtype.bits
        self.min, self.max = self.dtype.range()
