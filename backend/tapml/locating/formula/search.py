"""Which small change of an operator's program gives what the device gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tapml.locating.formula.edits import Edit, Edits
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.nodes import Node, NotAFormula
from tapml.locating.formula.numbers import solved
from tapml.locating.formula.sample import Part, Sample
from tapml.locating.formula.work import Work

_CANDIDATES = 24

_TELLS = 0.9
"""An explanation that leaves so many right elements as they are tells which ones are wrong."""

_DIFFERENT = 3

LEAST = 0.5
"""Of what an explanation was not made from it has to give so much."""


@dataclass(frozen=True)
class Explanation:
    """An edit, the share of held-out wrong elements that it predicts, and that of right ones that it leaves as they
    are; in the call where it is the least."""

    edit: Edit
    share: float
    unchanged: float

    @property
    def enough(self) -> bool:
        """Does it give nearly all, and tell which elements are wrong?"""
        return self.share >= 0.9 and self.unchanged >= _TELLS

    @property
    def key(self) -> tuple[float, float, float]:
        """The best is the least."""
        return -round(self.share, 1), -round(self.unchanged, 1), self.edit.cost


class Search:
    """One output of one call."""

    def __init__(
        self, edits: Edits, values: Values, sample: Sample, beside: Sequence[tuple[Values, Sample]], work: Work
    ) -> None:
        """`beside`: other calls, on which it is tested too; `work`: counts what the values compute."""
        self._edits = edits
        self._values = values
        self._sample = sample
        self._beside = beside
        self._work = work

    def over(self) -> bool:
        return self._work.over()

    def best(self, *groups: Iterable[Edit]) -> list[Explanation]:
        """Those that explain half of the held-out elements or more, the best first; what later groups would say is
        not asked where an earlier one is `enough`."""
        found: list[Explanation] = []
        for group in groups:
            found += self._tested(self._candidates(group))
            if self.over() or any(one.enough for one in found):
                break
        return sorted(found, key=lambda one: one.key)

    def _candidates(self, edits: Iterable[Edit]) -> list[Edit]:
        fitted = self._sample.fitted
        least = max(1, round(0.25 * len(fitted)))
        found: list[tuple[int, int, Edit]] = []
        for edit in edits:
            predicted = self.predicted(edit, fitted)
            n = 0 if predicted is None else int(fitted.matches(predicted).sum())
            if n >= least:
                found.append((-n, edit.cost, edit))
            if self.over():
                break
        found.sort(key=lambda entry: entry[:2])
        return [edit for _, _, edit in found[:_CANDIDATES]]

    def _tested(self, edits: Iterable[Edit]) -> Iterator[Explanation]:
        for edit in edits:
            found = self.tested(edit)
            if found is not None:
                yield found

    def tested(self, edit: Edit) -> Explanation | None:
        """How well it predicts the elements that it was not made from; None where it does not for half of them."""
        calls = [(self._values, self._sample), *self._beside]
        shares: list[float] = []
        unchanged: list[float] = []
        for number, (values, parts) in enumerate(calls):
            held = parts.held if number == 0 else parts.every_wrong
            if len(held):
                predicted = _at(values, edit, held)
                share = None if predicted is None else held.accepted(predicted, LEAST)
                if share is None:
                    return None
                shares.append(share)
            beside = _at(values, edit, parts.right)
            unchanged.append(parts.right.unchanged(beside) if beside is not None else 0.0)
        if edit.whole is not None and not _several(self._values, edit.whole, self._sample.held):
            return None
        if not shares or (min(unchanged) < _TELLS and self._values.few(edit.details.get("read"))):
            return None
        return Explanation(edit, min(shares), min(unchanged))

    def predicted(self, edit: Edit, part: Part) -> np.ndarray | None:
        """What the edited formula gives there; None where it cannot be computed."""
        return _at(self._values, edit, part)

    def numbers(self, *, plain: bool = False) -> Iterator[Edit]:
        """Constants as they would have to be; `plain`: of numbers that one is likely to write."""
        for node, path in self._edits.constants():
            if self.over():
                return
            value = solved(
                float(node.value),
                lambda value, node=node, path=path: self._values.at(  # type: ignore[misc]
                    self._edits.with_constant(node, path, value), self._sample.fitted.places
                ),
                self._sample.fitted,
                plain=plain,
            )
            if value is not None:
                yield self._edits.of_constant(node, path, value)


def _several(values: Values, whole: Node, part: Part) -> bool:
    """Is a rounded value more than 0 and one other?"""
    return len(np.unique(values.at(whole, part.places))) >= _DIFFERENT


def _at(values: Values, edit: Edit, part: Part) -> np.ndarray | None:
    try:
        return values.at(edit.root, part.places).astype(np.float64)
    except NotAFormula:
        return None
