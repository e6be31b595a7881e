"""Which terms of a sum went wrong, and how: left out, counted twice, made of other elements, rounded on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapml.locating.evidence import short
from tapml.locating.formula.build import Formula
from tapml.locating.formula.chains import chains
from tapml.locating.formula.choices import choices
from tapml.locating.formula.edits import Edits
from tapml.locating.formula.nodes import Node, NotAFormula
from tapml.locating.formula.sums import Pool
from tapml.locating.formula.words import Words


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

    def __init__(self, pool: Pool, formula: Formula, words: Words) -> None:
        self._pool = pool
        self._make = formula.nodes.make
        self._edits = Edits(formula, words, pool.whole.operands[0])
        order = np.random.default_rng(0).permutation(len(pool.off))
        half = (len(order) + 1) // 2
        self._fitted, self._held = np.sort(order[:half]), np.sort(order[half:])
        self._sum = words.of(pool.whole)

    def found(self) -> list[Found]:
        """The best first; those that hold for half of the results."""
        if not len(self._held):
            return []
        found = [*self._whole(), *self._of_terms()]
        if len(self._held) > 2 and not any(one.share >= 0.9 and one.cost <= _PLAIN for one in found):
            found += self._chains()
        return sorted(found, key=lambda one: (-round(one.share, 1), one.cost))

    def _tested(
        self, off: np.ndarray, pattern: str, text: str, cost: int, whole: Node | None, **details: Any
    ) -> Iterator[Found]:
        right = self._pool.matches(off)
        if right[self._fitted].mean() >= 0.5 and (share := float(right[self._held].mean())) >= 0.5:
            yield Found(pattern, text, share, cost, whole, details)

    # ------------------------------------------------ the whole sum

    def _whole(self) -> Iterator[Found]:
        pool, fitted = self._pool, self._fitted
        whole = pool.whole
        term, begin = whole.operands
        added = _plain(float(np.median(pool.off[fitted])))
        if np.isfinite(added):
            start = Node("constant", "float64", (), added + float(begin.value or 0))
            changed = self._make("reduce", whole.dtype, (term, start), whole.value)
            text = f"{self._sum} beginning at {short(start.value)} in place of {short(float(begin.value or 0))}"
            yield from self._tested(np.full(len(pool.off), added), "wrong-terms", text, 1, changed, start=start.value)
        with np.errstate(all="ignore"):
            factor = 1.0 + float(np.median(pool.off[fitted] / pool.results[fitted]))
        if np.isfinite(factor):
            times = _plain(factor)
            number = Node("constant", "float64", (), times)
            product = self._make("mul", whole.dtype, (term, number))
            changed = self._make("reduce", whole.dtype, (product, begin), whole.value)
            text = f"{self._sum} {short(times)} times as large"
            yield from self._tested((times - 1) * pool.results, "scale", text, 3, changed, factor=times)

    # ------------------------------------------------ some of its terms

    def _of_terms(self) -> Iterator[Found]:
        pool, whole = self._pool, self._pool.whole
        term, begin = whole.operands
        count = pool.terms.shape[1]
        if count < 2:
            return
        for pattern, new, change, cost, what in self._changes():
            for places, which, extra in choices(change, pool.off, pool.allowed, self._fitted):
                off = change[:, np.array(places)].sum(axis=1)
                some = self._make("some", term.dtype, (new, term), places)
                changed = self._make("reduce", whole.dtype, (some, begin), whole.value)
                text = what.format(which=which, sum=self._sum)
                details = {"terms": list(places)[:64], "of": count}
                yield from self._tested(off, pattern, text, cost + extra, changed, **details)

    def _changes(self) -> Iterator[tuple[str, Node, np.ndarray, int, str]]:
        """(pattern, the new term, by how much each term changes, cost, in words)."""
        terms = self._pool.terms
        term = self._pool.whole.operands[0]
        zero, two = (Node("constant", term.dtype, (), number) for number in (0.0, 2.0))
        yield "wrong-terms", zero, -terms, 1, "{which} left out of {sum}"
        yield "wrong-terms", self._make("mul", term.dtype, (two, term)), terms, 2, "{which} counted twice in {sum}"
        negative = self._make("sub", term.dtype, (zero, term))
        yield "wrong-operation", negative, -2 * terms, 2, "{which} subtracted in {sum}"
        for edit in [*self._edits.all(), *self._edits.of_tiles(), *self._edits.roundings()]:
            try:
                change = self._pool.of_terms(edit.root) - terms
            except NotAFormula:
                continue
            if change.any() and np.isfinite(change).all():
                text = edit.text.replace("{", "").replace("}", "")
                yield edit.pattern, edit.root, change, edit.cost + 1, f"{text}, in {{which}} of {{sum}}"

    # ------------------------------------------------ the sum so far

    def _chains(self) -> Iterator[Found]:
        term = self._pool.whole.operands[0]
        factors: Sequence[np.ndarray] = []
        if term.kind == "mul":
            factors = [self._pool.of_terms(operand) for operand in term.operands]
        for off, pattern, text, details in chains(self._pool.terms, factors):
            yield from self._tested(off, pattern, text.format(sum=self._sum), 5, None, **details)


def _plain(value: float) -> float:
    """With as few digits as a thousandth of a percent leaves."""
    for digits in range(1, 7):
        found = float(f"{value:.{digits - 1}e}")
        if abs(found - value) <= 1e-5 * abs(value):
            return found
    return value
