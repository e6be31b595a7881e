"""Evaluating TIR expressions over a grid of iteration variables, with what a device's result may be off by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapml.bounds import uncertain, wgsl
from tapml.bounds.uncertain import FLOATS, Uncertain

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "LShift": np.left_shift, "RShift": np.right_shift,
}  # fmt: skip


class NotDerivable(Exception):
    """The operator's program has something that no bound can be derived for; says what."""


class Grid:
    """Iteration variables, each over a range of numbers along an axis of its own."""

    def __init__(
        self,
        ranges: Mapping[Any, range],
        buffers: Mapping[Any, Uncertain],
        tanh_builtin: bool = False,
    ) -> None:
        """`buffers`: what they hold now. `tanh_builtin`: the kernel calls WGSL's tanh (wgsl.tanh_builtin)."""
        self.ranges = dict(ranges)
        self._axis = {var: axis for axis, var in enumerate(self.ranges)}
        self._buffers = buffers
        self._bound: dict[Any, Uncertain] = {}
        self._unary = {**wgsl.UNARY, **({"tanh": wgsl.tanh_builtin} if tanh_builtin else {})}

    @property
    def rank(self) -> int:
        return len(self.ranges)

    def bind(self, variable: Any, expression: Any) -> None:
        """Give a variable the value of an expression."""
        self._bound[variable] = self.evaluate(expression)

    def evaluate(self, node: Any) -> Uncertain:
        """The expression at every point of the grid; arrays have an axis for each variable, of extent 1 where the
        expression does not depend on it. Raises NotDerivable."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            found: Uncertain = method(node)
            return found
        kind = type(node).__name__
        if kind in _COMPARISONS:
            return self._compare(node, kind)
        if kind in _BITS:
            return self._bitwise(node, kind)
        raise NotDerivable(f"{kind} in its program")

    # ------------------------------------------------ leaves

    def _var(self, node: Any) -> Uncertain:
        if node in self._bound:
            return self._bound[node]
        if node not in self._axis:
            raise NotDerivable(f"the variable {node}")
        values = np.array(self.ranges[node], np.int64)
        shape = [1] * self.rank
        shape[self._axis[node]] = values.size
        return Uncertain(values.reshape(shape))

    def _intimm(self, node: Any) -> Uncertain:
        return self._scalar(int(node.value), np.bool_ if dtype_of(node) == "bool" else np.int64)

    def _floatimm(self, node: Any) -> Uncertain:
        # As the device has it: rounded to the dtype. Both neighbours are allowed, but compilers take the nearest.
        return self._scalar(float(numpy_float(dtype_of(node))(node.value)), np.float64)

    def _scalar(self, value: Any, dtype: Any) -> Uncertain:
        return Uncertain(np.full((1,) * self.rank, value, dtype))

    def _tensorload(self, node: Any) -> Uncertain:
        if node.source not in self._buffers:
            raise NotDerivable(f"reads {node.source} before it is written")
        held = self._buffers[node.source]
        if not node.indices:
            point = (1,) * self.rank
            return Uncertain(held.value.reshape(point), None if held.error is None else held.error.reshape(point))
        affine = [self.affine(index) for index in node.indices]
        known = [a for a in affine if a is not None]
        if len(known) == len(affine) and self._inside(known, held.value.shape):
            value = self._view(held.value, known)
            return Uncertain(value, None if held.error is None else self._view(held.error, known))
        indices = [self.evaluate(index) for index in node.indices]
        if not all(index.exact for index in indices):
            raise NotDerivable(f"reads {node.source} at an index that depends on rounding")
        # Out of range only where a condition around it drops the element.
        at = tuple(np.clip(index.value, 0, extent - 1) for index, extent in zip(indices, held.value.shape, strict=True))
        return Uncertain(held.value[at], None if held.error is None else held.error[at])

    # ------------------------------------------------ views of affine indices

    def affine(self, node: Any) -> tuple[int, dict[Any, int]] | None:
        """(constant, coefficient of each variable), or None where the index is not of that form."""
        kind = type(node).__name__
        if kind == "IntImm":
            return int(node.value), {}
        if kind == "Var":
            return (0, {node: 1}) if node in self._axis else None
        if kind == "Cast":
            return self.affine(node.value)
        if kind not in ("Add", "Sub", "Mul"):
            return None
        a, b = self.affine(node.a), self.affine(node.b)
        if a is None or b is None:
            return None
        if kind == "Mul":
            if a[1] and b[1]:
                return None
            factor, other = (a[0], b) if not a[1] else (b[0], a)
            return factor * other[0], {var: factor * c for var, c in other[1].items()}
        sign = 1 if kind == "Add" else -1
        coefficients = dict(a[1])
        for var, c in b[1].items():
            coefficients[var] = coefficients.get(var, 0) + sign * c
        return a[0] + sign * b[0], coefficients

    def _inside(self, affine: Sequence[tuple[int, dict[Any, int]]], shape: tuple[int, ...]) -> bool:
        for (constant, coefficients), extent in zip(affine, shape, strict=True):
            ends = [sorted((c * self.ranges[v][0], c * self.ranges[v][-1])) for v, c in coefficients.items()]
            if constant + sum(e[0] for e in ends) < 0 or constant + sum(e[1] for e in ends) >= extent:
                return False
        return True

    def _view(self, array: np.ndarray, affine: Sequence[tuple[int, dict[Any, int]]]) -> np.ndarray:
        """The elements at affine indices, without copying any."""
        array = np.ascontiguousarray(array)
        shape, strides = [1] * self.rank, [0] * self.rank
        offset = 0
        for (constant, coefficients), stride in zip(affine, array.strides, strict=True):
            offset += constant * stride
            for var, c in coefficients.items():
                offset += c * self.ranges[var][0] * stride
                shape[self._axis[var]] = len(self.ranges[var])
                strides[self._axis[var]] += c * stride
        start = array.reshape(-1)[offset // array.itemsize :]
        return np.lib.stride_tricks.as_strided(start, shape, strides, writeable=False)

    # ------------------------------------------------ arithmetic

    def _add(self, node: Any) -> Uncertain:
        a, b, dtype = self.evaluate(node.a), self.evaluate(node.b), dtype_of(node)
        return uncertain.add(a, b, dtype) if dtype in FLOATS else _integers(a, b, a.value + b.value, dtype)

    def _sub(self, node: Any) -> Uncertain:
        a, b, dtype = self.evaluate(node.a), self.evaluate(node.b), dtype_of(node)
        return uncertain.add(a, b, dtype, -1) if dtype in FLOATS else _integers(a, b, a.value - b.value, dtype)

    def _mul(self, node: Any) -> Uncertain:
        a, b, dtype = self.evaluate(node.a), self.evaluate(node.b), dtype_of(node)
        if dtype in FLOATS:
            return uncertain.multiply(a, b, dtype)
        error = None if a.exact and b.exact else uncertain.product_error(a, b)
        return Uncertain(wrapped(a.value * b.value, dtype), error)

    def _div(self, node: Any) -> Uncertain:
        a, b, dtype = self.evaluate(node.a), self.evaluate(node.b), dtype_of(node)
        if dtype in FLOATS:
            return uncertain.divide(a, b, dtype)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._exact_integers(np.trunc(a.value / b.value).astype(np.int64), a, b, dtype)

    def _floordiv(self, node: Any) -> Uncertain:
        a, b = self.evaluate(node.a), self.evaluate(node.b)
        return self._exact_integers(a.value // np.where(b.value == 0, 1, b.value), a, b, dtype_of(node))

    def _floormod(self, node: Any) -> Uncertain:
        a, b = self.evaluate(node.a), self.evaluate(node.b)
        return self._exact_integers(a.value % np.where(b.value == 0, 1, b.value), a, b, dtype_of(node))

    def _mod(self, node: Any) -> Uncertain:
        a, b = self.evaluate(node.a), self.evaluate(node.b)
        return self._exact_integers(np.fmod(a.value, np.where(b.value == 0, 1, b.value)), a, b, dtype_of(node))

    def _exact_integers(self, value: np.ndarray, a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
        if dtype in FLOATS:
            raise NotDerivable("a floating-point remainder in its program")
        if not (a.exact and b.exact):
            raise NotDerivable("an integer division of what depends on rounding")
        return Uncertain(wrapped(value, dtype))

    def _max(self, node: Any) -> Uncertain:
        return uncertain.extremum(self.evaluate(node.a), self.evaluate(node.b), largest=True)

    def _min(self, node: Any) -> Uncertain:
        return uncertain.extremum(self.evaluate(node.a), self.evaluate(node.b), largest=False)

    def _bitwise(self, node: Any, kind: str) -> Uncertain:
        a, b = self.evaluate(node.a), self.evaluate(node.b)
        if not (a.exact and b.exact):
            raise NotDerivable("bits of what depends on rounding")
        if dtype_of(node) == "bool":
            return Uncertain(_BITS[kind](a.value, b.value))
        return Uncertain(wrapped(_BITS[kind](a.value.astype(np.int64), b.value.astype(np.int64)), dtype_of(node)))

    # ------------------------------------------------ conditions

    def _compare(self, node: Any, kind: str) -> Uncertain:
        a, b = self.evaluate(node.a), self.evaluate(node.b)
        value = _COMPARISONS[kind](a.value, b.value)
        if a.exact and b.exact:
            return Uncertain(value)
        with np.errstate(invalid="ignore"):
            unsure = ~(np.abs(a.value - b.value) > a.spread + b.spread)
        return Uncertain(value, unsure.astype(np.float64))

    def _and(self, node: Any) -> Uncertain:
        a, b = self.evaluate(node.a), self.evaluate(node.b)
        return _logic(a, b, a.value & b.value, _truth(a, False) & _truth(b, False))

    def _or(self, node: Any) -> Uncertain:
        a, b = self.evaluate(node.a), self.evaluate(node.b)
        return _logic(a, b, a.value | b.value, _truth(a, True) | _truth(b, True))

    def _not(self, node: Any) -> Uncertain:
        a = self.evaluate(node.a)
        return Uncertain(~a.value, a.error)

    def _select(self, node: Any) -> Uncertain:
        return self._choose(node.condition, node.true_value, node.false_value)

    def _choose(self, condition: Any, yes: Any, no: Any) -> Uncertain:
        found = self.evaluate(condition)
        unsure = None if found.error is None else found.error > 0
        return uncertain.chosen(found.value.astype(np.bool_), unsure, self.evaluate(yes), self.evaluate(no))

    # ------------------------------------------------ conversions and calls

    def _cast(self, node: Any) -> Uncertain:
        return cast(self.evaluate(node.value), dtype_of(node.value), dtype_of(node))

    def _call(self, node: Any) -> Uncertain:
        name = str(getattr(node.op, "name", "")).rpartition(".")[2]
        if name == "if_then_else":
            return self._choose(*node.args)
        if name == "likely":
            return self.evaluate(node.args[0])
        dtype = dtype_of(node)
        if name == "pow" and dtype in FLOATS:
            return wgsl.power(self.evaluate(node.args[0]), self.evaluate(node.args[1]), dtype)
        if name in self._unary and dtype in FLOATS:
            return self._unary[name](self.evaluate(node.args[0]), dtype)
        if name in ("abs", "fabs"):
            return wgsl.absolute(self.evaluate(node.args[0]), dtype)
        raise NotDerivable(f"the function {name or type(node.op).__name__} on {dtype}")


def dtype_of(node: Any) -> str:
    return str(node.ty)


def numpy_float(dtype: str) -> Callable[[Any], Any]:
    if dtype not in (*FLOATS, "float64"):
        raise NotDerivable(f"{dtype} in its program")
    return np.dtype(dtype).type


def wrapped(value: np.ndarray, dtype: str) -> np.ndarray:
    """Integers as the dtype holds them."""
    if value.dtype == np.bool_ or dtype in ("int64", "bool"):
        return value
    held: np.ndarray = value.astype(np.dtype(dtype)).astype(np.int64)
    return held


def cast(x: Uncertain, source: str, target: str) -> Uncertain:
    """A conversion, as WGSL's: to an integer it truncates."""
    if target == source:
        return x
    if target in FLOATS:
        value = x.value.astype(np.float64)
        narrower = source == "float32" and target == "float16"
        exact = x.exact and math.isfinite(float(np.max(np.abs(value), initial=0.0)))
        wide = source not in FLOATS and float(np.max(np.abs(value), initial=0.0)) > 1 / uncertain.unit(target)
        if not narrower and not wide:
            return Uncertain(value, x.error)
        if exact and np.array_equal(value.astype(np.dtype(target)).astype(np.float64), value):
            return Uncertain(value)
        return uncertain.rounded(value, x.spread, target)
    if target == "bool":
        if not x.exact:
            raise NotDerivable("a truth value of what depends on rounding")
        return Uncertain(x.value != 0)
    if source in FLOATS:
        found = wgsl.whole(x, source, np.trunc)
        safe = np.where(np.isfinite(found.value), found.value, 0.0)
        # Beyond the range WGSL clamps and others wrap: no test should rest on it.
        info = np.iinfo(np.dtype(target))
        inside = (safe >= info.min) & (safe <= info.max)
        error = found.error if inside.all() else np.where(inside, found.spread, np.inf)
        return Uncertain(np.clip(safe, info.min, info.max).astype(np.int64), error)
    return Uncertain(wrapped(x.value.astype(np.int64), target), x.error)


def _integers(a: Uncertain, b: Uncertain, value: np.ndarray, dtype: str) -> Uncertain:
    error = None if a.exact and b.exact else a.spread + b.spread
    return Uncertain(wrapped(value, dtype), error)


def _truth(x: Uncertain, wanted: bool) -> np.ndarray:
    """Where the condition is `wanted` for sure."""
    sure = np.ones((1,) * x.value.ndim, np.bool_) if x.error is None else x.error == 0
    settled: np.ndarray = (x.value == wanted) & sure
    return settled


def _logic(a: Uncertain, b: Uncertain, value: np.ndarray, settled: np.ndarray) -> Uncertain:
    if a.exact and b.exact:
        return Uncertain(value)
    return Uncertain(value, np.where(settled, 0.0, np.maximum(a.spread, b.spread)))
