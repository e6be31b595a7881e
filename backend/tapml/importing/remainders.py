"""Divisions that round down, and remainders, with the signs that they are to have.

A quotient of integers that rounds towards zero and its remainder are all that every platform has alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx, topi

from tapml.importing.scatter import own_place

_Element = Callable[[Any, Any], Any]


def _fmod(a: Any, b: Any) -> Any:
    """With the sign of a."""
    return tirx.Mod(a, b)


def _mod(a: Any, b: Any) -> Any:
    """With the sign of b, as Python's."""
    if "float" not in str(a.ty.dtype):
        rest = tirx.Mod(a, b)
        return rest if str(a.ty.dtype).startswith("u") else tirx.Select(_turned(rest, b), rest + b, rest)
    rest, zero = tirx.Mod(a, b), tirx.const(0.0, str(a.ty.dtype))
    turned = tirx.any(tirx.all(rest < zero, b > zero), tirx.all(rest > zero, b < zero))
    signed = tirx.Select(b < zero, tirx.const(-0.0, str(a.ty.dtype)), zero)
    return tirx.Select(rest == zero, signed, tirx.Select(turned, rest + b, rest))


def _floor_divide(a: Any, b: Any) -> Any:
    if "float" in str(a.ty.dtype):
        return tirx.floor(tirx.Div(a, b))
    quotient, rest = tirx.Div(a, b), tirx.Mod(a, b)
    return quotient if str(a.ty.dtype).startswith("u") else tirx.Select(_turned(rest, b), quotient - 1, quotient)


def _turned(rest: Any, b: Any) -> Any:
    """Whether it has not the sign of b."""
    return tirx.all(rest != 0, tirx.BitwiseXor(rest, b) < 0)


DIVISIONS: dict[str, _Element] = {"relax.mod": _fmod, "relax.floor_mod": _mod, "relax.floor_divide": _floor_divide}
"""By Relax's names."""


def divided(a: Any, b: Any, name: str) -> Any:
    """`a` and `b` broadcast."""
    shape = topi.add(a, b).shape

    def element(*at: Any) -> Any:
        return DIVISIONS[name](a(*own_place(a, at)), b(*own_place(b, at)))

    return te.compute(shape, element, name=name.removeprefix("relax."))
