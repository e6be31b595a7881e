"""What each operation of a formula gives, for arrays of its operands: float64, int64 or bool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapml.bounds.expression import wrapped
from tapml.bounds.uncertain import Uncertain
from tapml.bounds.wgsl import FUNCTIONS
from tapml.locating.formula.narrow import NARROW
from tapml.locating.formula.nodes import Node, NotAFormula
from tapml.operators.program import FLOATS, INTEGERS


def placed(place: np.ndarray, how: str, number: int) -> np.ndarray:
    """Another place in memory: workgroup and invocation exchanged, backwards in blocks, or with a bit flipped."""
    if how == "exchanged":
        return np.asarray(place % number * number + place // number)
    if how == "mirrored":
        return np.asarray(place - place % number + (number - 1 - place % number))
    assert how == "halves"
    return np.asarray(place ^ number)


def plain(array: np.ndarray) -> np.ndarray:
    """In one of the types above."""
    if array.dtype == np.bool_:
        return array
    if np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64)
    return array.astype(np.float64)


def constant(node: Node) -> np.ndarray:
    """A number of a formula, as its type has it: (1, 1)."""
    if node.dtype in FLOATS:
        return np.full((1, 1), float(np.dtype(node.dtype).type(node.value)))
    return np.full((1, 1), node.value, np.bool_ if node.dtype == "bool" else np.int64)


def operation(node: Node, operands: Sequence[np.ndarray]) -> np.ndarray:
    """An operation on arrays. Raises NotAFormula for one that is not known."""
    kind, dtype = node.kind, node.dtype
    if kind in ("select", "if_then_else"):
        return np.where(operands[0], operands[1], operands[2])
    if kind == "cast":
        return _cast(operands[0], node.operands[0].dtype, dtype)
    if kind == "call":
        return _call(str(node.value), operands, dtype)
    if kind in _FLOAT_DIVISIONS and dtype in FLOATS:
        return np.asarray(_FLOAT_DIVISIONS[kind](*operands))
    if kind in _WHOLE_DIVISIONS:
        a, b = operands
        return wrapped(np.asarray(_WHOLE_DIVISIONS[kind](a, np.where(b == 0, 1, b))).astype(np.int64), dtype)
    if kind not in _PLAIN:
        raise NotAFormula(f"{kind} in its program")
    found = np.asarray(_PLAIN[kind](*operands))
    return wrapped(found, dtype) if dtype in INTEGERS and found.dtype != np.bool_ else found


def _cast(x: np.ndarray, source: str, target: str) -> np.ndarray:
    if target == source:
        return x
    if target in FLOATS:
        found = x.astype(np.float64)
        return NARROW["float16"](found) if target == "float16" else found
    if target == "bool":
        return np.asarray(x != 0)
    if source in FLOATS:
        info = np.iinfo(np.dtype(target))
        whole = np.trunc(np.where(np.isfinite(x), x, 0.0))
        return np.asarray(np.clip(whole, info.min, info.max), np.int64)
    return wrapped(x.astype(np.int64), target)


def _call(name: str, operands: Sequence[np.ndarray], dtype: str) -> np.ndarray:
    if dtype not in FLOATS:
        raise NotAFormula(f"{name} of integers")
    if name in _CALLS:
        return np.asarray(_CALLS[name](*operands))
    if name not in FUNCTIONS:
        raise NotAFormula(f"the function {name}")
    return FUNCTIONS[name](*(Uncertain(np.asarray(x, np.float64)) for x in operands), dtype).value


_FLOAT_DIVISIONS: Mapping[str, Callable[..., Any]] = {
    "div": np.divide,
    "mod": np.fmod,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
}
_WHOLE_DIVISIONS: Mapping[str, Callable[..., Any]] = {
    "div": lambda a, b: np.trunc(a / b),
    "mod": np.fmod,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
}
_PLAIN: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sqrt": np.sqrt,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "nearbyint": np.round,
    "trunc": np.trunc,
    "pow": np.power,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "hypot": np.hypot,
}
