"""Statements of WGSL, as what is counted in them is read off: each is taken apart once, in however many texts it
stands."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tapml.compilers.auto.integers import Integer, integer_of
from tapml.kernels.wgsl_module import NotUnderstood

VECTOR = re.compile(r"vec([234]) ?< ?(\w+) ?>")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")

_SIGNS = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&&", "||"]
_TRIGONOMETRIC = ["sin", "cos", "tan", "tanh", "atan", "asin", "acos", "sinh", "cosh"]
_SLOW = ["exp", "exp2", "log", "log2", "pow", "sqrt", "inverseSqrt", *_TRIGONOMETRIC]
FAST = ["fma", "select", "max", "min", "abs", "floor"]
_TYPES = ["f32", "f16", "i32", "u32", "bool", "vec2", "vec3", "vec4"]
_WORTH_KNOWING = 3
"""Tokens in brackets that may have been computed before."""

Tokens = tuple[str, ...]

_What = Literal["sign", "open", "close", "type", "slow", "fast", "dot", "matrix", "name", ""]


class _Kinds(dict[str, _What]):
    """Of tokens."""

    def __missing__(self, token: str) -> _What:
        made: _What = "matrix" if token.startswith("subgroupMatrix") else "name" if token.isidentifier() else ""
        self[token] = made
        return made


_KINDS = _Kinds(
    {
        **dict.fromkeys(_SIGNS, "sign"),
        **dict.fromkeys("([", "open"),
        **dict.fromkeys(")]", "close"),
        **dict.fromkeys(_TYPES, "type"),
        **dict.fromkeys(_SLOW, "slow"),
        **dict.fromkeys(FAST, "fast"),
        "dot": "dot",
    }
)


class _Form(dict[str, str]):
    """Tokens, and 0 for all numbers."""

    def __missing__(self, token: str) -> str:
        self[token] = made = "0" if token[0].isdigit() else token
        return made


_FORM = _Form()


@dataclass(slots=True)
class Index:
    """An element of what has this name."""

    name: str


@dataclass(slots=True)
class Call:
    """Of a function; `what` it is, where the text has none of that name."""

    name: str
    what: _What


@dataclass(slots=True)
class Bracket:
    """What stands in brackets, between these places."""

    of_index: bool
    begin: int
    end: int
    signs: int
    parts: tuple[Part, ...]

    @property
    def worth_knowing(self) -> bool:
        """Whether it may have been computed before."""
        return self.end - self.begin >= _WORTH_KNOWING


Part = Index | Call | Bracket


@dataclass(slots=True)
class Expression:
    """Of all tokens that differ in nothing but numbers. `signs`: operators, each of one operation; `parts`: what
    else counts, in its order. The widest vector that is not taken apart is told by names that stand alone, and by
    those with an index, each with whether a component is taken of that."""

    signs: int
    parts: tuple[Part, ...]
    alone: Tokens
    indexed: tuple[tuple[str, bool], ...]


@dataclass(slots=True)
class Declared:
    """`width`: of a vector that its type names, else 1. `given`: whether it has a value; `integer`: that, of a
    constant. `common`: whether the value is nothing new if it was computed before (of TVM's common subexpressions)."""

    name: str
    width: int
    given: bool
    integer: Integer | None
    common: bool


@dataclass(slots=True)
class Statement:
    """`tokens`: those of its `expression`; `declared`: of a declaration, whose value that is; `waits`: whether it is
    a barrier; `blocks`: whether there is a block in it, behind which it may go on."""

    tokens: Tokens
    expression: Expression
    declared: Declared | None = None
    waits: bool = False
    blocks: bool = False
    plain: int = 0
    """Operations, where it does nothing else that counts: as most statements of loops that are written out. They are
    so many wherever nothing of it is a vector, and no function of the text is called as one of WGSL."""


@dataclass(slots=True)
class Loop:
    """From `begin` to `limit`, and that as well where it is `inclusive`; `step`: "one", or the sign by which `by`
    changes the variable."""

    name: str
    begin: Integer | None
    limit: Integer | None
    inclusive: bool
    step: str
    by: Integer | None


@functools.lru_cache(maxsize=32768)
def statement_of(tokens: Tokens) -> Statement:
    """Of the tokens before its semicolon. Raises NotUnderstood where a bracket is not closed."""
    first = tokens[0] if tokens else ""
    blocks = "{" in tokens
    if first in ("var", "let", "const"):
        equals = _equals(tokens)
        value = tokens[equals + 1 :]
        declared = Declared(
            tokens[1],
            _vector_width("".join(tokens[3:equals])) if equals > 3 else 1,
            equals < len(tokens),
            integer_of(value) if first != "var" else None,
            "cse" in tokens[1],
        )
        return Statement(value, expression_of(value), declared, False, blocks)
    if "Barrier" in first or first == "workgroupUniformLoad":
        return Statement((), Expression(0, (), (), ()), None, True, blocks)
    expression = expression_of(tokens)
    fast = sum(isinstance(part, Call) and part.what == "fast" for part in expression.parts)
    plain = fast == len(expression.parts) and not expression.indexed
    return Statement(tokens, expression, None, False, blocks, expression.signs + fast if plain else 0)


def expression_of(tokens: Tokens) -> Expression:
    """Raises NotUnderstood where a bracket is not closed."""
    return _of_form(tuple(map(_FORM.__getitem__, tokens)))


@functools.lru_cache(maxsize=4096)
def _of_form(tokens: Tokens) -> Expression:
    signs, parts = 0, list[Part]()
    outer: list[tuple[int, list[Part], int]] = []
    alone, indexed = dict[str, None](), dict[tuple[str, bool], None]()
    within = 0
    """Brackets of indices around."""
    behind = (*tokens[1:], "")
    for at, (token, what) in enumerate(zip(tokens, map(_KINDS.__getitem__, tokens), strict=True)):
        if not what or what == "type":
            continue
        if what == "sign":
            signs += 1
        elif what == "open":
            outer.append((signs, parts, at))
            signs, parts = 0, []
            within += token == "["
        elif what == "close":
            if not outer:
                continue
            before, around, begin = outer.pop()
            of_index = tokens[begin] == "["
            within -= of_index
            if of_index and not within and begin and _KINDS[tokens[begin - 1]] == "name":
                indexed[tokens[begin - 1], behind[at] == "."] = None
            # It does not matter whether what counts nothing is known.
            if signs or parts:
                around.append(Bracket(of_index, begin + 1, at, signs, tuple(parts)))
            signs, parts = before, around
        else:
            after = behind[at]
            if after == "[":
                parts.append(Index(token))
                continue
            if after == "(" or (after == "<" and what == "matrix"):
                parts.append(Call(token, what))
            if after != "." and not within:
                alone[token] = None
    if outer:
        raise NotUnderstood("a bracket is not closed")
    return Expression(signs, tuple(parts), tuple(alone), tuple(indexed))


def _vector_width(kind: str) -> int:
    """How many elements a type of vectors has; 1 for any other."""
    found = VECTOR.match(kind)
    return 1 if found is None else int(found[1])


def closing(texts: Sequence[str], at: int) -> int:
    """The place of the bracket that closes the one there. Raises NotUnderstood where none does."""
    depth = 0
    for place in range(at, len(texts)):
        if texts[place] in _OPENING:
            depth += 1
        elif texts[place] in _CLOSING:
            depth -= 1
            if not depth:
                return place
    raise NotUnderstood("a bracket is not closed")


def _equals(tokens: Tokens) -> int:
    """The place of the sign outside of brackets; the end where there is none."""
    at = 0
    while at < len(tokens) and tokens[at] != "=":
        at = closing(tokens, at) + 1 if tokens[at] in _OPENING else at + 1
    return at


@functools.lru_cache(maxsize=4096)
def loop_of(tokens: Tokens) -> Loop | None:
    """Of the tokens in the brackets behind `for`, `var x = A; x < B; x += C`; None for a variable that is not given."""
    begun, condition, step = _split(tokens)
    if "=" not in begun or len(begun) < 2:
        return None
    name = begun[1] if begun[0] in ("var", "let") else begun[0]
    begin = integer_of(begun[begun.index("=") + 1 :])
    compared = next((place for place, one in enumerate(condition) if one in ("<", "<=", ">", ">=")), None)
    if compared is None or condition[0] != name:
        return Loop(name, begin, None, False, "", None)
    limit, inclusive = integer_of(condition[compared + 1 :]), "=" in condition[compared]
    by_one = "++" in step or "--" in step
    sign = "one" if by_one else step[1] if len(step) > 1 else ""
    return Loop(name, begin, limit, inclusive, sign, None if by_one else integer_of(step[2:]))


def _split(tokens: Tokens) -> tuple[Tokens, Tokens, Tokens]:
    """At the two semicolons."""
    semicolons = [place for place, token in enumerate(tokens) if token == ";"]
    first, second = (*semicolons, len(tokens), len(tokens))[:2]
    return tokens[:first], tokens[first + 1 : second], tokens[second + 1 :]
