"""Lines of a kernel's text: blocks, names, and which expressions have one in which of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapml.compilers.native.names import Names
from tapml.compilers.native.stages import Numbering
from tapml.compilers.native.words import bare
from tapml.operators.program import Expression


class Lines:
    """What is written goes into `lines`, one block within another."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lines: list[str] = []
        self._depth = 1
        self._scopes: list[dict[tuple[int, Any], str]] = [{}]
        self._numbers = Numbering()

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Lines between `head` and `tail`, with names of their own."""
        self.line(head)
        with self.scope():
            yield
        self.line(tail)

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._depth += 1
        self._scopes.append({})
        yield
        self._scopes.pop()
        self._depth -= 1

    def let(self, wanted: str, text: str) -> str:
        name = self.names(wanted)
        self.line(f"let {name} = {bare(text)};")
        return name

    def give(self, found: Expression, text: str, lanes: Any = None) -> None:
        """From here on in this scope an expression (and all equal ones) is this text: `lanes` "all" for vectors."""
        self.remember(self._numbers(found), lanes, text)

    def remember(self, number: int, lanes: Any, text: str) -> None:
        self._scopes[-1][number, lanes] = text

    def known(self, number: int, lanes: Any) -> str | None:
        """The text of the expression of this number, where one was given in this scope or around it."""
        return next((scope[number, lanes] for scope in reversed(self._scopes) if (number, lanes) in scope), None)
