"""Small changes of a formula: the mistakes that kernels are written with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tapml.locating.evidence import apart, short
from tapml.locating.formula.build import Formula
from tapml.locating.formula.indices import index_changes, number_changes, tile_changes
from tapml.locating.formula.narrow import COARSE, NARROW, WHOLE
from tapml.locating.formula.nodes import Node, within
from tapml.locating.formula.operations import Change, operation_changes, reduction_changes
from tapml.locating.formula.uses import MOST_PARENTS, Path, Uses
from tapml.locating.formula.words import Words
from tapml.operators.program import FLOATS

_TYPES = tuple(name for name in NARROW if name != "float32")
_DIGITS = 3
"""A number of more is less likely to be what somebody wrote."""
_MOST_USES = 32
_FEW_USES = 16


@dataclass(frozen=True)
class Edit:
    """`pattern`: what kind of finding it is; `text` goes on "got is what the operator gives with". `cost`: the more,
    the less it is to be preferred where several say the same."""

    pattern: str
    text: str
    root: Node
    cost: int
    details: dict[str, Any] = field(default_factory=dict)
    whole: Node | None = None
    """What it makes a whole number, where it does: of numbers below 1 that is 0, whatever made it so."""


class Edits:
    """All small changes of one formula."""

    def __init__(self, formula: Formula, words: Words, root: Node | None = None) -> None:
        """`root`: of a part of it."""
        self._formula = formula
        self._words = words
        self.root = root or formula.root
        self.uses = Uses(formula.nodes, self.root)
        self._outside = {id(node) for node in within(self.root)}
        self._sums: dict[int, Node] = {}
        """id of a load in the terms of a reduction -> that."""
        for node in self.uses.order:
            if node.kind == "reduce":
                self._sums |= {id(part): node for part in within(node.operands[0]) if part.kind == "load"}

    def operations(self) -> Iterator[Edit]:
        """Of operations, conditions and sums: those that have no number to be found."""
        for node in self.uses.order:
            used_by = [parent.kind for parent, _ in self.uses.of(node)]
            yield from self._of(node, operation_changes(self._formula, self._words, node, used_by))
            if node.kind == "reduce":
                yield from self._of(node, reduction_changes(self._formula, self._words, node))

    def indices(self) -> Iterator[Edit]:
        """Of where is read."""
        for node in self.uses.order:
            if node.kind in ("load", "read"):
                yield from self._of(node, index_changes(self._formula, self._words, node))
            yield from self._of(node, number_changes(self._formula, self._words, node))
        yield from self._exchanged()

    def _exchanged(self) -> Iterator[Edit]:
        """Two inputs, each read in place of the other."""
        nodes = self._formula.nodes
        loads = {str(node.value): node.dtype for node in self.uses.order if node.kind == "load"}
        for pair in itertools.combinations(loads, 2):
            if len({(self._formula.shapes[name], loads[name]) for name in pair}) == 1:
                other = dict(zip(pair, pair[::-1], strict=True))

                def change(node: Node, operands: tuple[Node, ...], other: dict[str, str] = other) -> Node | None:
                    swapped = node.kind == "load" and node.value in other
                    return nodes.make("load", node.dtype, operands, other[node.value]) if swapped else None

                text = f"{self._words.buffer(pair[0])} and {self._words.buffer(pair[1])} exchanged"
                yield Edit("wrong-index", text, nodes.rewritten(self.root, change), 3, {"inputs": list(pair)})

    def _of(self, node: Node, changes: Iterable[Change]) -> Iterator[Edit]:
        for pattern, new, text, cost, details in changes:
            if node.kind == "load":
                details, text = {**details, "read": node.value}, text + self._scope(node)
            yield from self._everywhere(node, new, Edit(pattern, text, self.root, cost, details))

    def _scope(self, load: Node) -> str:
        """In words, which of the loads of one input it is, where some stand in a sum and others do not."""
        if id(load) not in self._sums:
            others = [node for node in self.uses.order if node.value == load.value and id(node) in self._sums]
            return f", but not in {self._words.of(self._sums[id(others[0])])}" if others else ""
        outside = any(node.value == load.value and id(node) not in self._sums for node in self.uses.order)
        return f", in {self._words.of(self._sums[id(load)])}" if outside else ""

    def of_tiles(self) -> Iterator[Edit]:
        """Of what is read for the terms of a sum: the neighbour in a tile, which at its edge is in another row."""
        for node in self.uses.order:
            if node.kind == "load":
                for pattern, new, text, cost, details in tile_changes(self._formula, self._words, node):
                    yield Edit(pattern, text, self.uses.replaced(node, new), cost, details)

    def rounded_inputs(self) -> Iterator[Edit]:
        """All of its inputs through a narrower type."""
        loads = [node for node in self.uses.order if node.kind == "load" and node.dtype in FLOATS]
        for name in _TYPES:
            yield self._all_rounded(loads, f"its inputs {_rounded(name)}", name, 2)

    def roundings(self) -> Iterator[Edit]:
        """One value through a narrower type."""
        for node in self.uses.order:
            for edit in self._rounded(node):
                yield from self._everywhere(node, edit.root, edit)
        for node in self.uses.order:
            if node.dtype in FLOATS and (node.kind == "load" or node is self.root):
                for name in COARSE:
                    new = self._formula.nodes.make("rounded", node.dtype, (node,), name)
                    what = "the result" if node is self.root else self._words.of(node)
                    edit = Edit("dtype-conversion", f"{what} rounded to {name}", new, 5, {"dtype": name})
                    yield from self._everywhere(node, new, edit)

    def _rounded(self, node: Node) -> Iterator[Edit]:
        if node.dtype not in FLOATS or node.kind in ("constant", "reduce"):
            return
        for name in _TYPES:
            new = self._formula.nodes.make("rounded", node.dtype, (node,), name)
            what = "the result" if node is self.root else self._words.of(node)
            cost = 2 if node is self.root else 3 if node.kind in ("load", "read") else 4
            whole = new if name in WHOLE and id(node) in self._outside else None
            yield Edit("dtype-conversion", f"{what} {_rounded(name)}", new, cost, {"dtype": name}, whole)

    def _all_rounded(self, chosen: Sequence[Node], text: str, name: str, cost: int) -> Edit:
        nodes, ids = self._formula.nodes, {id(node) for node in chosen}

        def change(node: Node, operands: tuple[Node, ...]) -> Node | None:
            return nodes.make("rounded", node.dtype, (node,), name) if id(node) in ids else None

        return Edit("dtype-conversion", text, nodes.rewritten(self.root, change), cost, {"dtype": name})

    # ------------------------------------------------ numbers

    def constants(self) -> Iterator[tuple[Node, Path]]:
        """(a number of the formula, where it is to be another: an empty path is everywhere)."""
        for node in self.uses.order:
            if node.kind != "constant" or node.dtype not in FLOATS:
                continue
            parents = self.uses.of(node)
            if all(parent.kind != "reduce" for parent, _ in parents):
                yield node, ()
            elif len(parents) == 1:
                yield node, tuple(parents)
            yield from ((node, path) for path in self._few(node))

    def with_constant(self, node: Node, path: Path, value: float) -> Node:
        """The formula with another number for a constant."""
        return self.uses.along(node, path, Node("constant", "float64", (), value))

    def of_constant(self, node: Node, path: Path, value: float) -> Edit:
        """That the constant is another number."""
        root = self.with_constant(node, path, value)
        if node is self.root:
            text = f"{apart(value, float(node.value))} in place of {short(float(node.value))}"
            return Edit("wrong-constant", text, root, 1, {"constant": float(node.value), "value": value})
        parent = (path or self.uses.of(node))[0][0]
        number, new, said = short(float(node.value)), apart(value, float(node.value)), self._words.of(parent)
        if parent.kind == "reduce":
            text = f"{said} beginning at {new} in place of {number}"
            return Edit("wrong-terms", text, root, cost_of_start(value), {"start": value})
        left_out = value == 0 and parent.kind in ("add", "sub")
        text = f"{number} left out of {said}" if left_out else f"{new} in place of {number} in {said}"
        details = {"constant": float(node.value), "value": value}
        digits = f"{value:.6g}".partition("e")[0].strip("-0.").replace(".", "")
        cost = 1 + len(path[:2]) + (len(digits) > _DIGITS)
        return Edit("wrong-constant", text + self.only(path[1:]), root, cost, details)

    # ------------------------------------------------ one use of several

    def _everywhere(self, node: Node, new: Node, edit: Edit) -> Iterator[Edit]:
        """The change wherever the node stands, and in some of the places where it, or what it is a part of, is used:
        kernels write a value out at each of its uses."""
        yield replace(edit, root=self.uses.replaced(node, new))
        for path in self._few(node):
            text = edit.text + self.only(path)
            yield replace(edit, text=text, root=self.uses.along(node, path, new), cost=edit.cost + 1)

    def of_node(self, node: Node) -> Iterator[Edit]:
        """Changes of a node where it stands alone: their root is what it is then."""
        used_by = [parent.kind for parent, _ in self.uses.of(node)]
        changes = [operation_changes(self._formula, self._words, node, used_by)]
        if node.kind in ("load", "read"):
            changes.append(index_changes(self._formula, self._words, node))
        for pattern, new, text, cost, details in itertools.chain(*changes):
            yield Edit(pattern, text, new, cost, details)
        yield from self._rounded(node)

    def uses_of(
        self, node: Node, most: int, parents: int = MOST_PARENTS
    ) -> Iterator[tuple[Path, str, Callable[[Node], Node]]]:
        """(way up, in words, the formula with another node there): wherever the node stands, and at some of its uses,
        those in what has more than so many `parents` left out."""
        for path in ((), *itertools.islice(self.uses.ways(node, parents), most)):
            yield path, self.only(path), partial(self.uses.along, node, path)

    def only(self, path: Path) -> str:
        """In words, that it is so at the end of this way only."""
        return f", in {self._words.of(path[-1][0])} only" if path else ""

    def _few(self, node: Node) -> list[Path]:
        """Ways up that are worth going one by one: many uses of a value of each element are worked back (wanted.py)."""
        paths = list(itertools.islice(self.uses.ways(node), _MOST_USES))
        many = len(paths) > _FEW_USES and id(node) in self._outside and node.dtype in FLOATS
        return [] if many else paths


def cost_of_start(value: float) -> int:
    """Of a sum that begins at another number. Nobody writes 0.0004 there: another number of the formula made it so, an
    epsilon say, and whichever does is said, at its one use of many digits as well."""
    return 1 if value == int(value) else 4


def _rounded(name: str) -> str:
    return f"as {name}" if "," in name else f"rounded to {name}"
