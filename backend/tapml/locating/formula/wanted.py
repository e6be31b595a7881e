"""What a value must have been, worked back from the output at each of its uses: whatever is a small change there is
found without trying it through the whole formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tapml.locating.evidence import allowance, apart, short
from tapml.locating.formula.edits import Edit, Edits
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.nodes import Node, Nodes, NotAFormula, within
from tapml.locating.formula.numbers import plainest
from tapml.locating.formula.sample import Part
from tapml.locating.formula.uses import Path
from tapml.locating.formula.words import Words
from tapml.locating.formula.work import Work
from tapml.operators.program import FLOATS

_STEPS = 8
_MOST_USES = 64
_ENOUGH = 0.5
"""Of the elements so many must be what a change gives."""


class Wanted:
    """Of one formula and some wrong elements."""

    def __init__(self, edits: Edits, nodes: Nodes, words: Words, values: Values, part: Part, work: Work) -> None:
        finite = np.isfinite(part.got) & np.isfinite(part.expected)
        self._edits, self._nodes, self._words, self._values, self._work = edits, nodes, words, values, work
        self._part = Part(part.places[finite], part.got[finite], part.expected[finite], part.bound[finite])

    def found(self) -> Iterator[Edit]:
        """Changes of one value, or of one of its uses; each gives half of the elements or more."""
        if len(self._part) < 2:
            return
        for node in sorted(within(self._edits.root), key=self._edits.uses.rank):
            if node.dtype in FLOATS:
                yield from self._of(node)

    def _of(self, node: Node) -> Iterator[Edit]:
        try:
            before = self._values.at(node, self._part.places).astype(np.float64)
        except NotAFormula:
            return
        changes: list[tuple[Edit, np.ndarray]] | None = None
        for path, text, put in self._edits.uses_of(node, _MOST_USES, _MOST_USES):
            if self._work.over():
                return
            try:
                wanted = self._worked_back(before, put)
            except NotAFormula:
                continue
            if wanted is None:
                continue
            value, allowed = wanted
            yield from self._numbers(node, before, value, allowed, path, put)
            if text:  # what holds wherever the node stands is tried as it is
                changes = self._changes(node) if changes is None else changes
                for edit, made in changes:
                    if float((np.abs(made - value) <= allowed).mean()) >= _ENOUGH:
                        yield replace(edit, text=edit.text + text, root=put(edit.root), cost=edit.cost + 1)

    def _changes(self, node: Node) -> list[tuple[Edit, np.ndarray]]:
        """Of the node by itself, and what it is then."""
        found = []
        for edit in self._edits.of_node(node):
            try:
                made = self._values.at(edit.root, self._part.places).astype(np.float64)
            except NotAFormula:
                continue
            found.append((edit, made))
        return found

    def _numbers(
        self,
        node: Node,
        before: np.ndarray,
        value: np.ndarray,
        allowed: np.ndarray,
        path: Path,
        put: Callable[[Node], Node],
    ) -> Iterator[Edit]:
        """Another number, so many times the value, or so much more."""
        said, make = self._words.of(node), self._nodes.make
        cost, text = 3 + bool(path), self._edits.only(path)
        if node.kind == "constant":
            for number in plainest(value, allowed, _ENOUGH):
                if number != float(node.value):
                    yield self._edits.of_constant(node, path, number)
            return
        for number in plainest(value, allowed, _ENOUGH):
            if np.ptp(before) > 0:
                yield from self._limit(node, before, value, number, text, put)
                new, what = self._number(number), f"{short(number)} in place of {said}{text}"
                yield Edit("wrong-constant", what, put(new), cost, {"value": number})
        with np.errstate(all="ignore"):
            times, most = value / before, allowed / np.abs(before)
        for number in set(plainest(times, most, _ENOUGH)) - {0.0, 1.0}:
            new = make("mul", node.dtype, (node, self._number(number)))
            what = f"{said} {apart(number, 1.0)} times as large{text}"
            yield Edit("scale", what, put(new), cost + 1, {"factor": number})
        for number in set(plainest(value - before, allowed, _ENOUGH)) - {0.0}:
            new, sign = make("add", node.dtype, (node, self._number(number))), "+" if number > 0 else "-"
            what = f"{said} {sign} {short(abs(number))} in place of {said}{text}"
            yield Edit("offset", what, put(new), cost + 1, {"offset": number})

    def _limit(
        self, node: Node, before: np.ndarray, value: np.ndarray, number: float, text: str, put: Callable[[Node], Node]
    ) -> Iterator[Edit]:
        """What becomes one number where it is beyond it, or, of several, one of two."""
        make, known = self._nodes.make, np.isfinite(value)
        for kind, side, beyond in (("max", "at least", before < number), ("min", "at most", before > number)):
            if beyond[known].all():
                new = make(kind, node.dtype, (node, self._number(number)))
                what = f"{self._words.of(node)} limited to {side} {short(number)}{text}"
                yield Edit("saturation", what, put(new), 4, {"limit": number})

    def _number(self, value: float) -> Node:
        return Node("constant", "float64", (), value)

    def _worked_back(self, before: np.ndarray, put: Callable[[Node], Node]) -> tuple[np.ndarray, np.ndarray] | None:
        """(The value of each element for which it is what the device gave, what that may be off by); None where too few
        have one. The secant method, for all elements at once."""
        part = self._part

        def given(value: np.ndarray) -> np.ndarray:
            root = put(Node("given", "float64", (), value[:, None]))
            return self._values.at(root, part.places).astype(np.float64)

        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(before), 1e-3 * float(np.median(np.abs(before))) + 1e-30)
            value, made = before, given(before)
            following, slope = before + 1e-3 * size, np.ones(len(before))
            target = allowance(part.got, part.got, part.expected, part.bound)
            for step in range(_STEPS):
                now = given(following)
                new = (now - made) / (following - value)
                slope = np.where(np.isfinite(new) & (new != 0), new, slope)
                if step == 0 and float((np.isfinite(new) & (new != 0)).mean()) < _ENOUGH:
                    return None
                value, made = following, now
                near = np.abs(now - part.got) <= 0.01 * target
                if near.all():
                    break
                moved = value - (now - part.got) / slope
                following = np.where(near | ~np.isfinite(moved), value, moved)
            solved = (np.abs(made - part.got) <= target) & np.isfinite(value) & (value != before)
        if float(solved.mean()) < _ENOUGH:
            return None
        allowed = np.maximum(target / np.abs(slope), 1e-7 * np.abs(value))
        return np.where(solved, value, np.nan), allowed
