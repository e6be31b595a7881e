"""What converters of ONNX operators ask of their operands."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from tapml.errors import InputError
from tapml.importing.relax_ir import Expr, static_shape


def fixed_shape(data: Expr, operator: str) -> list[int]:
    """Raises InputError where a size is a symbol."""
    shape = static_shape(data.ty)
    if shape is None:
        raise InputError(f"{operator} is computed at fixed sizes only: give inputs of one size")
    return list(shape)


def numbers(operand: Expr, operator: str, what: str) -> list[Any]:
    """The elements of a constant operand. Raises InputError where it is computed."""
    if not isinstance(operand, tvm.ir.GenericConst):
        raise InputError(f"{operator}: its {what} depends on the values of the input: tapml needs a constant")
    return list(operand.value.numpy().reshape(-1).tolist())


def text(value: Any) -> str:
    """An attribute's text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def zero(dtype: Any) -> Any:
    return tirx.const(0, str(dtype))


def within(place: Any, extent: Any) -> Any:
    """The nearest place from 0 to `extent` - 1."""
    return tirx.max(tirx.min(place, extent - 1), 0)
