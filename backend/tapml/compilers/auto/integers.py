"""Integer expressions of WGSL whose parts are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max, "i32": int, "u32": int}

_OF_OTHERS = frozenset(["&", "|", "^", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "!", "[", "]"])
"""Tokens that make what they stand in no integer that can be told."""

Integer = float | str | tuple["str | Integer", ...]
"""A number, the name of a variable, or what is done with which integers."""


def value_of(tokens: Sequence[str], values: Mapping[str, float]) -> float | None:
    """What they are, by what variables are known to be; None where that cannot be told. A member of a structure, such
    as a uniform's, is known by its own name."""
    return value_in(integer_of(tokens), values)


def integer_of(tokens: Sequence[str]) -> Integer | None:
    """What they say, to be asked for its value again and again; None for what is no integer that can be told."""
    if not _OF_OTHERS.isdisjoint(tokens):
        return None
    reader = _Reader(tokens)
    try:
        found = reader.sum(0)
    except _Unknown:
        return None
    return found if reader.at == len(tokens) else None


def value_in(found: Integer | None, values: Mapping[str, float]) -> float | None:
    """Its value, by what variables are known to be; None where that cannot be told."""
    if isinstance(found, float) or found is None:
        return found
    if isinstance(found, str):
        return values.get(found)
    operation, *operands = found
    given = []
    for operand in operands:
        value = value_in(operand, values)
        if value is None:
            return None
        given.append(value)
    if operation in _FUNCTIONS:
        return float(_FUNCTIONS[str(operation)](*given))
    left, right = given
    if operation in ("/", "%") and not right:
        return None
    if operation == "/":
        return float(int(left / right))
    if operation == "%":
        return left - right * int(left / right)
    return left + right if operation == "+" else left - right if operation == "-" else left * right


class _Unknown(Exception):
    pass


class _Reader:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self.at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self.at] if self.at < len(self._tokens) else ""

    def sum(self, strength: int) -> Integer:
        """Operations that bind more than `strength`."""
        found = self._operand()
        while _STRENGTH.get(self._next, 0) > strength:
            operation = self._next
            self.at += 1
            found = operation, found, self.sum(_STRENGTH[operation])
        return found

    def _operand(self) -> Integer:
        token = self._next
        self.at += 1
        if token == "-":
            return "-", 0.0, self._operand()
        if token == "(":
            found = self.sum(0)
            self._skip(")")
            return found
        digits = token.rstrip("iu")
        if digits.isdigit():
            return float(digits)
        if token in _FUNCTIONS and self._next == "(":
            self.at += 1
            given = [self.sum(0)]
            while self._next == ",":
                self.at += 1
                given.append(self.sum(0))
            self._skip(")")
            if len(given) != (1 if token in ("i32", "u32") else 2):
                raise _Unknown
            return token, *given
        while self._next == ".":
            token = self._tokens[self.at + 1] if self.at + 1 < len(self._tokens) else ""
            self.at += 2
        if not token.isidentifier():
            raise _Unknown
        return token

    def _skip(self, token: str) -> None:
        if self._next != token:
            raise _Unknown
        self.at += 1
