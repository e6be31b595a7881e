"""Which axes a kernel goes over: split where an index divides them, merged where nothing tells them apart.

A reshape that splits heads divides its last axis by their size: of the two axes that it stands for, every index is a
plain sum. And a sum of two tensors is one axis, whatever their shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapml.compilers.native.kernel import times
from tapml.compilers.native.polynomials import Indices, Polynomial
from tapml.compilers.native.stages import Index, loads, parts, rewritten, substituted, variable, variables_of
from tapml.operators.program import Buffer, Expression

_MOST_SPLITS = 8


class Axes:
    """The axes of one nest, outermost first, and the expressions over them: `roots` (values), and `places`, what is
    stored: a buffer with its indices."""

    def __init__(
        self,
        indices: Indices,
        axes: Sequence[Index],
        roots: Sequence[Expression],
        buffers: Any,
    ) -> None:
        self.indices = indices
        self.axes = list(axes)
        self.roots = list(roots)
        self._buffers = buffers

    def _place(self, load: Expression) -> Polynomial:
        buffer: Buffer = self._buffers[str(load.value)]
        return self.indices.flat(load.operands, buffer.shape)

    def arrange(self, flat: bool = False) -> None:
        """Split, then merge, as far as it goes. `flat`: whether the roots are those of an arranged nest."""
        if not flat:
            self._replace({})
        for _ in range(_MOST_SPLITS):
            if not self._split():
                break
        while self._merge():
            pass

    def _replace(self, values: dict[str, Expression]) -> None:
        self.indices.forget()
        self.roots = [flattened(self.indices, self._buffers, substituted(root, values)) for root in self.roots]

    # ------------------------------------------------ splitting

    def _split(self) -> bool:
        divisors: dict[str, set[int]] = {}
        for root in self.roots:
            for load in loads(root):
                for part in self._place(load).atoms():
                    self._divisions(part, divisors)
        for place, axis in enumerate(self.axes):
            for divisor in sorted(divisors.get(axis.variable, ()), reverse=True):
                whole = isinstance(axis.extent, int) and axis.extent % divisor == 0 and 1 < divisor < axis.extent
                # Four elements in a row are worth more than a plain index.
                if whole and (place < len(self.axes) - 1 or divisor % 4 == 0):
                    self._split_at(place, divisor)
                    return True
        return False

    def _divisions(self, part: Any, found: dict[str, set[int]]) -> None:
        opaque = self.indices.opaque.get(part) if isinstance(part, int) else None
        if opaque is None or opaque.kind not in ("floordiv", "floormod"):
            return
        inner, divisor = map(self.indices, opaque.operands)
        (only,) = inner.atoms() if len(inner.atoms()) == 1 else (None,)
        if divisor.constant is None or divisor.constant < 1 or only is None:
            return
        if isinstance(only, str) and inner.terms == {(only,): 1}:
            found.setdefault(only, set()).add(divisor.constant)
        else:
            self._divisions(only, found)

    def _split_at(self, place: int, divisor: int) -> None:
        axis = self.axes[place]
        outer = Index(f"{axis.variable}_h", axis.extent // divisor)
        inner = Index(f"{axis.variable}_l", divisor)
        for made in (outer, inner):
            self.indices.declare(made.variable, made.extent)
        scaled = Expression("mul", "int64", (variable(outer.variable), Expression("constant", "int64", (), divisor)))
        self.axes[place : place + 1] = [outer, inner]
        self._replace({axis.variable: Expression("add", "int64", (scaled, variable(inner.variable)))})

    # ------------------------------------------------ merging

    def _merge(self) -> bool:
        for place in range(len(self.axes) - 2, -1, -1):
            outer, inner = self.axes[place : place + 2]
            if self._as_one(outer.variable, inner):
                made = Index(f"{inner.variable}_m", times(outer.extent, inner.extent))
                self.indices.declare(made.variable, made.extent)
                self.axes[place : place + 2] = [made]
                zero = Expression("constant", "int64", (), 0)
                self._replace({outer.variable: zero, inner.variable: variable(made.variable)})
                return True
        return False

    def _as_one(self, outer: str, inner: Index) -> bool:
        """Does every place step from row to row as it would go on in a row, and nothing else ask for either axis?"""
        size = self.indices.size(inner.extent)
        own = {outer, inner.variable}
        for root in self.roots:
            if not own.isdisjoint(_outside_loads(root)):
                return False
            for load in loads(root):
                place = self._place(load)
                opaque = [self.indices.opaque[part] for part in place.atoms() if isinstance(part, int)]
                if any(not own.isdisjoint(variables_of(part)) for part in opaque):
                    return False
                a, b = place.coefficient(outer), place.coefficient(inner.variable)
                if a is None or b is None or a.terms != (b * size).terms:
                    return False
        return True


def flattened(indices: Indices, buffers: Any, root: Expression) -> Expression:
    """The same with each load by where it lies in its buffer alone: what a reshape divides and multiplies is gone, and
    loads of one element are equal."""

    def change(load: Expression) -> Expression | None:
        if load.kind != "load" or not load.operands:
            return None
        place = indices.flat(load.operands, buffers[str(load.value)].shape)
        zero = Expression("constant", "int64", (), 0)
        operands = *[zero] * (len(load.operands) - 1), indices.expression(place)
        return Expression("load", load.dtype, operands, load.value)

    return rewritten(root, change)


def _outside_loads(root: Expression) -> set[str]:
    """Variables that a value is made of otherwise than by where it reads."""
    found: set[str] = set()
    stack = [root]
    seen: set[int] = set()
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if part.kind == "variable":
            found.add(str(part.value))
        if part.kind != "load":
            stack += part.operands
    return found


def nodes(*roots: Expression) -> int:
    """Of how many different parts they are made."""
    return sum(1 for _ in parts(*roots))
