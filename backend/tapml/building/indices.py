"""Inputs whose elements are indices: which of them lie in what they index (tokens in the table of their embeddings).

For another one a GPU gives anything and this machine something else, or both what is nearest, so a compiled model says
what it takes. What is done to an element before it is an index is read off the operators; what the model limits itself
has no range.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Literal

from tapml.expressions import evaluate
from tapml.operators.program import Block, Expression, Let, OperatorProgram, Store, limits, parts_of
from tapml.program import NodeKind
from tapml.program.branches import branched, nodes_of
from tapml.program.graph import shown_by
from tapml.program.program import Function

Sizes = Mapping[str, int]
Range = tuple[Any, Any]
"""The least and the greatest element: expressions over the model's symbols."""

_Below = Literal["none", "axis", "counted"]
"""Where the elements that are indices begin: nowhere, where the axis does, or as far before that as it is long."""
_Ends = tuple[_Below, bool, int]
"""And whether they end where the axis does, and what is added to an element to be an index."""

_CHOICES = ("select", "if_then_else")
_OPERATIONS: Mapping[str, Callable[[int, int], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
"""What is done to an index before it is used; another operation is not looked through."""
_DTYPES = ("int32", "uint32", "int8", "uint8")
_GIVEN = "given"
_VARIABLE = "let "
"""Before the name of a variable, where buffers stand by their names."""
_MOST_PARTS = 200
"""Of what is done to an index: more is not looked through."""

_Index = tuple[Expression, tuple[str, int]]
"""How an index comes of the element that was given, and the axis of a buffer that it is a place along."""


class _Unknown(Exception):
    """What an index is depends on more than the element that was given."""


def index_ranges(
    function: Function,
    operator: Callable[[str, Sizes], object],
    tried: Sequence[Sizes] = ({},),
    choosing: Collection[str] = (),
) -> dict[str, Range]:
    """Of the inputs (value ids) that index an axis: from the least to the greatest element that lies in it. `operator`
    gives a kernel's program at the sizes of a call, and `tried` are some; `choosing`: kernels that are choices. What
    only one side of a choice reads is no index where the other is taken."""
    found = {}
    function = _in_every_call(function, choosing)
    for value in function.inputs:
        if (dtype := function.values[value].type.dtype) in _DTYPES:
            uses = [list(_of_input(function, value, operator, sizes, dtype)) for sizes in tried]
            # Found in the same order at all sizes, or what they are is not known.
            alike = len({len(use) for use in uses}) == 1
            ranges = [one for use in zip(*uses, strict=True) if (one := _range(use, dtype))] if alike else []
            if ranges:
                least, most = reduce(within, ranges)
                if not (isinstance(least, int) and isinstance(most, int) and least > most):
                    found[value] = least, most
    return found


def within(one: Range | None, other: Range) -> Range:
    """What lies in both."""
    return other if one is None else (_larger(one[0], other[0]), _smaller(one[1], other[1]))


def _range(use: Sequence[tuple[Any, _Ends | None]], dtype: str) -> Range | None:
    """What one index takes: its axis, and how the elements end, at each of the sizes that were tried."""
    axes, ends = [axis for axis, _ in use], {end for _, end in use}
    if len(ends) != 1 or any(axis != axes[0] for axis in axes) or (one := ends.pop()) is None:
        return None
    least, most = limits(dtype)
    axis, (below, above, added) = axes[0], one
    first = {"none": least, "axis": -added, "counted": _less(-added, axis)}[below]
    return first, _less(axis, 1 + added) if above else most


def _less(a: Any, b: Any) -> Any:
    return a - b if isinstance(a, int) and isinstance(b, int) else ["sub", a, b]


def _larger(a: Any, b: Any) -> Any:
    return a if a == b else max(a, b) if isinstance(a, int) and isinstance(b, int) else ["max", a, b]


def _smaller(a: Any, b: Any) -> Any:
    return a if a == b else min(a, b) if isinstance(a, int) and isinstance(b, int) else ["min", a, b]


def _in_every_call(function: Function, choosing: Collection[str]) -> Function:
    kept = {
        node.id
        for item, sides in branched(function, choosing)
        for node in nodes_of(item)
        if node.kind is not NodeKind.KERNEL or not sides
    }
    return replace(function, nodes=[node for node in function.nodes if node.id in kept])


def _of_input(
    function: Function, given: str, operator: Callable[[str, Sizes], object], sizes: Sizes, dtype: str
) -> Iterator[tuple[Any, _Ends | None]]:
    """The indices that are made of an input's elements one by one, each with the extent of its axis, and where the
    elements end; None where there is no telling."""
    shown = shown_by(function)
    known = {given: Expression("load", function.values[given].type.dtype, (), _GIVEN)}
    for node in function.nodes:
        if node.kind is not NodeKind.KERNEL or not any(shown[value] in known for value in node.inputs):
            continue
        if not isinstance(program := operator(node.kernel, sizes), OperatorProgram):
            continue
        values = dict(zip((b.name for b in program.parameters), (*node.inputs, *node.outputs), strict=True))
        inside = {name: known[shown[value]] for name, value in values.items() if shown[value] in known}
        for index, (name, axis) in _indices(program, inside):
            if name in values:
                extent = function.values[values[name]].type.shape[axis]
                yield extent, _taken(index, evaluate(extent, sizes), dtype)
        known |= {shown[value]: inside[name] for name, value in values.items() if name in inside}


def _indices(program: OperatorProgram, inside: dict[str, Expression]) -> Iterator[_Index]:
    """`inside`: buffers whose elements come of the given ones, which the program's own are added to."""
    shapes = {buffer.name: buffer.shape for buffer in (*program.parameters, *program.temporaries)}
    writes = [s.buffer for block in program.blocks for s in (*block.first, *block.body) if isinstance(s, Store)]
    for block in program.blocks:
        known = dict(inside)  # and the block's own variables
        for statement in (*block.first, *block.body):
            for part in (statement.value, *(statement.indices if isinstance(statement, Store) else ())):
                yield from _within(part, known)
            if isinstance(statement, Let):
                known[_VARIABLE + statement.variable] = _inlined(statement.value, known)
                continue
            for axis, index in enumerate(statement.indices):
                if _uses(place := _inlined(index, known)):
                    yield place, (statement.buffer, axis)
            if writes.count(statement.buffer) == 1:
                made = _one_by_one(block, statement, known, shapes)
                if made is not None:
                    inside[statement.buffer] = known[statement.buffer] = made


def _within(expression: Expression, inside: Mapping[str, Expression]) -> Iterator[_Index]:
    """Not what the program chooses to use by the element itself."""
    if expression.kind in _CHOICES and _uses(_inlined(expression.operands[0], inside)):
        return
    if expression.kind == "load":
        for axis, index in enumerate(expression.operands):
            if _uses(made := _inlined(index, inside)):
                yield made, (str(expression.value), axis)
    for operand in expression.operands:
        yield from _within(operand, inside)


def _one_by_one(
    block: Block, store: Store, inside: Mapping[str, Expression], shapes: Mapping[str, Sequence[Any]]
) -> Expression | None:
    """What is stored, where that comes of the given element at its own place alone."""

    def place(buffer: str, indices: Sequence[Expression]) -> list[Expression]:
        return [index for index, extent in zip(indices, shapes[buffer], strict=True) if extent != 1]

    loads = [part for part in parts_of(store.value) if part.kind == "load"]
    own = place(store.buffer, store.indices)
    if not loads or any(str(load.value) not in inside for load in loads) or any(axis.reduction for axis in block.axes):
        return None
    if any(place(str(load.value), load.operands) != own for load in loads):
        return None
    made = _inlined(store.value, inside)
    return made if sum(1 for _ in parts_of(made)) <= _MOST_PARTS else None


def _inlined(expression: Expression, inside: Mapping[str, Expression]) -> Expression:
    """With what they come of in place of variables and of elements."""
    if expression.kind in ("variable", "load"):
        name = str(expression.value) if expression.kind == "load" else f"{_VARIABLE}{expression.value}"
        if (made := inside.get(name)) is not None:
            return made
    operands = tuple(_inlined(operand, inside) for operand in expression.operands)
    return Expression(expression.kind, expression.dtype, operands, expression.value)


def _uses(expression: Expression) -> bool:
    return any(part.kind == "load" and part.value == _GIVEN for part in parts_of(expression))


def _taken(index: Expression, extent: int, dtype: str) -> _Ends | None:
    """Where the elements for which the index lies in an axis end, if it is the element and a constant, and what counts
    from the axis' end; None where there is no telling, or where all do."""
    least, most = limits(dtype)
    index = _asked(index, extent)

    def lies(element: int) -> bool:
        return least <= element <= most and 0 <= int(_value(index, element)) < extent

    try:
        far = min(2 * extent, most)
        above = not lies(far)
        added = int(_value(index, far)) - far if above else int(_value(index, 0))
        first, last = -added, extent - 1 - added
        if extent < 1 or not lies(first) or not lies(last) or (above and lies(last + 1)):
            return None
        below: _Below = "axis" if not lies(first - 1) else "none" if lies(least) else "counted"
        if below == "counted" and not lies(first - extent):
            return None
    except _Unknown:
        return None
    return None if below == "none" and not above else (below, above, added)


def _asked(index: Expression, extent: int) -> Expression:
    """Without the limits that an import gives each index (tapml.importing.indices), whatever the model says: what lies
    outside is an error to ONNX and PyTorch. They stand around the choice of what counts from the end."""
    if index.kind == "max" and _is(index.operands[1], 0) and (inner := index.operands[0]).kind == "min":
        counted, last = inner.operands
        if counted.kind == "select" and counted.operands[0].kind == "lt" and _is(last, extent - 1):
            return counted
    return index


def _is(expression: Expression, value: int) -> bool:
    """Whether it is that, whatever was given: at the sizes of a call what is made of an extent is a constant."""
    if _uses(expression):
        return False
    try:
        return bool(_value(expression, 0) == value)
    except _Unknown:
        return False


def _value(index: Expression, element: int) -> Any:
    """Of an index, for a given element."""
    kind = index.kind
    if kind == "constant":
        return index.value
    if kind == "load" and index.value == _GIVEN:
        return element
    if kind == "cast" and not index.dtype.startswith("float"):
        found = _value(index.operands[0], element)
        return bool(found) if index.dtype == "bool" else found
    if kind in _CHOICES:
        condition, then, otherwise = index.operands
        return _value(then if _value(condition, element) else otherwise, element)
    if kind not in _OPERATIONS:
        raise _Unknown
    a, b = (_value(operand, element) for operand in index.operands)
    return _OPERATIONS[kind](a, b)
