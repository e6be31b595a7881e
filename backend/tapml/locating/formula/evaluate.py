"""What a formula gives at some elements of its output, in float64: only what those need is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapml.locating.formula.build import Formula
from tapml.locating.formula.functions import constant, operation, placed, plain
from tapml.locating.formula.narrow import COARSE, NARROW
from tapml.locating.formula.nodes import Node, NotAFormula, Reduction, in_order
from tapml.locating.formula.work import Work
from tapml.operators.program import FLOATS

MOST_POINTS = 1 << 19
"""Of a reduction that are held at once."""

_FEW = 4

Rounding = Callable[[np.ndarray], np.ndarray]


class Scope:
    """Values of variables, as columns (points) and rows (terms of a reduction), and what was computed of them."""

    def __init__(self, variables: Mapping[str, np.ndarray], terms: int = 0) -> None:
        """`terms`: of the reduction that it is of, if any."""
        self.variables = variables
        self.terms = terms
        self.known: dict[int, np.ndarray] = {}
        self.passing: dict[int, np.ndarray] = {}
        """Of nodes that an edit made, as long as it is computed."""


class Values:
    """Computes a formula, and those that edits make of it, over the inputs of one call. Results of the formula's own
    nodes are kept."""

    def __init__(
        self,
        formula: Formula,
        inputs: Sequence[np.ndarray],
        rounding: Rounding | None = None,
        work: Work | None = None,
    ) -> None:
        """`rounding`: of every floating-point result, those of each step of a sum among them; `work`: where what is
        computed is counted.

        Raises NotAFormula where the inputs are not those of the formula.
        """
        self._arrays: dict[str, np.ndarray] = {}
        for name, place in formula.inputs.items():
            shape = formula.shapes[name]
            if place >= len(inputs) or inputs[place].size != math.prod(shape):
                raise NotAFormula("its inputs are others")
            self._arrays[name] = np.ascontiguousarray(plain(inputs[place])).reshape(shape)
        self._formula = formula
        self._rounding = rounding
        self._work = work
        self._own = {id(node) for node in in_order(formula.root)}
        self._scopes: dict[tuple[Any, ...], Scope] = {}
        self._rest = 64 * MOST_POINTS
        """Points that may be computed in all."""

    def few(self, buffer: object) -> bool:
        """Has this input so few different values, as a mask has, that another element is one of them by chance?"""
        array = self._arrays.get(str(buffer))
        return array is not None and len(np.unique(array)) <= _FEW

    def at(self, root: Node, places: np.ndarray) -> np.ndarray:
        """The output's elements at these places in memory, float64 or int64. Raises NotAFormula."""
        scope = self._output(places)
        with np.errstate(all="ignore"), self._forgetting(root):
            found = self.value(root, scope)
        return np.broadcast_to(found, (len(places), 1))[:, 0]

    def beside(self, root: Node, places: np.ndarray) -> np.ndarray:
        """The same for each element of the input that an "every" stands for: (places, its elements)."""
        with np.errstate(all="ignore"), self._forgetting(root):
            found = self.value(root, self._output(places))
        return np.asarray(found, np.float64)

    def of_terms(self, whole: Node, node: Node, places: np.ndarray) -> np.ndarray:
        """A node in the scope of a reduction's terms: (places, terms). Raises NotAFormula."""
        scope = self.scope_of(whole, places)
        with np.errstate(all="ignore"), self._forgetting(node):
            found = self.value(node, scope)
        return np.broadcast_to(found, (len(places), scope.terms)).astype(np.float64)

    @contextmanager
    def _forgetting(self, root: Node) -> Iterator[None]:
        """What was computed for an edit is not kept: there are thousands."""
        before = len(self._scopes)
        try:
            yield
        finally:
            for scope in self._scopes.values():
                scope.passing.clear()
            if id(root) not in self._own:
                for key in list(self._scopes)[before:]:
                    del self._scopes[key]

    def read_at(self, read: Node, places: np.ndarray) -> np.ndarray:
        """Where in a reduction's buffer the output's elements at `places` read."""
        found = self._places(read, self._output(places))
        return np.broadcast_to(found, (len(places), 1))[:, 0]

    def _output(self, places: np.ndarray) -> Scope:
        shape = self._formula.shape
        key = ("", places.tobytes())
        if key not in self._scopes:
            indices = np.unravel_index(places, shape) if shape else ()
            columns = {name: index[:, None] for name, index in zip(self._formula.variables, indices, strict=True)}
            self._scopes[key] = Scope(columns)
        return self._scopes[key]

    # ------------------------------------------------ nodes

    def value(self, node: Node, scope: Scope) -> np.ndarray:
        """An array of (points or 1, terms or 1)."""
        kept = scope.known if id(node) in self._own else scope.passing
        found = kept.get(id(node))
        if found is None:
            found = self._computed(node, scope)
            if self._rounding is not None and node.dtype in FLOATS and node.kind not in ("load", "placed"):
                found = self._rounding(found)
            kept[id(node)] = found
            if self._work is not None:
                self._work.add(found.size)
        return found

    def _computed(self, node: Node, scope: Scope) -> np.ndarray:
        kind = node.kind
        if kind == "constant":
            return constant(node)
        if kind == "variable":
            if node.value in scope.variables:
                return scope.variables[str(node.value)]
            if str(node.value).startswith("_"):
                return np.zeros((1, 1), np.int64)
            raise NotAFormula(f"{node.value} is not known here")
        if kind in ("load", "placed"):
            return self._load(node, scope)
        if kind == "every":
            if scope.terms:
                raise NotAFormula("every element for each term")
            return self._arrays[node.value].reshape(1, -1)
        if kind == "given":
            if scope.terms:
                raise NotAFormula("a value for each term")
            return np.asarray(node.value)
        if kind == "read":
            return self._read(node, scope)
        operands = [self.value(operand, scope) for operand in node.operands]
        if kind == "some":
            among = np.zeros((1, scope.terms), np.bool_)
            among[0, np.array(node.value)] = True
            return np.where(among, operands[0], operands[1])
        if kind == "rounded":
            return (NARROW.get(node.value) or COARSE[node.value])(operands[0])
        return operation(node, operands)

    def _load(self, node: Node, scope: Scope) -> np.ndarray:
        array = self._arrays[node.value if node.kind == "load" else node.value[0]]
        indices = [self.value(operand, scope) for operand in node.operands]
        strides = [stride // array.itemsize for stride in array.strides]
        place = sum(
            (index * stride for index, stride in zip(indices, strides, strict=True)), np.zeros((1, 1), np.int64)
        )
        if place.dtype.kind != "i":
            raise NotAFormula("an index that is no whole number")
        if node.kind == "placed" and node.value[1] == "instead":
            array = self._arrays[node.value[2]]
        elif node.kind == "placed":
            place = placed(place, *node.value[1:])
        # Indices need not be in range: what is beyond a row is in the next one, as in a kernel, and what is out of the
        # buffer is the last element, as WebGPU's implementations have it.
        return array.reshape(-1)[np.where((place >= 0) & (place < array.size), place, array.size - 1)]

    def _read(self, node: Node, scope: Scope) -> np.ndarray:
        whole = node.operands[0]
        shifted: Mapping[int, float] | None = None
        if whole.kind == "shifted":
            shifted, whole = whole.value, whole.operands[0]
        places = self._places(node, scope)
        distinct, back = np.unique(places, return_inverse=True)
        results = self.results(whole, distinct)
        if shifted is not None:
            results = results + np.array([shifted.get(int(place), 0.0) for place in distinct])
        return results[back.reshape(places.shape)]

    def _places(self, node: Node, scope: Scope) -> np.ndarray:
        whole, *indices = node.operands
        if whole.kind == "shifted":
            whole = whole.operands[0]
        extents = [extent for _, extent in whole.value.spatial]
        if not indices:
            return np.zeros((1, 1), np.int64)
        at = [np.clip(self.value(index, scope), 0, extent - 1) for index, extent in zip(indices, extents, strict=True)]
        return np.asarray(np.ravel_multi_index(np.broadcast_arrays(*at), extents))

    # ------------------------------------------------ reductions

    def results(self, whole: Node, places: np.ndarray) -> np.ndarray:
        """Of a reduction, at some places of its buffer in memory."""
        scope = self.scope_of(whole, places)
        kept = scope.known if id(whole) in self._own else scope.passing
        found = kept.get(id(whole))
        if found is None:
            terms = np.broadcast_to(self.value(whole.operands[0], scope), (len(places), scope.terms))
            start = self.value(whole.operands[1], scope)
            found = kept[id(whole)] = self._reduced(whole, terms, start)
        return found

    def scope_of(self, whole: Node, places: np.ndarray) -> Scope:
        """The scope in which the terms of a reduction stand."""
        reduction: Reduction = whole.value
        key = (reduction.spatial, reduction.axes, places.tobytes())
        found = self._scopes.get(key)
        if found is None:
            terms = reduction.terms
            self._rest -= terms * len(places)
            if terms * len(places) > MOST_POINTS or self._rest < 0:
                raise NotAFormula("it is too much to compute")
            columns: dict[str, np.ndarray] = {}
            if reduction.spatial:
                at = np.unravel_index(places, tuple(extent for _, extent in reduction.spatial))
                columns = {name: index[:, None] for (name, _), index in zip(reduction.spatial, at, strict=True)}
            rows = np.unravel_index(np.arange(terms), tuple(extent for _, extent in reduction.axes))
            columns |= {name: index[None, :] for (name, _), index in zip(reduction.axes, rows, strict=True)}
            found = self._scopes[key] = Scope(columns, terms)
        return found

    def _reduced(self, whole: Node, terms: np.ndarray, start: np.ndarray) -> np.ndarray:
        kind, begin = whole.value.kind, start.reshape(-1)
        if kind == "max":
            return np.asarray(np.maximum(terms.max(axis=1), begin))
        if kind == "min":
            return np.asarray(np.minimum(terms.min(axis=1), begin))
        if self._rounding is None or whole.dtype not in FLOATS:
            return np.asarray(terms.sum(axis=1) + begin)
        # In the order of the terms, eight sums beside each other where there are many: as kernels do.
        lanes = 8 if terms.shape[1] >= 32 else 1
        total = np.zeros((terms.shape[0], lanes))
        for place in range(0, terms.shape[1], lanes):
            part = terms[:, place : place + lanes]
            total[:, : part.shape[1]] = self._rounding(total[:, : part.shape[1]] + part)
        found = begin + np.zeros(terms.shape[0])
        for lane in range(lanes):
            found = self._rounding(found + total[:, lane])
        return found
