"""Pooling whose windows are larger than what they are moved over.

TVM pads the data by a whole window or stride and reduces over all of it, so that an average over an image with a kernel
of 2560 x 2560 (EfficientNet's) takes gigabytes. Here such a window looks at the data's own elements, once each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx

_LAYOUTS = ("NCW", "NCHW", "NCDHW")
_POOLS = {f"relax.nn.{kind}_pool{rank}d": kind for kind in ("avg", "max") for rank in (1, 2, 3)}


@dataclass(frozen=True)
class Line:
    """One axis: how long the data is, and the window that moves over it; `before` and `behind` pad it."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    behind: int

    @property
    def taps(self) -> int:
        """What a window looks at: each of its places, or each element, whichever are fewer."""
        return min(self.kernel, self.size)

    def source(self, at: Any, tap: Any) -> tuple[Any, Any]:
        """The element that is looked at, and whether it is one of the data's in the window."""
        first = at * self.stride - self.before
        if self.kernel <= self.size:
            place = first + tap * self.dilation
            inside = tirx.all(place >= 0, place < self.size)
            return tirx.max(tirx.min(place, self.size - 1), 0), inside
        inside = tirx.all(tap >= first, tap <= first + (self.kernel - 1) * self.dilation)
        return tap, tirx.all(inside, tirx.floormod(tap - first, self.dilation) == 0)

    def counted(self, at: Any, padded: bool) -> Any:
        """How many places of a window are in the data; `padded`: or in its padding."""
        first = at * self.stride - self.before
        last = tirx.min(first + (self.kernel - 1) * self.dilation, self.size - 1 + (self.behind if padded else 0))
        if not padded:
            first += tirx.floordiv(tirx.max(-first, 0) + self.dilation - 1, self.dilation) * self.dilation
        return tirx.max(tirx.floordiv(last - first, self.dilation) + 1, 0)


@relax.expr_functor.mutator
class _Bounded(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        kind = _POOLS.get(getattr(call.op, "name", ""))
        lines = _lines(call) if kind else None
        if lines is None or all(line.kernel <= line.size and line.stride <= line.size for line in lines):
            return call
        results = [int(size) for size in call.ty.shape.values[2:]]
        padded = bool(call.attrs.count_include_pad)

        def pool(data: Any) -> Any:
            return _maximum(data, lines, results) if kind == "max" else _average(data, lines, results, padded)

        return self.builder_.call_te(pool, call.args[0], primfunc_name_hint=f"{kind}_pool")


def with_bounded_windows(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which no pooling takes more than its data do."""
    mutator = _Bounded(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return mutator.builder_.get()


def _lines(call: Any) -> list[Line] | None:
    """Of the spatial axes; None where a size varies, or they are not the last."""
    found, shape = call.attrs, [getattr(size, "value", None) for size in call.args[0].ty.shape.values]
    if None in shape or str(found.layout) not in _LAYOUTS or str(found.out_layout) not in ("", str(found.layout)):
        return None
    rank = len(shape) - 2
    pads = [int(pad) for pad in found.padding]
    fields = (found.pool_size, found.strides, found.dilation, pads[:rank], pads[rank:])
    return [Line(*map(int, line)) for line in zip(shape[2:], *fields, strict=True)]


def _maximum(data: Any, lines: Sequence[Line], results: Sequence[int]) -> Any:
    axes = taps(lines, "k")

    def largest(n: Any, c: Any, *at: Any) -> Any:
        places, inside = sources(lines, at, axes)
        return te.max(tirx.Select(inside, data(n, c, *places), tirx.min_value(str(data.dtype))), axis=axes)

    return te.compute((*data.shape[:2], *results), largest, name="pool_max")


def _average(data: Any, lines: Sequence[Line], results: Sequence[int], padded: bool) -> Any:
    totals = summed(data, lines, results, lambda value: value)

    def mean(n: Any, c: Any, *at: Any) -> Any:
        count = math.prod(line.counted(place, padded) for line, place in zip(lines, at, strict=True))
        return tirx.div(totals(n, c, *at), tirx.max(count, 1).astype(str(data.dtype)))

    return te.compute(totals.shape, mean, name="pool_avg")


def summed(data: Any, lines: Sequence[Line], results: Sequence[int], function: Callable[[Any], Any]) -> Any:
    """TE: of `function` of each of the data's elements in a window."""
    axes, dtype = taps(lines, "k"), str(data.dtype)

    def total(n: Any, c: Any, *at: Any) -> Any:
        places, inside = sources(lines, at, axes)
        return te.sum(tirx.Select(inside, function(data(n, c, *places)), tirx.const(0, dtype)), axis=axes)

    return te.compute((*data.shape[:2], *results), total, name="pool_sum")


def taps(lines: Sequence[Line], name: str) -> list[Any]:
    """Axes of a reduction over a window."""
    return [te.reduce_axis((0, line.taps), f"{name}{number}") for number, line in enumerate(lines)]


def sources(lines: Sequence[Line], at: Sequence[Any], axes: Sequence[Any]) -> tuple[list[Any], Any]:
    """As `Line.source`, along all of them."""
    found = [line.source(place, tap) for line, place, tap in zip(lines, at, axes, strict=True)]
    return [place for place, _ in found], tirx.all(*(inside for _, inside in found))
