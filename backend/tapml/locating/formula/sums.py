"""What a device's sums must have been, worked back from its output."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tapml.locating.evidence import allowance
from tapml.locating.formula.edits import Edits
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.nodes import Node, within
from tapml.locating.formula.sample import Part

_STEPS = 10

_TIMES = (-1.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.6, 3.0, 10.0, 100.0)
"""So many times a result are tried as the beginning of the search for what it must have been: under a root, half of a
sum of squares is far from all of it."""


@dataclass(frozen=True)
class Sums:
    """Of one reduction, at some `places` of its buffer in one call. `off`: what the device's results are off by;
    `allowed`: what that may be off by itself; `results`: as they should have been. `consistent`: the share of elements
    that come out right with these, of those that they were not worked back from."""

    values: Values
    whole: Node
    places: np.ndarray
    off: np.ndarray
    allowed: np.ndarray
    results: np.ndarray
    consistent: float | None

    def limited(self, most: int) -> Sums:
        """Some of them."""
        some = np.random.default_rng(0).permutation(len(self.off))[:most]
        found = (array[some] for array in (self.places, self.off, self.allowed, self.results))
        places, off, allowed, results = found
        return Sums(self.values, self.whole, places, off, allowed, results, self.consistent)

    def of_terms(self, node: Node) -> np.ndarray:
        """A part of the reduction's terms: (places, terms). Raises NotAFormula."""
        return self.values.of_terms(self.whole, node, self.places)


class Pool:
    """The sums of some calls together."""

    def __init__(self, sums: Sequence[Sums]) -> None:
        """At least one, all of the same reduction."""
        self._sums = sums
        self.whole = sums[0].whole
        self.off = np.concatenate([one.off for one in sums])
        self.allowed = np.concatenate([one.allowed for one in sums])
        self.results = np.concatenate([one.results for one in sums])
        known = [one.consistent for one in sums if one.consistent is not None]
        self.shared = bool(known)
        """Does a result make several elements?"""
        self.consistent = min(known, default=1.0)

    def limited(self, most: int) -> Pool:
        """Some of them, from all calls."""
        each = -(-most // len(self._sums))
        return Pool([one.limited(each) for one in self._sums])

    @cached_property
    def terms(self) -> np.ndarray:
        """As they should have been: (sums, terms)."""
        return self.of_terms(self.whole.operands[0])

    def of_terms(self, node: Node) -> np.ndarray:
        return np.concatenate([one.of_terms(node) for one in self._sums])

    def alike(self, variables: Set[str]) -> np.ndarray:
        """The number of each sum's group: those of one call, at one place along the axes of these variables."""
        found = []
        for call, one in enumerate(self._sums):
            spatial = self.whole.value.spatial
            at = np.unravel_index(one.places, tuple(extent for _, extent in spatial)) if spatial else ()
            chosen = [index for (name, _), index in zip(spatial, at, strict=True) if name in variables]
            found.append(np.stack([np.full(len(one.places), call), *chosen], axis=1))
        return np.unique(np.concatenate(found), axis=0, return_inverse=True)[1].reshape(-1)

    @property
    def information(self) -> float:
        """How much a hypothesis is tested that gives all of them right by chance with a probability of exp(-this)."""
        with np.errstate(all="ignore"):
            each = np.log(np.abs(self.off) / np.maximum(self.allowed, 0.1 * np.abs(self.off) * 1e-6))
        return float(np.clip(each, 0.0, 7.0).sum())

    def matches(self, off: np.ndarray) -> np.ndarray:
        """Where a hypothesis gives what they are off by."""
        with np.errstate(invalid="ignore"):
            left = np.abs(off - self.off)
        found: np.ndarray = (left <= self.allowed) & (left <= 0.1 * np.abs(self.off))
        return found


def readers(root: Node) -> list[tuple[Node, Node]]:
    """Reductions that the output reads at one place each, and who reads them."""
    found: dict[int, tuple[Node, Node]] = {}
    several: set[int] = set()
    for node in within(root):
        if node.kind == "read":
            whole = node.operands[0]
            if id(whole) in found:
                several.add(id(whole))
            found[id(whole)] = (whole, node)
    return [value for key, value in found.items() if key not in several]


def worked_back(edits: Edits, whole: Node, reader: Node, values: Values, part: Part) -> Sums | None:
    """What the results of `whole` must have been for these elements; None where nothing says it.

    Each of them is moved, by the secant method, until one element that is made of it is what the device gave.
    """
    if not len(part):
        return None
    places = values.read_at(reader, part.places)
    distinct, back = np.unique(places, return_inverse=True)
    # Where a result makes several elements, the one that is furthest outside its bound tells it best.
    order = np.argsort(-np.abs(part.got - part.expected) / np.maximum(part.bound, 1e-300), kind="stable")
    anchors = order[np.unique(back[order], return_index=True)[1]]
    results = values.results(whole, distinct).astype(np.float64)

    def given(amounts: np.ndarray) -> np.ndarray:
        shifted = Node("shifted", whole.dtype, (whole,), dict(zip(distinct.tolist(), amounts.tolist(), strict=True)))
        found: np.ndarray = values.at(edits.uses.replaced(whole, shifted), part.places)
        return found.astype(np.float64)

    got, bound = part.got[anchors], part.bound[anchors]
    off = np.zeros(len(distinct))
    step = 1e-3 * np.maximum(np.abs(results), np.median(np.abs(results)) + 1e-30)
    before, slope = given(off)[anchors], np.ones(len(distinct))
    with np.errstate(all="ignore"):
        # Where nothing depends on the sum (ReLU of what is negative), it has to have been another one altogether.
        near = np.abs(before - got)
        for times in _TIMES:
            begin = (times - 1) * results
            left = np.abs(given(begin)[anchors] - got)
            off, near = np.where(left < 0.5 * near, begin, off), np.fmin(left, near)
        step = np.where(off == 0, step, 1e-3 * np.abs(results + off))
        before, after = given(off)[anchors], off + step
        for _ in range(_STEPS):
            now = given(after)[anchors]
            new = (now - before) / (after - off)
            slope = np.where(np.isfinite(new) & (new != 0), new, slope)
            following = after - (now - got) / slope
            off, before = after, now
            if bool((np.abs(now - got) <= 0.01 * bound).all()):
                break
            after = np.where(np.isfinite(following), following, after)
        allowed = allowance(got, got, part.expected[anchors], bound) / np.abs(slope)
        solved = (np.abs(before - got) <= np.maximum(bound, 1e-6 * np.abs(got))) & np.isfinite(off) & (off != 0)
    if not solved.size or solved.mean() < 0.5:
        return None
    others = np.setdiff1d(np.arange(len(part)), anchors)
    consistent = float(part.matches(given(off))[others].mean()) if len(others) else None
    return Sums(values, whole, distinct[solved], off[solved], allowed[solved], results[solved], consistent)
