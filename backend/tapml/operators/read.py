"""Reading programs from JSON (tapml.operator/2, docs/suite-format.md).

What is read may come from a stranger: every field is checked, nothing is evaluated, and what comes back is a program
of right types and limited size. Whether it stays inside its buffers is guard.py's to see to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tapml.errors import InputError
from tapml.expressions import ExpressionError, extent
from tapml.formats import REMEDY, format_version, validated
from tapml.operators import types
from tapml.operators.document import FORMAT, Json
from tapml.operators.external import FORMAT as EXTERNAL_FORMAT
from tapml.operators.external import External
from tapml.operators.program import (
    ANNOTATIONS,
    DTYPES,
    INTEGERS,
    LONGEST_NAME,
    Axis,
    Block,
    Buffer,
    Expression,
    Let,
    Loop,
    OperatorProgram,
    Store,
    integer,
)
from tapml.operators.types import Wrong
from tapml.program import TensorType

MOST_EXPRESSIONS = 100_000
DEEPEST = 64
MOST_PARTS = 4096
"""Parameters, temporaries, blocks, and loops, statements and dimensions of one of them."""
MOST_TURNS = 2**38
"""Of all loops of a program together."""
MOST_TEMPORARY_BYTES = 2**31
_MOST_ELEMENTS = 2**40


def from_json(document: Json, operator: str, where: str, sizes: Mapping[str, int] | None = None) -> OperatorProgram:
    """The program of `operator` for the sizes of a call; `where` names the file in errors. Raises InputError."""
    format_version(Path(where), document, FORMAT, "a program")
    try:
        return _Reader(document, sizes or {}).program(operator)
    except Wrong as error:
        raise InputError(f"{where} holds no program that tapml would run: {error}; carve the suite again") from error


def read_document(
    document: Json, operator: str, where: str, sizes: Mapping[str, int] | None = None
) -> OperatorProgram | External:
    """As `from_json`, or who computes the operator where it has no program."""
    found = document.get("format") if isinstance(document, dict) else None
    if not str(found).startswith("tapml.external/"):
        return from_json(document, operator, where, sizes)
    format_version(where, document, EXTERNAL_FORMAT, "an operator's implementation")
    return validated(where, External, document, REMEDY)


class _Reader:
    def __init__(self, document: Json, sizes: Mapping[str, int]) -> None:
        self._document = document
        self._sizes: dict[str, int] = {}
        """Of the symbols that it declares."""
        self._given = sizes
        self._buffers: dict[str, Buffer] = {}
        self._variables: dict[str, str] = {}
        """Dtype of every variable: one name means one variable, though several blocks may use it."""
        self._scope: set[str] = set()
        self._expressions = 0

    def program(self, operator: str) -> OperatorProgram:
        document = self._document
        if document.get("operator") != operator:
            raise Wrong(f"it is that of the operator {str(document.get('operator'))[:80]!r}")
        pattern = document.get("pattern")
        if pattern is not None and (type(pattern) is not int or not 0 <= pattern <= 8):
            raise Wrong(f"the pattern {str(pattern)[:40]!r}")
        for symbol in _list(document, "symbols"):
            if _name(symbol) not in self._given:
                raise Wrong(f"its symbol {symbol!r} is none of the model's")
            self._sizes[symbol] = self._given[symbol]
        parameters = tuple(self._buffer(given) for given in _list(document, "parameters"))
        temporaries = tuple(self._buffer(given) for given in _list(document, "temporaries"))
        nbytes = sum(TensorType(buffer.shape, buffer.dtype).nbytes for buffer in temporaries)
        if nbytes > MOST_TEMPORARY_BYTES:
            raise Wrong(f"its temporaries take {nbytes} bytes, more than {MOST_TEMPORARY_BYTES}")
        blocks = []
        for number, given in enumerate(_list(document, "blocks")):
            try:
                blocks.append(self._block(given))
            except Wrong as error:
                raise Wrong(f"block {number}: {error}") from error
        found = OperatorProgram(operator, pattern, parameters, temporaries, tuple(blocks))
        if found.turns > MOST_TURNS:
            raise Wrong(f"its loops make {found.turns} turns, more than {MOST_TURNS}")
        return found

    def _buffer(self, given: Json) -> Buffer:
        if not isinstance(given, dict):
            raise Wrong(f"the buffer {str(given)[:40]!r}")
        name = _name(given.get("name"))
        shape = [self._extent(axis, f"the shape of {name!r}") for axis in _list(given, "shape")]
        if math.prod(shape) > _MOST_ELEMENTS:
            raise Wrong(f"the shape {str(shape)[:80]}")
        buffer = Buffer(name, types.known_dtype(given.get("dtype")), tuple(shape))
        if buffer.name in self._buffers:
            raise Wrong(f"two buffers are called {buffer.name!r}")
        self._buffers[buffer.name] = buffer
        return buffer

    # ------------------------------------------------ statements

    def _block(self, given: Json) -> Block:
        if not isinstance(given, dict):
            raise Wrong("it is no object")
        self._scope = set()
        loops = tuple(self._loop(loop) for loop in _list(given, "loops"))
        axes = tuple(self._axis(axis) for axis in _list(given, "axes"))
        # What is inside the block knows its axes only.
        self._scope -= {loop.variable for loop in loops}
        outside = set(self._scope)
        first = tuple(self._statement(statement) for statement in _list(given, "first"))
        self._scope = outside
        body = tuple(self._statement(statement) for statement in _list(given, "body"))
        if not body:
            raise Wrong("it does nothing")
        return Block(_name(given.get("name")), loops, axes, first, body, _annotations(given))

    def _declare(self, name: Json, dtype: Json) -> tuple[str, str]:
        variable, kind = _name(name), types.known_dtype(dtype)
        if variable in self._scope or variable in self._sizes:
            raise Wrong(f"the variable {variable!r} is there twice")
        if self._variables.setdefault(variable, kind) != kind:
            raise Wrong(f"the variable {variable!r} has two dtypes")
        self._scope.add(variable)
        return variable, kind

    def _loop(self, given: Json) -> Loop:
        name, dtype, extent = _items(given, 3, "loop")
        variable, kind = self._declare(name, dtype)
        return Loop(variable, kind, self._count(extent, kind))

    def _axis(self, given: Json) -> Axis:
        name, dtype, extent, role, value = _items(given, 5, "axis")
        found = self._expression(value)
        variable, kind = self._declare(name, dtype)
        if found.dtype != kind or role not in ("spatial", "reduction"):
            raise Wrong(f"the axis {variable!r} of {kind} with a value of {found.dtype}")
        return Axis(variable, kind, self._count(extent, kind), role == "reduction", found)

    def _count(self, given: Json, dtype: str) -> int:
        if dtype not in ("int32", "int64"):
            raise Wrong(f"an extent of {dtype}")
        return self._extent(given, "an extent", 2**31 - 1 if dtype == "int32" else _MOST_ELEMENTS)

    def _extent(self, given: Json, what: str, most: int = _MOST_ELEMENTS) -> int:
        try:
            return extent(given, self._sizes, what, most=most)
        except ExpressionError as error:
            raise Wrong(str(error)) from error

    def _statement(self, given: Json) -> Store | Let:
        if isinstance(given, list) and given[:1] == ["let"]:
            _, name, value = _items(given, 3, "let")
            found = self._expression(value)
            return Let(self._declare(name, found.dtype)[0], found)
        kind, name, places, value = _items(given, 4, "statement")
        if kind != "store" or not isinstance(places, list):
            raise Wrong(f"the statement {str(kind)[:40]!r}")
        buffer = self._known(name, len(places))
        indices = tuple(self._index(index) for index in places)
        found = self._expression(value)
        if found.dtype != buffer.dtype:
            raise Wrong(f"it stores {found.dtype} into {buffer.name!r}, which holds {buffer.dtype}")
        return Store(buffer.name, indices, found)

    def _known(self, name: Json, indices: int) -> Buffer:
        buffer = self._buffers.get(name) if isinstance(name, str) else None
        if buffer is None:
            raise Wrong(f"{str(name)[:40]!r} is no buffer of the program")
        if indices != len(buffer.shape):
            raise Wrong(f"{buffer.name!r} has {len(buffer.shape)} dimensions and is used with {indices}")
        return buffer

    # ------------------------------------------------ expressions

    def _index(self, given: Json, depth: int = 0) -> Expression:
        found = self._expression(given, depth)
        if found.dtype not in INTEGERS:
            raise Wrong(f"an index of {found.dtype}")
        return found

    def _expression(self, given: Json, depth: int = 0) -> Expression:
        self._expressions += 1
        if self._expressions > MOST_EXPRESSIONS:
            raise Wrong(f"it has more than {MOST_EXPRESSIONS} expressions")
        if depth > DEEPEST:
            raise Wrong(f"an expression is nested deeper than {DEEPEST}")
        if isinstance(given, bool):
            return Expression("constant", "bool", (), given)
        if isinstance(given, int):
            return integer(int(types.constant("int64", given)))
        if isinstance(given, str):
            if given in self._sizes:
                return integer(self._sizes[given])
            if given not in self._scope:
                raise Wrong(f"the variable {given[:80]!r} is not known there")
            return Expression("variable", self._variables[given], (), given)
        if not isinstance(given, list) or len(given) < 2 or not isinstance(given[0], str):
            raise Wrong(f"{str(given)[:40]!r} is no expression")
        kind = given[0]
        if kind in DTYPES:
            return Expression("constant", kind, (), types.constant(kind, _items(given, 2, "constant")[1]))
        if kind == "load":
            buffer = self._known(given[1], len(given) - 2)
            indices = tuple(self._index(index, depth + 1) for index in given[2:])
            return Expression("load", buffer.dtype, indices, buffer.name)
        if kind == "call":
            operands = self._all(given[2:], depth)
            return Expression("call", types.call(given[1], [o.dtype for o in operands]), operands, given[1])
        if kind == "cast":
            _, dtype, value = _items(given, 3, "cast")
            return Expression("cast", types.known_dtype(dtype), (self._expression(value, depth + 1),))
        if kind == "reinterpret":
            _, dtype, value = _items(given, 3, "reinterpret")
            operand = self._expression(value, depth + 1)
            return Expression("reinterpret", types.same_bits(dtype, operand.dtype), (operand,))
        operands = self._all(given[1:], depth)
        return Expression(kind, types.result(kind, [operand.dtype for operand in operands]), operands)

    def _all(self, given: Sequence[Json], depth: int) -> tuple[Expression, ...]:
        return tuple(self._expression(operand, depth + 1) for operand in given)


def _list(document: dict[str, Json], key: str) -> list[Json]:
    found = document.get(key, [])
    if not isinstance(found, list) or len(found) > MOST_PARTS:
        raise Wrong(f"{key!r} is no list, or one of more than {MOST_PARTS}")
    return found


def _items(given: Json, count: int, what: str) -> list[Json]:
    if not isinstance(given, list) or len(given) != count:
        raise Wrong(f"{str(given)[:40]!r} is no {what}")
    return given


def _name(given: Json) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST_NAME or not given.isprintable():
        raise Wrong(f"the name {str(given)[:40]!r}")
    return given


def _annotations(block: dict[str, Json]) -> dict[str, int | str]:
    given = block.get("annotations", {})
    if not isinstance(given, dict):
        raise Wrong("annotations that are no object")
    for key, value in given.items():
        right = isinstance(value, str if key == "schedule_rule" else int) and not isinstance(value, bool)
        if key not in ANNOTATIONS or not right or not ANNOTATIONS[key].fullmatch(str(value)):
            raise Wrong(f"the annotation {key[:40]!r}")
    return dict(given)
