"""Functions of one element, and of two that are broadcast. Types are promoted as in NumPy; numbers take the array's type."""

import json

import _tapml_arrays as _js

from tapml._array import BOOL, FLOAT64, INT32, Array, broadcast_shapes, call, from_values, of, promote, spread

_KEPT = "abs negative positive square sign ceil floor round trunc bitwise_invert"
_REAL = (
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan tanh"
)
_TOLD = "isfinite isinf isnan logical_not signbit"
_ARITHMETIC = "add subtract multiply floor_divide remainder pow"
_TO_REAL = "divide atan2 copysign hypot logaddexp"
_COMPARED = "equal not_equal less less_equal greater greater_equal"
_LOGICAL = "logical_and logical_or logical_xor"
_BITS = "bitwise_and bitwise_or bitwise_xor"
_SHIFTS = "bitwise_left_shift bitwise_right_shift"
_EXTREME = "maximum minimum"
_ROUNDED = {"ceil", "floor", "round", "trunc", "positive"}
_OF_INTEGERS = {"multiply", "floor_divide", "remainder", "pow"}


def real(dtype):
    """The type of what is no integer any more."""
    return dtype if dtype.kind == "f" else FLOAT64


def unary(name, x):
    x = of(x)
    dtype, function = x.dtype, name
    if name in _TOLD.split():
        dtype = BOOL
    elif name in _REAL.split():
        dtype = real(dtype)
    elif name == "bitwise_invert":
        if dtype.kind == "f":
            raise TypeError(f"bitwise_invert takes integers and bool, not {dtype}")
        function = "logical_not" if dtype is BOOL else name
    elif dtype is BOOL:
        raise TypeError(f"{name} takes numbers, not bool: use astype")
    elif dtype.whole and name in _ROUNDED:
        function = "positive"
    elif dtype.whole and name == "square":
        function = "square_integer"
    return Array(_js.unary(function, x.data, dtype.name), dtype, x.shape)


def operands(x, y):
    """Both as arrays, and the type that holds both: Python's numbers have none of their own where there is an array."""
    if isinstance(x, Array) and isinstance(y, Array):
        return x, y, promote(x.dtype, y.dtype)
    if isinstance(x, Array):
        y = _beside(y, x.dtype)
    elif isinstance(y, Array):
        x = _beside(x, y.dtype)
    else:
        x, y = of(x), of(y)
    return x, y, promote(x.dtype, y.dtype)


def _beside(value, dtype):
    if type(value) not in (bool, int, float):
        return of(value)
    if type(value) is bool:
        return from_values([value], BOOL, ())
    if type(value) is float:
        return from_values([value], real(dtype), ())
    return from_values([value], INT32 if dtype is BOOL else dtype, ())


def binary(name, x, y):
    if name in _COMPARED.split() and (type(x) is int or type(y) is int):
        # Numbers that an array's type cannot hold are compared as they are.
        x, y = (from_values([one], FLOAT64, ()) if type(one) is int else one for one in (x, y))
    x, y, dtype = operands(x, y)
    function = name
    if name in _COMPARED.split() or name in _LOGICAL.split():
        dtype = BOOL
    elif name in _TO_REAL.split():
        dtype = real(dtype)
    elif name in _BITS.split() or name in _SHIFTS.split():
        if dtype.kind == "f" or (dtype is BOOL and name in _SHIFTS.split()):
            raise TypeError(f"{name} takes integers, not {x.dtype} and {y.dtype}")
        if name == "bitwise_right_shift" and dtype.kind == "u":
            function += "_unsigned"
    elif dtype is BOOL and name not in _EXTREME.split():
        raise TypeError(f"{name} takes numbers, not bool: use astype")
    elif dtype.whole and name in _OF_INTEGERS:
        function += "_integer"
    shape = broadcast_shapes(x.shape, y.shape)
    if x.shape == y.shape:
        given = json.dumps([x.size]), "[1]", "[1]"
    else:
        given = json.dumps(shape), json.dumps(spread(x.shape, shape)), json.dumps(spread(y.shape, shape))
    return Array(call(ValueError, _js.binary, function, x.data, y.data, dtype.name, *given), dtype, shape)


def where(condition, x, y):
    """Elements of `x` where the condition is true, else of `y`; all are broadcast."""
    condition = of(condition).astype(BOOL, copy=False)
    x, y, dtype = operands(x, y)
    shape = broadcast_shapes(condition.shape, x.shape, y.shape)
    parts = [one.walk(0, spread(one.shape, shape), shape).data for one in (condition, x, y)]
    return Array(_js.where(*parts, dtype.name), dtype, shape)


def _one(name):
    def function(x):
        return unary(name, x)

    function.__name__ = name
    return function


def _two(name):
    def function(x1, x2):
        return binary(name, x1, x2)

    function.__name__ = name
    return function


FUNCTIONS = {
    **{name: _one(name) for name in f"{_KEPT} {_REAL} {_TOLD}".split()},
    **{
        name: _two(name)
        for name in f"{_ARITHMETIC} {_TO_REAL} {_COMPARED} {_LOGICAL} {_BITS} {_SHIFTS} {_EXTREME}".split()
    },
}

_OPERATORS = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide"},
    **{"mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
    **{"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"},
}


def _give_operators():
    def forward(name):
        return lambda x, y: binary(name, x, y)

    def reflected(name):
        return lambda x, y: binary(name, y, x)

    for operator, name in _OPERATORS.items():
        setattr(Array, f"__{operator}__", forward(name))
        setattr(Array, f"__r{operator}__", reflected(name))
    for operator, name in zip(("eq", "ne", "lt", "le", "gt", "ge"), _COMPARED.split(), strict=True):
        setattr(Array, f"__{operator}__", forward(name))
    for operator, name in {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}.items():
        setattr(Array, f"__{operator}__", lambda x, name=name: unary(name, x))
    Array.__hash__ = None


_give_operators()
