"""Sizes as integer expressions over symbols (docs/suite-format.md, "Expressions").

An expression is data: an integer, a symbol's name, or `[operation, a, b]`. Values are exact integers of at most
2^53 - 1, so that Python and TypeScript (runner_js/src/program/expressions.ts) agree; tests/vectors/expressions.json
holds both to the same values and sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import TypeAliasType

from tapml.first_error import FirstErrorModel

MOST = 2**53 - 1
"""The largest integer, and with a minus the least, that JavaScript's numbers hold exactly."""

MOST_DEPTH = 32
MOST_OPERATIONS = 256

_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
_NAMED = re.compile(_NAME)

_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "ceildiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}
_DIVISIONS = ("floordiv", "floormod", "ceildiv")
_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2)}
_KINDS = {"NoneType": "null", "bool": "a boolean", "float": "a number", "str": "a text", "dict": "an object"}
_FORM = (
    "give an integer, a symbol's name, or [operation, a, b] with the operation add, sub, mul, floordiv, floormod, "
    "ceildiv, min or max"
)


class ExpressionError(ValueError):
    """An expression that is none, or has no value for the sizes given; who knows the file makes it an InputError."""


def checked(expression: Any) -> Any:
    """`expression`, which is well-formed. Raises ExpressionError."""
    operations = 0

    def visit(found: Any, depth: int) -> None:
        nonlocal operations
        if depth > MOST_DEPTH:
            raise ExpressionError(f"an expression is at most {MOST_DEPTH} levels deep")
        if isinstance(found, int) and not isinstance(found, bool):
            if abs(found) > MOST:
                raise ExpressionError("an integer in an expression is beyond 2^53 - 1")
        elif isinstance(found, list | tuple):
            if len(found) != 3 or not isinstance(found[0], str) or found[0] not in _OPERATIONS:
                raise ExpressionError(f"a list of {len(found)} is no expression: {_FORM}")
            operations += 1
            if operations > MOST_OPERATIONS:
                raise ExpressionError(f"an expression has at most {MOST_OPERATIONS} operations")
            visit(found[1], depth + 1)
            visit(found[2], depth + 1)
        elif not isinstance(found, str) or not _NAMED.fullmatch(found):
            raise ExpressionError(f"{_KINDS.get(type(found).__name__, 'this')} is no expression: {_FORM}")

    visit(expression, 1)
    return expression


Expression = TypeAliasType("Expression", "int | str | list[Expression]")
"""An integer, a symbol's name, or [operation, a, b]; operations are add, sub, mul, floordiv, floormod, ceildiv, min and
max."""

CheckedExpression = Annotated[Expression, BeforeValidator(checked)]

SymbolName = Annotated[str, Field(pattern=_NAME)]

Sizes = TypeAliasType("Sizes", Annotated[dict[SymbolName, Annotated[int, Field(ge=0, le=MOST)]], Field(max_length=100)])
"""Symbol -> its value at one call."""


class Symbol(FirstErrorModel):
    """A size that is known at a call."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    name: SymbolName
    minimum: Annotated[int, Field(ge=0, le=MOST)]
    maximum: Annotated[int, Field(ge=0, le=MOST)]
    """Inclusive, as `minimum` is."""

    @model_validator(mode="after")
    def _in_order(self) -> Symbol:
        if self.minimum > self.maximum:
            raise ValueError(f"the minimum of {self.name}, {self.minimum}, is above its maximum, {self.maximum}")
        return self


def symbols_of(expression: Any) -> list[str]:
    """Names of the symbols in a well-formed expression, each once, from left to right."""
    if isinstance(expression, str):
        return [expression]
    if isinstance(expression, int):
        return []
    return list(dict.fromkeys(name for operand in expression[1:] for name in symbols_of(operand)))


def substituted(expression: Any, values: Mapping[str, Any]) -> Any:
    """The expression with expressions in place of symbols; what has no symbols any more is its value.

    Raises ExpressionError for a symbol without one, and where the value is nothing that can be.
    """
    if isinstance(expression, str):
        if expression not in values:
            raise ExpressionError(f"unknown symbol {expression}")
        return values[expression]
    if not isinstance(expression, list):
        return expression
    found = [expression[0], *(substituted(operand, values) for operand in expression[1:])]
    return found if symbols_of(found) else evaluate(found, {})


def printed(expression: Any) -> str:
    """A well-formed expression for people: `ceildiv(n, 64) * 12`."""
    return _printed(expression, 0)


def _printed(expression: Any, strength: int) -> str:
    if not isinstance(expression, list | tuple):
        return f"({expression})" if strength and isinstance(expression, int) and expression < 0 else str(expression)
    operation, a, b = expression
    if operation not in _INFIX:
        return f"{operation}({printed(a)}, {printed(b)})"
    sign, own = _INFIX[operation]
    # The left operand of an equally strong operation needs no parentheses.
    text = f"{_printed(a, own - 1)} {sign} {_printed(b, own)}"
    return f"({text})" if own <= strength else text


def evaluate(expression: Any, sizes: Mapping[str, int]) -> int:
    """The value for `sizes`, exactly.

    Raises ExpressionError for what is no expression, a symbol that `sizes` does not have, a division by zero, and a
    value, also in between, that is beyond 2^53 - 1.
    """
    return _value(checked(expression), sizes)


def _value(expression: Any, sizes: Mapping[str, int]) -> int:
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        if expression not in sizes:
            raise ExpressionError(f"there is no symbol {expression} here: {_listed(sizes)}")
        return sizes[expression]
    operation, a, b = expression
    left, right = _value(a, sizes), _value(b, sizes)
    if operation in _DIVISIONS and right == 0:
        raise ExpressionError(f"{printed(expression)} divides by zero{_where(expression, sizes)}")
    found = _OPERATIONS[operation](left, right)
    if abs(found) > MOST:
        raise ExpressionError(f"{printed(expression)} is beyond 2^53 - 1{_where(expression, sizes)}")
    return found


def extent(expression: Any, sizes: Mapping[str, int], what: str, least: int = 0, most: int = MOST) -> int:
    """The value of what counts something, at least `least` and at most `most`; `what` it counts begins each error.

    Raises ExpressionError.
    """
    try:
        found = evaluate(expression, sizes)
    except ExpressionError as error:
        raise ExpressionError(f"{what}: {error}") from None
    if least <= found <= most:
        return found
    bound = f"at least {least}" if found < least else f"at most {most}"
    is_found = str(found) if isinstance(expression, int) else f"{printed(expression)} is {found}"
    raise ExpressionError(f"{what}: {is_found}{_where(expression, sizes)}, and must be {bound}")


def check_symbols(symbols: Iterable[Symbol], expressions: Iterable[tuple[str, Any]]) -> None:
    """Raise ExpressionError naming the first of `expressions`, each with where it stands, that has another symbol, or
    is none."""
    known = [symbol.name for symbol in symbols]
    for where, expression in expressions:
        try:
            unknown = [name for name in symbols_of(checked(expression)) if name not in known]
        except ExpressionError as error:
            raise ExpressionError(f"{where}: {error}") from None
        if unknown:
            raise ExpressionError(f"{where}: there is no symbol {unknown[0]} here: {_listed(known)}")


def check_sizes(symbols: Sequence[Symbol], sizes: Mapping[str, int]) -> None:
    """Raise ExpressionError unless `sizes` has each of `symbols`, in its range, and no other."""
    for symbol in symbols:
        if symbol.name not in sizes:
            raise ExpressionError(f"no size is given for {symbol.name} ({symbol.minimum} to {symbol.maximum})")
        if not symbol.minimum <= sizes[symbol.name] <= symbol.maximum:
            raise ExpressionError(
                f"{symbol.name} is {sizes[symbol.name]}, and must be from {symbol.minimum} to {symbol.maximum}"
            )
    known = [symbol.name for symbol in symbols]
    for name in sizes:
        if name not in known:
            raise ExpressionError(f"a size is given for {name}, and there is no symbol {name} here: {_listed(known)}")


def _listed(names: Collection[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are none"


def _where(expression: Any, sizes: Mapping[str, int]) -> str:
    values = ", ".join(f"{name} = {sizes[name]}" for name in symbols_of(expression))
    return f" where {values}" if values else ""
