"""Which terms of a sum went wrong, and how: left out, counted twice, made of other elements, rounded on the way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapml.locating.evidence import apart, short
from tapml.locating.formula.build import Formula
from tapml.locating.formula.chains import chains
from tapml.locating.formula.choices import choices, which
from tapml.locating.formula.edits import Edits, cost_of_start
from tapml.locating.formula.factors import other_factors
from tapml.locating.formula.mixtures import Changed, mixtures
from tapml.locating.formula.narrow import WHOLE
from tapml.locating.formula.nodes import Node, NotAFormula, in_order, within
from tapml.locating.formula.search import LEAST
from tapml.locating.formula.sums import Pool
from tapml.locating.formula.words import Words
from tapml.locating.formula.work import Work
from tapml.locating.held_out import accepted, halves
from tapml.locating.moves import Move

_MOST, _FEW = 128, 40
"""Sums that are looked at; fewer where each has many terms."""

_MANY_TERMS = 512

_MOST_CHANGES = 256
_MIXED = ("wrong-index", "wrong-terms")

_APART = (1, 2, 3, 4, 8, 12, 16, 24, 32)
"""Elements of a tile are so far from each other along one axis."""

_FACTORS = 8

_PLAIN = 5
"""What costs more is said only where nothing that happens to the sum on the way explains it."""


@dataclass(frozen=True)
class Found:
    """`share`: of the results that it was not made from; `text` goes on "got is what the operator gives with"; `whole`:
    the reduction as it would have to be, where a formula says it."""

    pattern: str
    text: str
    share: float
    cost: int
    whole: Node | None
    details: dict[str, Any] = field(default_factory=dict)


class Terms:
    """What explains the results of one sum. Half of them make a hypothesis, the others test it."""

    def __init__(self, pool: Pool, formula: Formula, words: Words, work: Work) -> None:
        self._work = work
        self._every = pool
        self._pool = pool = pool.limited(_MOST if pool.whole.value.terms <= _MANY_TERMS else _FEW)
        self._formula = formula
        self._make = formula.nodes.make
        self._edits = Edits(formula, words, pool.whole.operands[0])
        self._fitted, self._held = (np.sort(half) for half in halves(len(pool.off)))
        self._words = words
        self._sum = words.of(pool.whole)
        self._changed: list[Changed] = []
        """What was tried of some terms, for mixtures."""

    def found(self) -> list[Found]:
        """The best first; those that hold for half of the results."""
        if not len(self._held) or self._pool.terms.shape[1] < 2:
            return []
        found: list[Found] = []
        last = (self._mixed, self._factors)
        for hypotheses in (self._whole, self._lost, self._chains, self._edited, self._moved, *last):
            if any(one.share >= 0.9 and (one.cost <= _PLAIN or hypotheses in last) for one in found):
                break
            found += hypotheses()
        return sorted(found, key=lambda one: (-round(one.share, 1), one.cost))

    def _tested(
        self, off: np.ndarray, pattern: str, text: str, cost: int, whole: Node | None, **details: Any
    ) -> Iterator[Found]:
        right = self._pool.matches(off)
        share = accepted(right, self._held, LEAST) if right[self._fitted].mean() >= LEAST else None
        if share is not None:
            yield Found(pattern, text, share, cost, whole, details)

    # ------------------------------------------------ the whole sum

    def _whole(self) -> Iterator[Found]:
        pool, fitted = self._pool, self._fitted
        whole = pool.whole
        term, begin = whole.operands
        added = _plain(float(np.median(pool.off[fitted])))
        if np.isfinite(added):
            before = float(begin.value or 0)
            start = Node("constant", "float64", (), added + before)
            changed = self._make("reduce", whole.dtype, (term, start), whole.value)
            text = f"{self._sum} beginning at {apart(start.value, before)} in place of {short(before)}"
            off, cost = np.full(len(pool.off), added), cost_of_start(float(start.value))
            yield from self._tested(off, "wrong-terms", text, cost, changed, start=start.value)
        with np.errstate(all="ignore"):
            factor = 1.0 + float(np.median(pool.off[fitted] / pool.results[fitted]))
        if np.isfinite(factor):
            times = _plain(factor)
            number = Node("constant", "float64", (), times)
            product = self._make("mul", whole.dtype, (term, number))
            changed = self._make("reduce", whole.dtype, (product, begin), whole.value)
            text = f"{self._sum} {apart(times, 1.0)} times as large"
            yield from self._tested((times - 1) * pool.results, "scale", text, 4, changed, factor=times)

    # ------------------------------------------------ some of its terms

    def _lost(self) -> Iterator[Found]:
        """Left out, counted twice, subtracted."""
        terms, term = self._pool.terms, self._pool.whole.operands[0]
        zero, two = (Node("constant", term.dtype, (), number) for number in (0.0, 2.0))
        yield from self._some("wrong-terms", zero, -terms, 1, "{which} left out of {sum}")
        twice = self._make("mul", term.dtype, (two, term))
        yield from self._some("wrong-terms", twice, terms, 2, "{which} counted twice in {sum}")
        negative = self._make("sub", term.dtype, (zero, term))
        yield from self._some("wrong-operation", negative, -2 * terms, 2, "{which} subtracted in {sum}")

    def _edited(self) -> Iterator[Found]:
        """Made of something else."""
        edits, terms = self._edits, self._pool.terms
        for edit in itertools.chain(
            edits.rounded_inputs(), edits.operations(), edits.indices(), edits.of_tiles(), edits.roundings()
        ):
            if self._work.over():
                return
            try:
                change = self._pool.of_terms(edit.root) - terms
            except NotAFormula:
                continue
            if change.any() and np.isfinite(change).all():
                text = edit.text.replace("{", "").replace("}", "")
                what = f"{text}, in {{which}} of {{sum}}"
                yield from self._some(edit.pattern, edit.root, change, edit.cost + 1, what, **edit.details)

    def _moved(self) -> Iterator[Found]:
        """Those of another element, as where a tile's registers are mistaken for each other."""
        pool, spatial = self._pool, self._pool.whole.value.spatial
        for moved in _neighbours([extent for _, extent in spatial]):
            if self._work.over():
                return
            try:
                new = _at_another(self._formula, pool.whole, moved)
                change = pool.of_terms(new) - pool.terms
            except NotAFormula:
                continue
            if change.any() and np.isfinite(change).all():
                said = Move(tuple(("more", by) for by in moved)).words([extent for _, extent in spatial])
                what = f"{{which}} of {{sum}} taken from the element {said}".replace("too far", "on")
                what = what.replace("too early", "before")
                yield from self._some("wrong-index", new, change, 4, what, moved=list(moved))

    def _mixed(self) -> Iterator[Found]:
        """Several changes together, each of some terms."""
        pool, whole = self._pool, self._pool.whole
        for mixture in mixtures(self._changed, pool.off, pool.allowed, self._fitted, self._work):
            off = np.zeros(len(pool.off))
            term, begin = whole.operands
            texts = []
            for changed, places in mixture:
                off += changed.change[:, np.array(places)].sum(axis=1)
                term = self._make("some", term.dtype, (changed.node, term), places)
                texts.append(changed.text.format(which=which(places, pool.terms.shape[1]), sum=self._sum))
            changed_sum = self._make("reduce", whole.dtype, (term, begin), whole.value)
            pattern = next((one.pattern for one, _ in mixture if one.pattern == "wrong-index"), mixture[0][0].pattern)
            text, cost = " and ".join(texts), 4 + sum(one.cost for one, _ in mixture)
            yield from self._tested(off, pattern, text, cost, changed_sum, parts=len(mixture))

    def _factors(self) -> Iterator[Found]:
        """One factor is another, and nothing says which."""
        for one in other_factors(self._every, self._words):
            details = {"terms": list(one.places)[:64], "of": self._pool.whole.value.terms}
            yield Found(one.pattern, one.text, one.share, _FACTORS, None, details)

    def _some(self, pattern: str, new: Node, change: np.ndarray, cost: int, what: str, **known: Any) -> Iterator[Found]:
        """`new`: the term, where it is another; `change`: by how much each is."""
        pool, whole = self._pool, self._pool.whole
        term, begin = whole.operands
        if pattern in _MIXED and len(self._changed) < _MOST_CHANGES:
            self._changed.append(Changed(new, change, pattern, what, cost, known))
        self._work.add(4 * change.size, 80)
        for places, said, extra in choices(change, pool.off, pool.allowed, self._fitted):
            off = change[:, np.array(places)].sum(axis=1)
            some = self._make("some", term.dtype, (new, term), places)
            changed = self._make("reduce", whole.dtype, (some, begin), whole.value)
            text = what.format(which=said, sum=self._sum)
            details = {**known, "terms": list(places)[:64], "of": change.shape[1]}
            yield from self._tested(off, pattern, text, cost + extra, changed, **details)

    # ------------------------------------------------ the sum so far

    def _chains(self) -> Iterator[Found]:
        if len(self._held) < 3:
            return
        term = self._pool.whole.operands[0]
        factors: Sequence[np.ndarray] = []
        if term.kind == "mul":
            factors = [self._pool.of_terms(operand) for operand in term.operands]
        for off, pattern, text, details in chains(self._pool.terms, factors):
            self._work.add(self._pool.terms.size, 10)
            if self._work.over():
                return
            # Of sums below 1 an integer leaves nothing: that is as if the terms before were left out.
            cost = _PLAIN + (details.get("dtype") in WHOLE)
            yield from self._tested(off, pattern, text.format(sum=self._sum), cost, None, **details)


def _neighbours(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """How far the elements of a tile are from each other, along one axis or two."""
    axes = [axis for axis, extent in enumerate(extents) if extent > 1]
    for axis in axes:
        for by in (by for size in _APART for by in (size, -size) if size < extents[axis]):
            yield tuple(by if place == axis else 0 for place in range(len(extents)))
    near = (-3, -2, -1, 1, 2, 3)
    for one, other in itertools.combinations(axes, 2):
        for by, across in itertools.product(near, near):
            yield tuple(by if place == one else across if place == other else 0 for place in range(len(extents)))


def _at_another(formula: Formula, whole: Node, moved: Sequence[int]) -> Node:
    """The terms of the sum of another element; beyond an edge there is none, and tiles are filled with zeros."""
    make, term = formula.nodes.make, whole.operands[0]
    inside: Node | None = None
    indices: dict[str, Node] = {}
    for (name, extent), by in zip(whole.value.spatial, moved, strict=True):
        variables = [node for node in within(term) if node.kind == "variable" and node.value == name]
        for variable in variables[:1] if by else ():
            index = make("add", variable.dtype, (variable, formula.nodes.constant(by, variable.dtype)))
            indices[name] = index
            ends = (
                make("ge", "bool", (index, formula.nodes.constant(0, variable.dtype))),
                make("lt", "bool", (index, formula.nodes.constant(extent, variable.dtype))),
            )
            for end in ends:
                inside = end if inside is None else make("and", "bool", (inside, end))
    if inside is None:
        raise NotAFormula("its terms are the same there")
    done: dict[int, Node] = {}
    for node in in_order(term, reductions=False):
        operands = tuple(done.get(id(operand), operand) for operand in node.operands)
        known = node.kind == "variable" and node.value in indices
        done[id(node)] = indices[str(node.value)] if known else formula.nodes.with_operands(node, operands)
    zero = formula.nodes.constant(0.0, term.dtype)
    return make("select", term.dtype, (inside, done[id(term)], zero))


def _plain(value: float) -> float:
    """With as few digits as a thousandth of a percent leaves."""
    for digits in range(1, 7):
        found = float(f"{value:.{digits - 1}e}")
        if abs(found - value) <= 1e-5 * abs(value):
            return found
    return value
