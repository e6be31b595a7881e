"""Small changes of a formula: the mistakes that kernels are written with."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tapml.locating.evidence import short
from tapml.locating.formula.build import Formula
from tapml.locating.formula.narrow import NARROW
from tapml.locating.formula.nodes import Node, argument_of_sigmoid, in_order
from tapml.locating.formula.words import Words, ordinal_axis
from tapml.operators.program import FLOATS

_ORDER = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
_SIGNS = {"add": "sub", "sub": "add", "mul": "div", "div": "mul", "max": "min", "min": "max"}
_OTHERS = {
    "exp": ("exp2",), "exp2": ("exp",), "rsqrt": ("sqrt",), "sqrt": ("rsqrt",), "sin": ("cos",), "cos": ("sin",),
    "log": ("log2", "log1p"), "log2": ("log",), "floor": ("ceil", "trunc", "round"), "ceil": ("floor",),
    "round": ("floor", "trunc"), "nearbyint": ("floor", "trunc"), "trunc": ("floor", "round"), "tanh": ("sigmoid",),
    "sigmoid": ("tanh",),
}  # fmt: skip
_TYPES = tuple(name for name in NARROW if name != "float32")
_MOST_PARENTS = 6
_MOST_USES = 8


@dataclass(frozen=True)
class Edit:
    """`pattern`: what kind of finding it is; `text` goes on "got is what the operator gives with". `cost`: the more,
    the less it is to be preferred where several say the same."""

    pattern: str
    text: str
    root: Node
    cost: int
    details: dict[str, Any] = field(default_factory=dict)


Change = tuple[str, Node, str, int, dict[str, Any]]
"""Pattern, the new node, text, cost, details."""


class Edits:
    """All small changes of one formula."""

    def __init__(self, formula: Formula, words: Words, root: Node | None = None) -> None:
        """`root`: of a part of it."""
        self._formula = formula
        self.root = root or formula.root
        self._make = formula.nodes.make
        self._words = words
        self._order = in_order(self.root)
        self._parents: dict[int, list[tuple[Node, int]]] = defaultdict(list)
        for node in self._order:
            for place, operand in enumerate(node.operands):
                self._parents[id(operand)].append((node, place))

    def all(self) -> Iterator[Edit]:
        """Of operations, conditions, indices and sums: those that have no number to be found."""
        for node in self._order:
            for pattern, new, text, cost, details in self._changes(node):
                yield from self._everywhere(node, new, Edit(pattern, text, self.root, cost, details))

    def roundings(self) -> Iterator[Edit]:
        """Values that went through a narrower type."""
        for node in self._order:
            if node.dtype not in FLOATS or node.kind in ("constant", "reduce"):
                continue
            for name in _TYPES:
                new = self._make("rounded", node.dtype, (node,), name)
                what = "the result" if node is self.root else self._words.of(node)
                text = f"{what} rounded to {name}" if "," not in name else f"{what} as {name}"
                cost = 2 if node is self.root else 3 if node.kind in ("load", "read") else 4
                edit = Edit("dtype-conversion", text, self.root, cost, {"dtype": name})
                yield from self._everywhere(node, new, edit)

    def constants(self) -> Iterator[tuple[Node, list[tuple[Node, int]]]]:
        """(a number of the formula, the places where it stands, all of them where there is none)."""
        for node in self._order:
            if node.kind != "constant" or node.dtype not in FLOATS:
                continue
            parents = [parent for parent in self._parents[id(node)] if parent[0].kind != "reduce"]
            if parents:
                yield node, []
            if 1 < len(parents) <= _MOST_PARENTS:
                for parent in parents:
                    yield node, [parent]

    def starts(self) -> Iterator[Node]:
        """The sums whose start might be another."""
        return (node for node in self._order if node.kind == "reduce" and node.dtype in FLOATS)

    def with_constant(self, node: Node, where: list[tuple[Node, int]], value: float) -> Node:
        """The formula with another number for a constant."""
        new = Node("constant", "float64", (), value)
        if not where:
            return self._formula.nodes.replaced(self.root, node, new)
        return self._formula.nodes.replaced_in(self.root, *where[0], new)

    def of_constant(self, node: Node, where: list[tuple[Node, int]], value: float) -> Edit:
        """That the constant is another number."""
        parent = (where or self._parents[id(node)])[0][0]
        what = "left out of" if value == 0 and parent.kind in ("add", "sub") else ""
        text = f"{short(float(node.value))} {what}" if what else f"{short(value)} in place of {short(float(node.value))} in"
        text = f"{text} {self._words.of(parent)}"
        details = {"constant": float(node.value), "value": value}
        return Edit("wrong-constant", text, self.with_constant(node, where, value), 1 + bool(where), details)

    def _everywhere(self, node: Node, new: Node, edit: Edit) -> Iterator[Edit]:
        """The change wherever the node stands, and in some of the places where it, or what it is a part of, is used:
        kernels write a value out at each of its uses."""
        root = self._formula.nodes.replaced(self.root, node, new)
        yield replace(edit, root=root)
        for parent, changed in itertools.islice(self._uses(node, new), _MOST_USES):
            text = f"{edit.text}, in {self._words.of(parent)} only"
            yield replace(edit, text=text, root=changed, cost=edit.cost + 1)

    def _uses(self, node: Node, new: Node) -> Iterator[tuple[Node, Node]]:
        """(who uses it there, the formula with that one changed)."""
        nodes = self._formula.nodes
        todo = [(node, new, False)]
        while todo:
            node, new, one = todo.pop(0)
            parents = self._parents[id(node)]
            several = len(parents) > 1
            if one and several:
                yield node, nodes.replaced(self.root, node, new)
            for parent, place in parents if len(parents) <= _MOST_PARENTS else ():
                changed = nodes.with_operands(parent, (*parent.operands[:place], new, *parent.operands[place + 1 :]))
                if several and not self._parents[id(parent)]:
                    yield parent, changed
                elif several and len(self._parents[id(parent)]) > 1:
                    todo.append((parent, changed, True))
                else:
                    todo.append((parent, changed, one or several))
            if one and not parents:
                yield node, new

    # ------------------------------------------------ one node

    def _changes(self, node: Node) -> Iterator[Change]:
        kind = node.kind
        if kind in ("load", "read"):
            yield from self._indices(node)
        elif kind == "reduce":
            yield from self._reductions(node)
        elif self._is_index(node):
            return
        elif kind in _ORDER:
            yield from self._conditions(node)
        elif kind in ("select", "if_then_else"):
            condition, yes, no = node.operands
            turned = self._make(kind, node.dtype, (condition, no, yes))
            yield self._instead("wrong-condition", node, turned, 4)
            said = self._words.of(condition)
            yield "wrong-condition", yes, f"the condition {said} always true", 3, {}
            yield "wrong-condition", no, f"the condition {said} never true", 3, {}
        elif kind in _SIGNS or (kind == "call" and node.dtype in FLOATS):
            yield from self._operations(node)
        if node.dtype in FLOATS and kind in ("load", "read", "call", "sub", "div"):
            negative = self._make("sub", node.dtype, (self._formula.nodes.constant(0.0, node.dtype), node))
            yield "wrong-operation", negative, f"-{self._words.of(node)} in place of {self._words.of(node)}", 3, {}

    def _instead(self, pattern: str, old: Node, new: Node, cost: int) -> Change:
        return pattern, new, f"{self._words.of(new)} in place of {self._words.of(old)}", cost, {}

    def _is_index(self, node: Node) -> bool:
        """Integers of indices are changed by what reads there."""
        return node.dtype not in FLOATS and node.kind not in _ORDER and node.kind not in ("select", "if_then_else")

    def _operations(self, node: Node) -> Iterator[Change]:
        kind, dtype = node.kind, node.dtype
        if dtype not in FLOATS:
            return
        if kind == "call":
            (first, *rest) = node.operands
            if not rest:
                yield self._left_out(node, first, f"{node.value}(...)")
                nothing = self._make("call", dtype, (self._formula.nodes.constant(0.0, dtype),), node.value)
                yield self._instead("wrong-operation", node, nothing, 2)
            for other in _OTHERS.get(str(node.value), ()):
                yield self._instead("wrong-operation", node, self._make("call", dtype, node.operands, other), 3)
            return
        a, b = node.operands
        x = argument_of_sigmoid(node)
        if x is not None:
            yield self._left_out(node, x, "sigmoid(...)")
        if kind in ("sub", "div"):
            yield self._instead("wrong-operation", node, self._make(kind, dtype, (b, a)), 2)
        cost = 3 if kind in ("mul", "div") else 2
        yield self._instead("wrong-operation", node, self._make(_SIGNS[kind], dtype, (a, b)), cost)
        if kind in ("max", "min", "add", "mul") and b.kind != "constant":
            yield self._left_out(node, b, self._words.of(a))
        if a.kind != "constant":
            yield self._left_out(node, a, self._words.of(b))
        # fma(a, b, c), its operands in another order
        for product, summand in ((a, b), (b, a)):
            if kind == "add" and product.kind == "mul":
                for one, other in (product.operands, product.operands[::-1]):
                    changed = self._make("mul", dtype, (one, summand))
                    yield self._instead("wrong-operation", node, self._make("add", dtype, (changed, other)), 4)

    def _left_out(self, node: Node, kept: Node, what: str) -> Change:
        text = f"{what} left out of {self._words.of(node)}"
        return "wrong-operation", kept, text, 2, {"left_out": what}

    def _conditions(self, node: Node) -> Iterator[Change]:
        if node.kind in ("eq", "ne") and node.operands[0].dtype in FLOATS:
            return
        yield self._instead("wrong-condition", node, self._make(_ORDER[node.kind], node.dtype, node.operands), 2)
        opposite = self._make("not", "bool", (node,))
        yield "wrong-condition", opposite, f"the condition {self._words.of(node)} turned round", 3, {}
        a, b = node.operands
        if b.dtype not in FLOATS and b.dtype != "bool":
            for number in (1, -1):
                moved = self._make("add", b.dtype, (b, self._formula.nodes.constant(number, b.dtype)))
                yield self._instead("wrong-condition", node, self._make(node.kind, node.dtype, (a, moved)), 3)

    # ------------------------------------------------ indices

    def _indices(self, node: Node) -> Iterator[Change]:
        start = 1 if node.kind == "read" else 0
        indices = node.operands[start:]
        reduction = node.operands[0].value if start else None
        shape = [extent for _, extent in reduction.spatial] if reduction else list(self._formula.shapes[str(node.value)])
        what = self._words.of(node)
        for axis, (index, extent) in enumerate(zip(indices, shape, strict=True)):
            if extent == 1:
                continue
            where = f"along {ordinal_axis(axis, len(shape))}" if len(shape) > 1 else ""
            for new, text, cost in self._index_changes(index, extent):
                changed = self._with_index(node, start + axis, new)
                yield "wrong-index", changed, f"{what} read {text} {where}".rstrip(), cost, {"axis": axis}
        for i in range(len(indices)):
            for j in range(i + 1, len(indices)):
                if indices[i] is not indices[j] and shape[i] > 1 and shape[j] > 1:
                    operands = list(node.operands)
                    operands[start + i], operands[start + j] = indices[j], indices[i]
                    changed = self._make(node.kind, node.dtype, tuple(operands), node.value)
                    text = f"{what} read with its indices of axes {i} and {j} exchanged"
                    yield "wrong-index", changed, text, 4, {"axes": [i, j]}
        if node.kind == "load":
            yield from self._places(node, what, len(shape))

    def _with_index(self, node: Node, place: int, new: Node) -> Node:
        operands = (*node.operands[:place], new, *node.operands[place + 1 :])
        return self._make(node.kind, node.dtype, operands, node.value)

    def _index_changes(self, index: Node, extent: int) -> Iterator[tuple[Node, str, int]]:
        dtype = index.dtype

        def number(value: int) -> Node:
            return self._formula.nodes.constant(value, dtype)

        for by in (1, -1):
            text = "one element too far" if by > 0 else "one element too early"
            yield self._make("add", dtype, (index, number(by))), text, 3
        yield self._make("sub", dtype, (number(extent - 1), index)), "backwards", 3
        if index.kind != "constant":
            yield number(0), "at index 0 always", 4
        if extent % 2 == 0 and extent > 2:
            half = self._make("add", dtype, (index, number(extent // 2)))
            yield self._make("floormod", dtype, (half, number(extent))), "in the other half", 4
            yield self._make("bitwise_xor", dtype, (index, number(1))), "at its neighbour of the pair", 4

    def _places(self, node: Node, what: str, ndim: int) -> Iterator[Change]:
        for by in (1, -1):
            new = self._make("moved", node.dtype, node.operands, (str(node.value), by))
            far = "one element too far in memory" if by > 0 else "one element too early in memory"
            yield "wrong-index", new, f"{what} read {far}", 4 if ndim > 1 else 5, {"moved": by}
        size = math.prod(self._formula.shapes[str(node.value)])
        for group in (32, 64, 128, 256):
            if size > group:
                new = self._make("grouped", node.dtype, node.operands, (str(node.value), group))
                text = f"{what} read with workgroup and invocation, of {group}, exchanged"
                yield "wrong-index", new, text, 5, {"group": group}
        shape = self._formula.shapes[str(node.value)]
        # row and column exchanged in row * columns + column, which need not be in range
        for i in range(len(shape) - 1):
            yield from self._exchanged(node, what, i)
        for other, extents in self._formula.shapes.items():
            if other != node.value and extents == shape:
                new = self._make("load", node.dtype, node.operands, other)
                yield "wrong-index", new, f"{self._words.buffer(other)} read in place of {what}", 3, {"input": other}
        zero = self._formula.nodes.constant(0.0 if node.dtype in FLOATS else 0, node.dtype)
        if node.dtype != "bool":
            yield "wrong-index", zero, f"0 in place of {what}", 3, {}

    def _exchanged(self, node: Node, what: str, axis: int) -> Iterator[Change]:
        shape = self._formula.shapes[str(node.value)]
        if shape[axis] == 1 or shape[axis + 1] == 1 or shape[axis] == shape[axis + 1]:
            return
        row, column = node.operands[axis : axis + 2]
        operands = (*node.operands[:axis], column, row, *node.operands[axis + 2 :])
        new = self._make("strided", node.dtype, operands, str(node.value))
        yield "wrong-index", new, f"{what} read with row and column exchanged", 4, {"axes": [axis, axis + 1]}

    def of_tiles(self) -> Iterator[Edit]:
        """Of what is read for the terms of a sum: the neighbour in a tile, which at its edge is in another row."""
        for node in self._order:
            if node.kind != "load" or len(node.operands) < 2:
                continue
            shape = self._formula.shapes[str(node.value)]
            for row, column in ((-2, -1), (-1, -2)):
                if shape[row] < 2 or shape[column] < 2:
                    continue
                for size in (4, 8, 16, 32):
                    for by in (1, -1):
                        operands = list(node.operands)
                        operands[row] = self._plus(operands[row], by)
                        operands[column] = self._plus(operands[column], -by * (size - 1))
                        new = self._make("load", node.dtype, tuple(operands), node.value)
                        far = "too far" if by > 0 else "too early"
                        text = f"{self._words.of(node)} read one element {far} in a tile of {size}"
                        root = self._formula.nodes.replaced(self.root, node, new)
                        yield Edit("wrong-index", text, root, 6, {"tile": size})

    def _plus(self, index: Node, by: int) -> Node:
        return self._make("add", index.dtype, (index, self._formula.nodes.constant(by, index.dtype)))

    # ------------------------------------------------ reductions

    def _reductions(self, node: Node) -> Iterator[Change]:
        terms = node.value.terms
        if terms < 2:
            return
        term, start = node.operands
        neutral = self._formula.nodes.constant(0.0 if node.dtype in FLOATS else 0, node.dtype)
        if node.value.kind != "add":
            neutral = start
        for first, stop, step, which in _parts(terms):
            changed = self._make("some", term.dtype, (neutral, term), range(first, stop, step))
            new = self._make("reduce", node.dtype, (changed, start), node.value)
            text = f"{which} of {terms} left out of {self._words.of(node)}"
            yield "wrong-terms", new, text, 3, {"first": first, "stop": stop, "step": step, "terms": terms}
        if node.value.kind in ("max", "min"):
            zero = self._formula.nodes.constant(0.0, node.dtype)
            new = self._make("reduce", node.dtype, (term, zero), node.value)
            yield "wrong-terms", new, f"{self._words.of(node)} beginning at 0", 3, {"start": 0.0}


def _parts(terms: int) -> Iterator[tuple[int, int, int, str]]:
    """Terms that kernels leave out: (first, stop, step, in words)."""
    yield terms - 1, terms, 1, "the last term"
    yield 0, 1, 1, "the first term"
    for size in (2, 4, 8, 16):
        if terms > size and terms % size == 0:
            part = terms // size
            yield terms - part, terms, 1, f"the last {part} terms"
            yield 0, part, 1, f"the first {part} terms"
            yield size - 1, terms, size, f"every {size}th term" if size > 2 else "every second term"
