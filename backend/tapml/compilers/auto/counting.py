"""How often the statements of a kernel's text are run, and what they do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tapml.compilers.auto.integers import value_of
from tapml.compilers.auto.kernel_text import KernelText, vector_width

_SIGNS = frozenset(["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&&", "||"])
_TRIGONOMETRIC = ["sin", "cos", "tan", "tanh", "atan", "asin", "acos", "sinh", "cosh"]
_SLOW = frozenset(["exp", "exp2", "log", "log2", "pow", "sqrt", "inverseSqrt", *_TRIGONOMETRIC])
_FAST = frozenset(["fma", "dot", "select", "max", "min", "abs", "floor"])
_SLOW_COST = 8.0
_MATRIX = 16 * 16 * 16 / 32 / 16
"""Of a product of subgroup matrices: multiplications of an invocation, sixteen of which a device does as one."""
_WORTH_KNOWING = 3
"""Tokens in brackets that may have been computed before."""
_UNKNOWN_TURNS = 4.0
_MOST_TURNS = 1e6
_COMPOUND = frozenset(["for", "while", "if", "loop", "else", "switch"])

_What = Literal["bracket", "sign", "storage", "shared", "function", "matrix", "slow", "fast"]


@dataclass
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
        self._texts, self._pairs = text.texts, text.pairs
        self._widths = dict(text.widths)
        # What an invocation is told of itself is 0 for the first.
        self._first = {**uniforms, **dict.fromkeys((*"xyz", "number", "subgroup", "index", "local"), 0.0)}
        self._done: dict[str, Counts] = {}
        self._given = text.storage.keys() | text.functions.keys()
        # Most tokens of an expression count nothing.
        self._what = {one: what for one in {*self._texts} if (what := self._what_is(one)) is not None}

    def _what_is(self, token: str) -> _What | None:
        text = self._text
        kinds: tuple[tuple[_What, bool], ...] = (
            ("bracket", token in ("(", "[")),
            ("sign", token in _SIGNS),
            ("storage", token in text.storage),
            ("shared", token in text.shared),
            ("function", token in text.functions),
            ("matrix", token.startswith("subgroupMatrix")),
            ("slow", token in _SLOW),
            ("fast", token in _FAST),
        )
        return next((what for what, found in kinds if found), None)

    def function(self, name: str) -> Counts:
        """Raises KeyError, IndexError or ValueError for a text that is none."""
        if name not in self._done:
            self._done[name] = Counts()  # WGSL has no recursion
            opened = self._text.functions[name]
            self._done[name] = self._block(opened + 1, self._pairs[opened], dict(self._first), set())
        return self._done[name]

    # ------------------------------------------------ statements

    def _block(self, start: int, end: int, values: dict[str, float], seen: set[str]) -> Counts:
        """Statements. `values`: what variables are known to be; `seen`: expressions that have been computed there."""
        found = Counts()
        texts, at = self._texts, start
        while at < end:
            text = texts[at]
            if text == "{":
                closed = self._pairs[at]
                found.add(self._block(at + 1, closed, values, seen))
                at = closed + 1
            elif text in _COMPOUND:
                at = self._compound(text, at, values, seen, found)
            else:
                finish = self._text.find(";", at, end)
                self._statement(at, finish, values, seen, found)
                at = finish + 1
        return found

    def _compound(self, text: str, at: int, values: dict[str, float], seen: set[str], found: Counts) -> int:
        texts = self._texts
        opened = at + 1
        if text == "else" and texts[opened] == "if":
            return opened
        head_end = opened
        if text in ("for", "while", "if", "switch"):
            if texts[opened] == "(" and texts[self._pairs[opened] + 1] == "{":
                head_end = self._pairs[opened] + 1
            else:
                head_end = texts.index("{", opened)
        closed = self._pairs[head_end]
        times = 1.0
        inner = dict(values)
        if text == "for":
            times = self._turns(opened + 1, head_end - 1, inner)
            found.operations += 2 * times
            body = self._block(head_end + 1, closed, inner, set())
        elif text in ("if", "switch"):
            self._expression(opened, head_end, 1, seen, found)
            leaves = texts[head_end + 1] in ("return", "continue", "break")
            body = Counts() if leaves else self._block(head_end + 1, closed, inner, set(seen))
        else:
            body = self._block(head_end + 1, closed, inner, set(seen))
        found.add(body, times)
        return closed + 1

    def _turns(self, start: int, end: int, values: dict[str, float]) -> float:
        """Of `for (var x = A; x < B; x += C)`: x is what it is at first for what is inside."""
        texts = self._texts
        first = self._text.find(";", start, end)
        second = self._text.find(";", first + 1, end)
        begun = texts[start:first]
        if "=" not in begun or len(begun) < 2:
            return _UNKNOWN_TURNS
        name = begun[1] if begun[0] in ("var", "let") else begun[0]
        begin = value_of(begun[begun.index("=") + 1 :], values)
        values[name] = begin if begin is not None else 0.0
        condition = texts[first + 1 : second]
        compared = next((place for place, one in enumerate(condition) if one in ("<", "<=", ">", ">=")), None)
        if compared is None or condition[0] != name:
            return _UNKNOWN_TURNS
        limit = value_of(condition[compared + 1 :], values)
        step = texts[second + 1 : end]
        if limit is None or begin is None:
            return _UNKNOWN_TURNS
        distance = abs(limit - begin) + (1 if "=" in condition[compared] else 0)
        if "++" in step or "--" in step:
            return min(max(distance, 0.0), _MOST_TURNS)
        by = value_of(step[2:], values)
        if len(step) > 1 and step[1] in ("/=", ">>="):
            base = 2.0 if step[1] == ">>=" else max(by or 2.0, 2.0)
            return math.floor(math.log(max(begin, 1.0), base)) + 1
        if not by:
            return _UNKNOWN_TURNS
        return min(math.ceil(distance / abs(by)), _MOST_TURNS)

    def _statement(self, at: int, end: int, values: dict[str, float], seen: set[str], found: Counts) -> None:
        texts = self._texts
        first = texts[at]
        if first in ("var", "let", "const"):
            self._declaration(at, end, values, seen, found)
        elif "Barrier" in first or first == "workgroupUniformLoad":
            found.barriers += 1
        else:
            self._expression(at, end, self._width(at, end), seen, found)

    def _declaration(self, at: int, end: int, values: dict[str, float], seen: set[str], found: Counts) -> None:
        texts = self._texts
        equals = self._text.find("=", at, end)
        name = texts[at + 1]
        width = vector_width("".join(texts[at + 3 : equals])) if equals > at + 3 else 1
        if width == 1:
            width = self._width(equals, end)
        if width > 1:
            self._widths[name] = width
        if equals >= end:
            return
        if texts[at] != "var" and (value := value_of(texts[equals + 1 : end], values)) is not None:
            values[name] = value
        if "cse" in name and " ".join(texts[equals + 1 : end]) in seen:
            return
        self._expression(equals + 1, end, width, seen, found)

    # ------------------------------------------------ expressions

    def _width(self, start: int, end: int) -> int:
        """Of the widest vector in it that is not taken apart."""
        texts, widths = self._texts, self._widths
        at, widest = start, 1
        while at < end:
            text = texts[at]
            at += 1
            if text == "[":
                at = self._pairs[at - 1] + 1
                continue
            width = widths.get(text, 1)
            what = self._what.get(text)
            if what in ("storage", "shared") and at < end and texts[at] == "[":
                width = self._text.storage[text][0] if what == "storage" else self._text.shared[text]
                if what == "storage":
                    at = self._pairs[at] + 1
            if width > widest and not (at < end and texts[at] == "."):
                widest = width
        return widest

    def _expression(self, start: int, end: int, width: int, seen: set[str], found: Counts) -> None:
        """`seen`: what stands in brackets there already counts no more."""
        texts, kinds, at = self._texts, self._what, start
        while at < end:
            text = texts[at]
            what = kinds.get(text)
            at += 1
            if what is None:
                continue
            if what == "sign":
                found.operations += width
                continue
            if what == "bracket":
                closed = self._pairs[at - 1]
                if closed - at < _WORTH_KNOWING or not self._again(at, closed, seen):
                    self._expression(at, closed, 1 if text == "[" else width, seen, found)
                at = closed + 1
                continue
            after = texts[at] if at < end else ""
            if after == "[":
                if what == "storage":
                    found.reads += 1
                    found.bytes += self._text.storage[text][1]
                elif what == "shared":
                    found.shared += 1
            elif what == "matrix" and after in ("(", "<"):
                found.operations += _MATRIX
            elif after == "(":
                if what == "function":
                    found.add(self.function(text))
                elif what == "slow":
                    found.operations += _SLOW_COST * width
                elif what == "fast":
                    found.operations += max(width, 4 if text == "dot" else 1)

    def _again(self, start: int, end: int, seen: set[str]) -> bool:
        """Whether this has been computed: then its value is known, but for what functions and buffers give."""
        inside = self._texts[start:end]
        key = " ".join(inside)
        if key not in seen:
            seen.add(key)
            return False
        return self._given.isdisjoint(inside)
