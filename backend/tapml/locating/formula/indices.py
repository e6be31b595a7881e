"""Changes of where a formula reads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from tapml.locating.formula.build import Formula
from tapml.locating.formula.nodes import Node
from tapml.locating.formula.operations import Change
from tapml.locating.formula.words import Words
from tapml.locating.moves import axis_of
from tapml.locating.regions import ordinal
from tapml.operators.program import FLOATS, INTEGERS

_PLACED = (
    *(
        ("exchanged", size, f"with workgroup and invocation, of {size}, exchanged", 5)
        for size in (8, 16, 32, 64, 128, 256)
    ),
    *(("mirrored", 1 << power, f"backwards in every {1 << power} in memory", 6) for power in range(2, 13)),
    *(("halves", 1 << power, f"with the halves of every {2 << power} in memory swapped", 6) for power in range(0, 12)),
)
"""How a place in memory is another: (how, a number, in words, cost). See evaluate.py, `_placed`."""

_EDGES = (2, 4, 8, 16, 32, 64)
_FAR = (2, 4, 8, 16)
_TILES = (4, 8, 16, 32)


def index_changes(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    """Of a load, or of what reads a reduction."""
    start = 1 if node.kind == "read" else 0
    indices = node.operands[start:]
    shape = [extent for _, extent in node.operands[0].value.spatial] if start else formula.shapes[str(node.value)]
    what = words.of(node)
    for axis, (index, extent) in enumerate(zip(indices, shape, strict=True)):
        where = f" along {axis_of(axis, len(shape))}" if len(shape) > 1 else ""
        for new, text, cost in _of_index(formula, index, extent) if extent > 1 else ():
            changed = _with_operand(formula, node, start + axis, new)
            yield "wrong-index", changed, f"{what} read {text}{where}", cost, {"axis": axis}
    for first, last in itertools.combinations(range(len(indices)), 2):
        if shape[first] > 1 and shape[last] > 1:
            changed = node
            for axis in range(first, last + 1):
                changed = _with_operand(formula, changed, start + axis, _mirrored(formula, indices[axis], shape[axis]))
            text = f"{what} read backwards along axes {first} to {last}"
            yield "wrong-index", changed, text, 4, {"axes": list(range(first, last + 1))}
    for i in range(len(indices)):
        for j in range(i + 1, len(indices)):
            if indices[i] is not indices[j] and shape[i] > 1 and shape[j] > 1:
                changed = _with_operand(formula, node, start + i, indices[j])
                changed = _with_operand(formula, changed, start + j, indices[i])
                text = f"{what} read with its indices of axes {i} and {j} exchanged"
                yield "wrong-index", changed, text, 4, {"axes": [i, j]}
    if node.kind == "load":
        yield from _in_memory(formula, words, node)


def _with_operand(formula: Formula, node: Node, place: int, new: Node) -> Node:
    return formula.nodes.with_operands(node, (*node.operands[:place], new, *node.operands[place + 1 :]))


def _plus(formula: Formula, index: Node, by: int) -> Node:
    return formula.nodes.make("add", index.dtype, (index, formula.nodes.constant(by, index.dtype)))


def _mirrored(formula: Formula, index: Node, extent: int) -> Node:
    return formula.nodes.make("sub", index.dtype, (formula.nodes.constant(extent - 1, index.dtype), index))


def _of_index(formula: Formula, index: Node, extent: int) -> Iterator[tuple[Node, str, int]]:
    """(the new index, in words, cost)."""
    make, dtype = formula.nodes.make, index.dtype

    def number(value: int) -> Node:
        return formula.nodes.constant(value, dtype)

    yield _plus(formula, index, 1), "one element too far", 3
    yield _plus(formula, index, -1), "one element too early", 3
    yield _mirrored(formula, index, extent), "backwards", 3
    for by in (by for by in _FAR if by < extent):
        yield _plus(formula, index, by), f"{by} elements too far", 5
        yield _plus(formula, index, -by), f"{by} elements too early", 5
        # A tile that is not loaded anew, or is the one before.
        inside = make("floormod", dtype, (index, number(by)))
        yield inside, f"among its first {by} always", 5
        begun = make("lt", "bool", (index, number(by)))
        before = make("select", dtype, (begun, index, _plus(formula, index, -by)))
        yield before, f"{by} elements too early but for the first {by}", 6
        group = make("floordiv", dtype, (index, number(by)))
        if extent % by == 0 and extent > 2 * by:
            last = make("sub", dtype, (number(extent // by - 1), group))
            turned = make("add", dtype, (make("mul", dtype, (last, number(by))), inside))
            yield turned, f"in tiles of {by} from the last one to the first", 5
        for every, at in ((2, 1), (4, 3)):
            last = make("eq", "bool", (make("floormod", dtype, (group, number(every))), number(at)))
            early = make("select", dtype, (last, _plus(formula, index, -by), index))
            yield early, f"{by} elements too early in every {ordinal(every)} {by}", 6
    if index.kind != "constant":
        yield number(0), "at index 0 always", 4
        yield make("floordiv", dtype, (index, number(2))), "at half its index", 5
        yield make("mul", dtype, (index, number(2))), "at twice its index", 5
    for variable, size in zip(formula.variables, formula.shape, strict=True):
        other = make("variable", dtype, (), variable)
        if size > 1 and other is not index:
            axis = axis_of(formula.variables.index(variable), len(formula.shape))
            yield other, f"at the output's index of {axis}", 5
    for size in _EDGES:
        if size <= extent:
            rest = make("floormod", dtype, (index, number(size)))
            last = make("eq", "bool", (rest, number(size - 1)))
            early = make("select", dtype, (last, _plus(formula, index, -1), index))
            yield early, f"one too early at every {ordinal(size)} index", 5
    if extent % 2 == 0 and extent > 2:
        half = _plus(formula, index, extent // 2)
        yield make("floormod", dtype, (half, number(extent))), "in the other half", 4
        yield make("bitwise_xor", dtype, (index, number(1))), "at its neighbour of the pair", 4


def _in_memory(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    make, name = formula.nodes.make, str(node.value)
    shape, what = formula.shapes[name], words.of(node)
    for how, number, text, cost in _PLACED:
        if number < math.prod(shape):
            new = make("placed", node.dtype, node.operands, (name, how, number))
            details = {"place": how, "number": number}
            yield "wrong-index", new, f"{what} read {text}", cost + (len(shape) == 1), details
    sizes = {extent for each in (formula.shape, *formula.shapes.values()) for extent in each if extent > 1}
    for axis in range(len(shape) - 1):
        stride = math.prod(shape[axis + 1 :])
        power = 1 << (stride.bit_length() - 1)
        for wrong in (
            sorted({0, 1, stride - 1, stride + 1, power, 2 * power, 2 * stride} | sizes) if shape[axis] > 1 else ()
        ):
            if wrong != stride:
                text = f"{what} read with {wrong} in place of {stride} elements between its indices of axis {axis}"
                index, column = node.operands[axis], node.operands[-1]
                by = formula.nodes.constant(wrong - stride, index.dtype)
                last = make("add", column.dtype, (column, make("mul", index.dtype, (index, by))))
                yield "wrong-index", _with_operand(formula, node, len(shape) - 1, last), text, 5, {"stride": wrong}
    if len(shape) > 1 and min(shape[-2:]) > 1:
        row, column = node.operands[-2:]
        by = formula.nodes.constant(shape[-2], column.dtype)
        place = make("add", column.dtype, (make("mul", column.dtype, (column, by)), row))
        zero = formula.nodes.constant(0, row.dtype)
        changed = _with_operand(formula, _with_operand(formula, node, len(shape) - 2, zero), len(shape) - 1, place)
        yield "wrong-index", changed, f"{what} read as if its last two axes were transposed in memory", 4, {}
    for other, extents in formula.shapes.items():
        if other != name and formula.dtypes[other] == formula.dtypes[name]:
            # Of another shape, it is read at the same place in memory.
            same = extents == shape
            here = make("placed", node.dtype, node.operands, (name, "instead", other))
            new = make("load", node.dtype, node.operands, other) if same else here
            text = f"{words.buffer(other)} read in place of {what}"
            yield "wrong-index", new, text, 3 if same else 4, {"input": other}
    if node.dtype != "bool":
        zero = formula.nodes.constant(0.0 if node.dtype in FLOATS else 0, node.dtype)
        yield "constant", zero, f"0 in place of {what}", 4, {"value": 0}


def number_changes(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    """Of whole numbers that indices are computed with: strides of windows, sizes, offsets."""
    if node.kind not in ("add", "sub", "mul", "floordiv", "floormod") or node.dtype not in INTEGERS:
        return
    if node.kind in ("floordiv", "floormod") and node.operands[1].kind == "constant":
        index, by = node.operands
        sizes = {int(by.value)} | {size // int(by.value) for size in formula.shape if size % int(by.value) == 0}
        other = "floormod" if node.kind == "floordiv" else "floordiv"
        for size in sorted(sizes - {0, 1}):
            changed = formula.nodes.make(other, node.dtype, (index, formula.nodes.constant(size, by.dtype)))
            text = f"{words.of(changed)} in place of {words.of(node)}"
            yield "wrong-index", changed, text, 4, {"value": size}
    for place, operand in enumerate(node.operands):
        if operand.kind == "constant":
            for value in (int(operand.value) + 1, int(operand.value) - 1):
                if value != 0 or node.kind not in ("floordiv", "floormod"):
                    changed = _with_operand(formula, node, place, formula.nodes.constant(value, operand.dtype))
                    text = f"{value} in place of {operand.value} in {words.of(node)}"
                    yield "wrong-index", changed, text, 4, {"value": value}


def tile_changes(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    """The neighbour in a tile in workgroup memory: at the tile's edge it lies in the next row, or in the one before."""
    shape = formula.shapes[str(node.value)]
    if len(shape) < 2 or shape[-1] < 2 or shape[-2] < 2:
        return
    for row, column in ((-2, -1), (-1, -2)):
        for size in _TILES:
            for by in (1, -1):
                operands = list(node.operands)
                operands[row] = _plus(formula, operands[row], by)
                operands[column] = _plus(formula, operands[column], -by * (size - 1))
                new = formula.nodes.with_operands(node, tuple(operands))
                far = "too far" if by > 0 else "too early"
                text = f"{words.of(node)} read one element {far} in a tile of {size}"
                yield "wrong-index", new, text, 6, {"tile": size}
