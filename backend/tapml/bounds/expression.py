"""Evaluating a program's expressions over a grid of iteration variables, with what a device's result may be off by."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tapml.bounds import chains, uncertain, wgsl
from tapml.bounds.buffers import Buffers
from tapml.bounds.uncertain import FLOATS, NotDerivable, Uncertain
from tapml.operators.affine import affine
from tapml.operators.program import CHOICES, Expression
from tapml.operators.program import FLOATS as FLOAT_DTYPES

Operation: TypeAlias = Callable[..., Uncertain]
Settle: TypeAlias = Callable[[Uncertain, Expression], Uncertain]
"""Makes of what an operation may give one thing that it gives."""


class Grid:
    """Iteration variables, each over a range of numbers along an axis of its own."""

    def __init__(
        self,
        ranges: Mapping[str, range],
        buffers: Buffers,
        functions: Mapping[str, Operation],
        settle: Settle | None = None,
    ) -> None:
        """`buffers`: what they hold now. `functions` by TVM's names (wgsl.FUNCTIONS). `settle`: of each operation that
        is off by something, before another one uses its result."""
        self.ranges = dict(ranges)
        self._axis = {var: axis for axis, var in enumerate(self.ranges)}
        self._buffers = buffers
        self._bound: dict[str, Uncertain] = {}
        self._parts: dict[tuple[Any, ...], Uncertain] = {}
        self._functions = functions
        self._settle = settle

    @property
    def rank(self) -> int:
        return len(self.ranges)

    def bind(self, variable: str, expression: Expression) -> None:
        """Give a variable the value of an expression."""
        self._bound[variable] = self.evaluate(expression)

    def evaluate(self, node: Expression) -> Uncertain:
        """The expression at every point of the grid; arrays have an axis for each variable, of extent 1 where the
        expression does not depend on it. Raises NotDerivable."""
        found = self._evaluate(node)
        return found if self._settle is None or found.exact else self._settle(found, node)

    def _evaluate(self, node: Expression) -> Uncertain:
        kind, dtype = node.kind, node.dtype
        if kind == "constant":
            return self._constant(node)
        if kind == "variable":
            return self._variable(str(node.value))
        if kind == "load":
            return self._load(node)
        if chains.is_arithmetic(node):
            return chains.evaluated(node, self.evaluate, walks=self._settle is not None)
        operands = [self.evaluate(operand) for operand in node.operands]
        if kind in ("eq", "ne") and node.operands[0] == node.operands[1] and node.operands[0].dtype in FLOATS:
            unlike = self._functions["isnan"](operands[0], dtype)
            return unlike if kind == "ne" else Uncertain(~unlike.value, unlike.error)
        if kind == "mod" and dtype in FLOATS and "fmod" in self._functions:
            return self._functions["fmod"](*operands, dtype)
        if kind == "div" and dtype in FLOATS:
            return chains.distributed(node, uncertain.divide(operands[0], operands[1], dtype))
        if kind in BINARY:
            return BINARY[kind](*operands, dtype)
        if kind in CHOICES:
            condition, yes, no = operands
            unsure = None if condition.error is None else condition.error > 0
            return uncertain.chosen(condition.value.astype(np.bool_), unsure, yes, no)
        if kind == "not":
            return Uncertain(~operands[0].value, operands[0].error)
        if kind == "cast":
            return cast(operands[0], node.operands[0].dtype, dtype)
        if kind == "reinterpret":
            return reinterpreted(operands[0], node.operands[0].dtype, dtype)
        if kind == "call" and dtype in (*FLOATS, "bool") and node.value in self._functions:
            return self._functions[str(node.value)](*operands, dtype)
        what = f"the function {node.value} on {dtype}" if kind == "call" else f"{kind} in its program"
        raise NotDerivable(what)

    # ------------------------------------------------ leaves

    def _constant(self, node: Expression) -> Uncertain:
        if node.dtype in FLOAT_DTYPES:
            # As the device has it: rounded to the dtype. Both neighbours are allowed, but compilers take the nearest.
            return self._scalar(float(np.dtype(node.dtype).type(node.value)), np.float64)
        return self._scalar(node.value, np.bool_ if node.dtype == "bool" else np.int64)

    def _variable(self, name: str) -> Uncertain:
        if name in self._bound:
            return self._bound[name]
        values = np.array(self.ranges[name], np.int64)
        shape = [1] * self.rank
        shape[self._axis[name]] = values.size
        return Uncertain(values.reshape(shape))

    def _scalar(self, value: Any, dtype: Any) -> Uncertain:
        return Uncertain(np.full((1,) * self.rank, value, dtype))

    def _load(self, node: Expression) -> Uncertain:
        name = str(node.value)
        if name not in self._buffers:
            raise NotDerivable(f"reads {name} before it is written")
        if not node.operands:
            point = (1,) * self.rank
            return uncertain.elements(self._buffers[name], lambda array: array.reshape(point))
        shape = self._buffers.shape(name)
        affine = [self.affine(index) for index in node.operands]
        known = [a for a in affine if a is not None]
        if len(known) == len(affine) and (box := self._box(known, shape)) is not None:
            return self._load_box(name, known, box)
        indices = [self.evaluate(index) for index in node.operands]
        if all(index.exact for index in indices):
            at = _within([index.value for index in indices], shape)
            if self._buffers.in_part(name, math.prod(np.broadcast_shapes(*(index.shape for index in at)))):
                return self._buffers.part(name, at)
            return uncertain.elements(self._buffers[name], lambda array: array[at])
        return self._load_around(name, self._buffers[name], indices)

    def _load_box(self, name: str, affine: Sequence[tuple[int, dict[str, int]]], box: list[slice]) -> Uncertain:
        """At affine indices, all of which are in a box."""
        if not self._buffers.in_part(name, math.prod(along.stop - along.start for along in box)):
            return uncertain.elements(self._buffers[name], lambda array: self._view(array, affine))
        key = name, *((along.start, along.stop) for along in box)
        if key not in self._parts:
            self._parts[key] = self._buffers.part(name, box)
        moved = [(constant - along.start, factors) for (constant, factors), along in zip(affine, box, strict=True)]
        return uncertain.elements(self._parts[key], lambda array: self._view(array, moved))

    def _load_around(self, name: str, held: Uncertain, indices: Sequence[Uncertain]) -> Uncertain:
        """At indices that rounding may move to a neighbour, as where bilinear interpolation has its corners."""
        if not all(float(index.spread.max(initial=0.0)) <= 1 for index in indices) or len(indices) > _MOST_INDICES:
            raise NotDerivable(f"reads {name} at an index that depends on rounding")
        value = held.value[_within([index.value for index in indices], held.value.shape)]
        low, high = value, value
        for moves in itertools.product(*((0,) if index.exact else (-1, 0, 1) for index in indices)):
            places = [i.value + m * i.spread.astype(np.int64) for i, m in zip(indices, moves, strict=True)]
            at = _within(places, held.value.shape)
            low, high = np.minimum(low, held.low[at]), np.maximum(high, held.high[at])
        return Uncertain(value, uncertain.distance(value, low, high))

    def places(
        self, indices: Sequence[Expression], extents: Sequence[int], shape: Sequence[int]
    ) -> tuple[Any, Callable[[np.ndarray], np.ndarray]]:
        """Where in a buffer of these `extents` the indices are, for numpy, None where some are outside; and what brings
        values on the grid, of this `shape`, into that form."""
        region = self._region(indices)
        if region and all(len(self.ranges[v]) == 1 or a in region.axes for v, a in self._axis.items() if shape[a] > 1):
            inside = all(s.start >= 0 and s.stop <= extent for s, extent in zip(region.slices, extents, strict=True))
            order = [*region.axes, *(axis for axis in range(self.rank) if axis not in region.axes)]
            lengths = [s.stop - s.start for s in region.slices]
            return (
                region.slices if inside else None,
                lambda values: np.broadcast_to(values, shape).transpose(order).reshape(lengths),
            )
        at = tuple(np.broadcast_to(self.evaluate(index).value, shape) for index in indices)
        inside = not any(((index < 0) | (index >= extent)).any() for index, extent in zip(at, extents, strict=True))
        if not at:  # a buffer of no dimensions
            return (), lambda values: np.broadcast_to(values, shape).reshape(())
        return at if inside else None, lambda values: np.broadcast_to(values, shape)

    def _region(self, indices: Sequence[Expression]) -> _Region | None:
        slices, axes = [], []
        for index in indices:
            if (found := self.affine(index)) is None:
                return None
            constant, coefficients = found
            variables = [var for var, coefficient in coefficients.items() if coefficient]
            if not variables:
                slices.append(slice(constant, constant + 1))
                continue
            (var, *others) = variables
            if others or coefficients[var] != 1 or self._axis[var] in axes or var in self._bound:
                return None
            axes.append(self._axis[var])
            slices.append(slice(constant + self.ranges[var][0], constant + self.ranges[var][-1] + 1))
        return _Region(tuple(slices), axes)

    # ------------------------------------------------ views of affine indices

    def affine(self, node: Expression) -> tuple[int, dict[str, int]] | None:
        """(constant, coefficient of each variable), or None where the index is not of that form."""
        found = affine(node)
        return found if found is not None and found[1].keys() <= self._axis.keys() else None

    def _box(self, affine: Sequence[tuple[int, dict[str, int]]], shape: tuple[int, ...]) -> list[slice] | None:
        """From where to where affine indices reach along each dimension; None where that is outside."""
        found = []
        for (constant, coefficients), extent in zip(affine, shape, strict=True):
            ends = [sorted((c * self.ranges[v][0], c * self.ranges[v][-1])) for v, c in coefficients.items()]
            low, high = constant + sum(e[0] for e in ends), constant + sum(e[1] for e in ends)
            if low < 0 or high >= extent:
                return None
            found.append(slice(low, high + 1))
        return found

    def _view(self, array: np.ndarray, affine: Sequence[tuple[int, dict[str, int]]]) -> np.ndarray:
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


def _within(indices: Sequence[np.ndarray], shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Out of range only where a condition around it drops the element."""
    pairs = zip(indices, shape, strict=True)
    return tuple(np.clip(index, 0, extent - 1) for index, extent in pairs)


_MOST_INDICES = 5


class _Region(NamedTuple):
    """A rectangle of a buffer, each axis of which is one variable's, or at one place."""

    slices: tuple[slice, ...]
    axes: list[int]
    """Of the grid, in the order of the buffer's."""


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
        if exact:
            with np.errstate(over="ignore"):  # what is infinite in `target` is not the same
                same = np.array_equal(value.astype(np.dtype(target)).astype(np.float64), value)
            if same:
                return Uncertain(value)
        return uncertain.rounded(value, x.spread, target)
    if target == "bool":
        return BINARY["ne"](x, Uncertain(np.zeros_like(x.value)), target)
    if source in FLOATS:
        found = wgsl.whole(x, source, np.trunc)
        safe = np.where(np.isfinite(found.value), found.value, 0.0)
        # Beyond the range WGSL clamps and others wrap: no test should rest on it.
        info = np.iinfo(np.dtype(target))
        inside = (safe >= info.min) & (safe <= info.max)
        value = np.clip(safe, info.min, info.max).astype(np.int64)
        if inside.all():
            return Uncertain(value, found.error, found.ends)
        return Uncertain(value, np.where(inside, found.spread, np.inf))
    return Uncertain(wrapped(x.value.astype(np.int64), target), x.error)


def reinterpreted(x: Uncertain, source: str, target: str) -> Uncertain:
    """The bits of one dtype taken for those of another."""
    if not x.exact:
        raise NotDerivable("bits of what depends on rounding")
    bits = x.value.astype(np.dtype(source)).view(np.dtype(target))
    return Uncertain(bits.astype(np.float64 if target in FLOATS else np.int64))


# ------------------------------------------------ operations of two operands: (a, b, dtype of the result)
# Sums, products and quotients of floats: chains.py.


def _add(a: Uncertain, b: Uncertain, dtype: str, sign: int = 1) -> Uncertain:
    value = wrapped(a.value + sign * b.value, dtype)
    if a.exact and b.exact:
        return Uncertain(value)
    low, high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
    ends = (a.low + low, a.high + high)
    if all((wrapped(end.astype(np.int64), dtype) == end).all() for end in ends if np.isfinite(end).all()):
        return uncertain.between(value, *ends)
    return Uncertain(value, a.spread + b.spread)


def _multiply(a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
    error = None if a.exact and b.exact else uncertain.product_error(a, b)
    return Uncertain(wrapped(a.value * b.value, dtype), error)


def _whole(function: Callable[..., Any]) -> Operation:
    """An integer division; by zero nothing is asked for."""

    def divided(a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
        if dtype in FLOATS:
            raise NotDerivable("a floating-point remainder in its program")
        if not (a.exact and b.exact):
            raise NotDerivable("an integer division of what depends on rounding")
        return Uncertain(wrapped(function(a.value, np.where(b.value == 0, 1, b.value)), dtype))

    return divided


_truncated = _whole(lambda a, b: np.trunc(a / b).astype(np.int64))


def _bits(function: Callable[..., Any]) -> Operation:
    def combined(a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
        if not (a.exact and b.exact):
            raise NotDerivable("bits of what depends on rounding")
        if dtype == "bool":
            return Uncertain(function(a.value, b.value))
        return Uncertain(wrapped(function(a.value.astype(np.int64), b.value.astype(np.int64)), dtype))

    return combined


def _compared(function: Callable[..., Any]) -> Operation:
    def compared(a: Uncertain, b: Uncertain, _: str) -> Uncertain:
        value = function(a.value, b.value)
        if a.exact and b.exact:
            return Uncertain(value)
        with np.errstate(invalid="ignore"):
            spread = a.spread + b.spread
            unsure = ~(np.abs(a.value - b.value) > spread) & (spread != 0)
        return Uncertain(value, unsure.astype(np.float64))

    return compared


def _logic(function: Callable[..., Any], settles: bool) -> Operation:
    """`settles`: the truth value of one operand that settles it, whatever the other is."""

    def combined(a: Uncertain, b: Uncertain, _: str) -> Uncertain:
        value = function(a.value, b.value)
        if a.exact and b.exact:
            return Uncertain(value)
        settled = _truth(a, settles) | _truth(b, settles)
        return Uncertain(value, np.where(settled, 0.0, np.maximum(a.spread, b.spread)))

    return combined


def _truth(x: Uncertain, wanted: bool) -> np.ndarray:
    """Where the condition is `wanted` for sure."""
    sure = np.ones((1,) * x.value.ndim, np.bool_) if x.error is None else x.error == 0
    settled: np.ndarray = (x.value == wanted) & sure
    return settled


BINARY: dict[str, Operation] = {
    "add": _add,
    "sub": functools.partial(_add, sign=-1),
    "mul": _multiply,
    "div": _truncated,
    "mod": _whole(np.fmod),
    "floordiv": _whole(np.floor_divide),
    "floormod": _whole(np.mod),
    "max": lambda a, b, _: uncertain.extremum(a, b, largest=True),
    "min": lambda a, b, _: uncertain.extremum(a, b, largest=False),
    "and": _logic(np.logical_and, settles=False),
    "or": _logic(np.logical_or, settles=True),
    "eq": _compared(np.equal),
    "ne": _compared(np.not_equal),
    "lt": _compared(np.less),
    "le": _compared(np.less_equal),
    "gt": _compared(np.greater),
    "ge": _compared(np.greater_equal),
    "bitwise_and": _bits(np.bitwise_and),
    "bitwise_or": _bits(np.bitwise_or),
    "bitwise_xor": _bits(np.bitwise_xor),
    "shift_left": _bits(np.left_shift),
    "shift_right": _bits(np.right_shift),
}
