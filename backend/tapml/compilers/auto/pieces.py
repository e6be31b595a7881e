"""What stands between two braces of a kernel's text: its tokens, and the statements that it begins with."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tapml.compilers.auto.statements import Statement, Tokens, statement_of
from tapml.kernels.wgsl_tokens import token_texts

COMPOUND = frozenset(["for", "while", "if", "loop", "else", "switch"])
"""What statements begin with that have blocks."""


@dataclass(slots=True)
class Run:
    """Statements that follow each other. `plain`: operations of all of them, where each is `plain` (Statement), and
    `alone` what none of which is a vector then."""

    statements: Sequence[Statement]
    plain: int
    alone: frozenset[str]


class Piece:
    """`declared`: places of what declares a function, or a variable of a space."""

    def __init__(self, wgsl: str) -> None:
        self.tokens: Tokens = tuple(token_texts(wgsl) or ())
        functions = _places("fn", self.tokens)
        variables = (place for place in _places("var", self.tokens) if self.tokens[place + 1 : place + 2] == ("<",))
        self.declared = sorted((*functions, *variables))

    @functools.cached_property
    def runs(self) -> tuple[Sequence[Run], int]:
        """Its statements before the first that has a block, and where those end. Raises NotUnderstood where a bracket
        is not closed."""
        statements, end = list[Statement](), 0
        for semicolon in _places(";", self.tokens):
            if self.tokens[end] in COMPOUND:
                break
            statements.append(statement_of(self.tokens[end:semicolon]))
            end = semicolon + 1
        return [*_runs(statements)], end


@functools.lru_cache(maxsize=2048)
def piece_of(wgsl: str) -> Piece:
    """Of a text without comments and braces."""
    return Piece(wgsl)


def _places(wanted: str, tokens: Tokens) -> Iterator[int]:
    """Where this token stands."""
    place = -1
    with contextlib.suppress(ValueError):
        while True:
            yield (place := tokens.index(wanted, place + 1))


def _runs(statements: Sequence[Statement]) -> Iterator[Run]:
    for plain, group in groupby(statements, lambda one: one.plain > 0):
        run = [*group]
        alone = frozenset(name for one in run for name in one.expression.alone) if plain else frozenset[str]()
        yield Run(run, sum(one.plain for one in run), alone)
