"""A node's operands: as expressions, and what is known of them at import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from tapml.errors import InputError
from tapml.importing.onnx_values import Known
from tapml.importing.relax_ir import Expr, static_shape
from tapml.importing.sizes import Sizes, integer

_NEEDED = "tapml needs shapes of sizes"


class Operands(Sequence[Any]):
    """Relax expressions, None where an operand is left out."""

    def __init__(
        self,
        place: str,
        expressions: Sequence[Expr | None],
        known: Sequence[Known | None],
        turning: Sequence[bool],
        sizes: Sizes,
    ) -> None:
        """`place`: the operator and where it is; of each operand its value, where it depends on shapes alone, and
        whether it is another in each turn of a loop.
        """
        self.place = place
        self.sizes = sizes
        self._expressions = expressions
        self._known = known
        self._turning = turning

    def __getitem__(self, position: Any) -> Any:
        return self._expressions[position]

    def __len__(self) -> int:
        return len(self._expressions)

    def given(self, position: int) -> bool:
        return position < len(self) and self[position] is not None

    def known(self, position: int) -> Known | None:
        """An operand that depends on shapes alone."""
        return self._known[position] if self.given(position) else None

    def turns(self, position: int) -> bool:
        """Whether an operand is another in each turn of a loop."""
        return self.given(position) and self._turning[position]

    def sizes_at(self, position: int) -> list[Any]:
        """An operand that is made of sizes. Raises InputError where it is not."""
        if (found := self._known[position]) is None:
            raise InputError(f"the shape that {self.place} gives depends on the values of the input: {_NEEDED}")
        return found.elements

    def shape(self) -> list[Any]:
        """Of the first operand, in integers and expressions. Raises InputError where it depends on data."""
        if not isinstance(getattr(self[0].ty, "shape", None), relax.ShapeExpr):
            raise InputError(f"the shape that {self.place} is given depends on the values of the input: {_NEEDED}")
        return [self.sizes.simplified(axis) for axis in self[0].ty.shape.values]

    def varies(self, *positions: int) -> bool:
        """Whether a symbol is among the first operand's sizes or the operands at `positions`."""
        known = map(self.known, positions)
        fixed = all(isinstance(axis, int) for axis in self.shape())
        return not fixed or any(found is not None and found.symbolic for found in known)

    def equal(self, a: Any, b: Any) -> bool:
        """Whether two sizes are the same, whatever the symbols are."""
        difference = self.sizes.simplified(a - b)
        return isinstance(difference, int) and difference == 0

    def clipped(self, place: Any, size: Any) -> Any:
        """A place along an axis, which counts from the end where it is negative: from 0 to `size`."""
        if not self.sizes.holds(integer(place) >= 0):
            place = self.sizes.simplified(place + size)
            return place if self.sizes.holds(integer(place) >= 0) else 0
        return place if self.sizes.holds(integer(place) <= size) else size


def fixed_shape(data: Expr, operator: str) -> list[int]:
    """Raises InputError where a size is a symbol."""
    shape = static_shape(data.ty)
    if shape is None:
        raise InputError(f"{operator} is computed at fixed sizes only: give inputs of one size")
    return list(shape)


def numbers(operand: Expr, operator: str, what: str) -> list[Any]:
    """The elements of a constant operand. Raises InputError where it is computed."""
    if not isinstance(operand, tvm.ir.GenericConst):
        raise InputError(f"{operator} takes its {what} from values of the input: tapml needs a constant")
    return list(operand.value.numpy().reshape(-1).tolist())


def text(value: Any) -> str:
    """An attribute's text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def zero(dtype: Any) -> Any:
    return tirx.const(0, str(dtype))


def within(place: Any, extent: Any) -> Any:
    """The nearest place from 0 to `extent` - 1."""
    return tirx.max(tirx.min(place, extent - 1), 0)
