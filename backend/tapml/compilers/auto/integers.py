"""Integer expressions of WGSL whose parts are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max, "i32": int, "u32": int}


def value_of(tokens: Sequence[str], values: Mapping[str, float]) -> float | None:
    """What they are, by what variables are known to be; None where that cannot be told. A member of a structure, such
    as a uniform's, is known by its own name."""
    reader = _Reader(tokens, values)
    try:
        found = reader.sum(0)
    except _Unknown:
        return None
    return found if reader.at == len(tokens) else None


class _Unknown(Exception):
    pass


class _Reader:
    def __init__(self, tokens: Sequence[str], values: Mapping[str, float]) -> None:
        self._tokens, self._values = tokens, values
        self.at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self.at] if self.at < len(self._tokens) else ""

    def sum(self, strength: int) -> float:
        """Operations that bind more than `strength`."""
        found = self._operand()
        while _STRENGTH.get(self._next, 0) > strength:
            operation = self._next
            self.at += 1
            other = self.sum(_STRENGTH[operation])
            found = self._done(operation, found, other)
        return found

    def _done(self, operation: str, left: float, right: float) -> float:
        if operation in ("/", "%") and not right:
            raise _Unknown
        if operation == "/":
            return float(int(left / right))
        if operation == "%":
            return left - right * int(left / right)
        return left + right if operation == "+" else left - right if operation == "-" else left * right

    def _operand(self) -> float:
        token = self._next
        self.at += 1
        if token == "-":
            return -self._operand()
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
            if len(given) != 2 and token not in ("i32", "u32"):
                raise _Unknown
            return float(_FUNCTIONS[token](*given))
        while self._next == ".":
            token = self._tokens[self.at + 1] if self.at + 1 < len(self._tokens) else ""
            self.at += 2
        found_value = self._values.get(token)
        if found_value is None:
            raise _Unknown
        return found_value

    def _skip(self, token: str) -> None:
        if self._next != token:
            raise _Unknown
        self.at += 1
