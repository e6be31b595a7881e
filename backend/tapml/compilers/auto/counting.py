"""How often the statements of a kernel's text are run, and what they do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapml.compilers.auto.integers import value_in
from tapml.compilers.auto.kernel_text import KernelText
from tapml.compilers.auto.pieces import COMPOUND, Run
from tapml.compilers.auto.statements import (
    FAST,
    Bracket,
    Call,
    Expression,
    Loop,
    Statement,
    Tokens,
    expression_of,
    loop_of,
    statement_of,
)

_SLOW_COST = 8.0
_MATRIX = 16 * 16 * 16 / 32 / 16
"""Of a product of subgroup matrices: multiplications of an invocation, sixteen of which a device does as one."""
_UNKNOWN_TURNS = 4.0
_MOST_TURNS = 1e6


@dataclass(slots=True)
class Counts:
    """Of one invocation."""

    operations: float = 0.0
    reads: float = 0.0
    bytes: float = 0.0
    shared: float = 0.0
    barriers: float = 0.0

    def add(self, other: Counts, times: float = 1.0) -> None:
        self.operations += times * other.operations
        self.reads += times * other.reads
        self.bytes += times * other.bytes
        self.shared += times * other.shared
        self.barriers += times * other.barriers


class Counting:
    """Counts what functions of a text do, where it is called with these `uniforms`."""

    def __init__(self, text: KernelText, uniforms: Mapping[str, int]) -> None:
        self._text = text
        self._texts, self._blocks, self._pieces = text.texts, text.blocks, text.pieces
        self._widths = dict(text.widths)
        # What an invocation is told of itself is 0 for the first.
        self._first = {**uniforms, **dict.fromkeys((*"xyz", "number", "subgroup", "index", "local"), 0.0)}
        self._done: dict[str, Counts] = {}
        self._given = text.storage.keys() | text.functions.keys()
        self._as_wgsl = text.functions.keys().isdisjoint(FAST)

    def function(self, name: str) -> Counts:
        """Raises KeyError, IndexError or ValueError for a text that is none, NotUnderstood where a bracket is not
        closed."""
        if name not in self._done:
            self._done[name] = Counts()  # WGSL has no recursion
            opened = self._text.functions[name]
            self._done[name] = self._block(opened + 1, self._blocks[opened], dict(self._first), set())
        return self._done[name]

    # ------------------------------------------------ statements

    def _block(self, start: int, end: int, values: dict[str, float], seen: set[Tokens]) -> Counts:
        """Statements. `values`: what variables are known to be; `seen`: expressions that have been computed there."""
        found = Counts()
        texts, at = self._texts, start
        while at < end:
            text = texts[at]
            if (piece := self._pieces.get(at)) is not None and (runs := piece.runs)[1]:
                self._runs(runs[0], values, seen, found)
                at += runs[1]
            elif text == "{":
                closed = self._blocks[at]
                found.add(self._block(at + 1, closed, values, seen))
                at = closed + 1
            elif text in COMPOUND:
                at = self._compound(text, at, values, seen, found)
            else:
                finish = self._semicolon(at, end)
                statement = statement_of(texts[at:finish])
                if statement.blocks:
                    finish = self._behind_blocks(at, end)
                    statement = statement_of(texts[at:finish])
                self._statement(statement, values, seen, found)
                at = finish + 1
        return found

    def _runs(self, runs: Sequence[Run], values: dict[str, float], seen: set[Tokens], found: Counts) -> None:
        scalars = self._widths.keys().isdisjoint
        for run in runs:
            if run.plain and self._as_wgsl and scalars(run.alone):
                found.operations += run.plain
            else:
                for statement in run.statements:
                    self._statement(statement, values, seen, found)

    def _semicolon(self, at: int, end: int) -> int:
        """The first one; `end` where there is none."""
        try:
            return self._texts.index(";", at, end)
        except ValueError:
            return end

    def _behind_blocks(self, at: int, end: int) -> int:
        """The first semicolon that is in no block."""
        while at < end and self._texts[at] != ";":
            at = self._blocks[at] + 1 if self._texts[at] == "{" else at + 1
        return at

    def _compound(self, text: str, at: int, values: dict[str, float], seen: set[Tokens], found: Counts) -> int:
        texts = self._texts
        opened = at + 1
        if text == "else" and texts[opened] == "if":
            return opened
        head_end = opened
        if text in ("for", "while", "if", "switch"):
            head_end = texts.index("{", opened)
        closed = self._blocks[head_end]
        times = 1.0
        inner = dict(values)
        if text == "for":
            times = _turns(loop_of(texts[opened + 1 : head_end - 1]), inner)
            found.operations += 2 * times
            body = self._block(head_end + 1, closed, inner, set())
        elif text in ("if", "switch"):
            head = texts[opened:head_end]
            self._expression(head, expression_of(head), 1, seen, found)
            leaves = texts[head_end + 1] in ("return", "continue", "break")
            body = Counts() if leaves else self._block(head_end + 1, closed, inner, set(seen))
        else:
            body = self._block(head_end + 1, closed, inner, set(seen))
        found.add(body, times)
        return closed + 1

    def _statement(self, statement: Statement, values: dict[str, float], seen: set[Tokens], found: Counts) -> None:
        if statement.waits:
            found.barriers += 1
            return
        declared, expression = statement.declared, statement.expression
        if declared is None:
            self._expression(statement.tokens, expression, self._width(expression), seen, found)
            return
        width = declared.width if declared.width > 1 else self._width(expression)
        if width > 1:
            self._widths[declared.name] = width
        if not declared.given:
            return
        if declared.integer is not None and (value := value_in(declared.integer, values)) is not None:
            values[declared.name] = value
        if not declared.common or statement.tokens not in seen:
            self._expression(statement.tokens, expression, width, seen, found)

    # ------------------------------------------------ expressions

    def _width(self, expression: Expression) -> int:
        """Of the widest vector in it that is not taken apart."""
        widths, widest = self._widths, 1
        for name in expression.alone:
            if name in widths and widths[name] > widest:
                widest = widths[name]
        for name, component in expression.indexed:
            if name in self._text.storage:
                width = 1 if component else self._text.storage[name][0]
            elif name in self._text.shared:
                width = self._text.shared[name]
            else:
                width = widths.get(name, 1)
            if width > widest:
                widest = width
        return widest

    def _expression(
        self, tokens: Tokens, inside: Expression | Bracket, width: int, seen: set[Tokens], found: Counts
    ) -> None:
        """What is `inside` of the tokens. `seen`: what stands in brackets there already counts no more."""
        found.operations += inside.signs * width
        for part in inside.parts:
            if isinstance(part, Bracket):
                if not part.worth_knowing or not self._again(tokens[part.begin : part.end], seen):
                    self._expression(tokens, part, 1 if part.of_index else width, seen, found)
            elif isinstance(part, Call):
                self._call(part, width, found)
            elif part.name in self._text.storage:
                found.reads += 1
                found.bytes += self._text.storage[part.name][1]
            elif part.name in self._text.shared:
                found.shared += 1

    def _call(self, call: Call, width: int, found: Counts) -> None:
        if call.name in self._text.functions:
            found.add(self.function(call.name))
        elif call.what == "fast":
            found.operations += width
        elif call.what == "slow":
            found.operations += _SLOW_COST * width
        elif call.what == "dot":
            found.operations += max(width, 4)
        elif call.what == "matrix":
            found.operations += _MATRIX

    def _again(self, tokens: Tokens, seen: set[Tokens]) -> bool:
        """Whether this has been computed: then its value is known, but for what functions and buffers give."""
        before = len(seen)
        seen.add(tokens)
        return len(seen) == before and self._given.isdisjoint(tokens)


def _turns(loop: Loop | None, values: dict[str, float]) -> float:
    """Its variable is what it is at first for what is inside."""
    if loop is None:
        return _UNKNOWN_TURNS
    begin = value_in(loop.begin, values)
    values[loop.name] = begin if begin is not None else 0.0
    limit = value_in(loop.limit, values)
    if limit is None or begin is None:
        return _UNKNOWN_TURNS
    distance = abs(limit - begin) + (1 if loop.inclusive else 0)
    if loop.step == "one":
        return min(max(distance, 0.0), _MOST_TURNS)
    by = value_in(loop.by, values)
    if loop.step in ("/=", ">>="):
        base = 2.0 if loop.step == ">>=" else max(by or 2.0, 2.0)
        return math.floor(math.log(max(begin, 1.0), base)) + 1
    if not by:
        return _UNKNOWN_TURNS
    return min(math.ceil(distance / abs(by)), _MOST_TURNS)
