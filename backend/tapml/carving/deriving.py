"""Bounds of all calls, derived kernel by kernel in two processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tapml.bounds import Converted
from tapml.carving.runs import Run
from tapml.carving.spill import let_go
from tapml.compare.operators import OperatorTolerances
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.lower import Model
from tapml.memory import Trimming
from tapml.operators.numerics import stated
from tapml.processes import Shared
from tapml.program import Graph, Node
from tapml.suite import TensorRef, Tolerance

_CALL = 10_000
"""Elements that take as long as a call itself does."""

_MANY = 4
"""Calls of a kernel: fewer are not worth stacking."""
_MOST_TOGETHER = 8 << 20
"""Bytes that such calls take and give: they are read, and their bounds held, until all of them are known."""

_WORTH_A_PROCESS = 1_000_000
"""Elements, calls among them: bounds of fewer are derived faster than a second process starts."""

Put = Callable[[np.ndarray], TensorRef]


Call = tuple[int, str]
"""A run's number, and a node of its graph."""


@dataclass(frozen=True)
class Bounds:
    """`tolerances` that were derived, and of calls of kernels of which some were not: what estimates those."""

    tolerances: dict[Call, tuple[Tolerance, ...]] = field(default_factory=dict)
    left: dict[Call, OperatorTolerances] = field(default_factory=dict)


@dataclass(frozen=True)
class _Derived:
    """Of the calls of a kernel: their tolerances, and why there are none of those that are missing."""

    tolerances: Mapping[Call, tuple[Tolerance, ...]]
    obstacle: str


class _OfKernel:
    """The calls of one kernel at the sizes of one graph."""

    def __init__(self, model: Model, kernel: CompiledKernel, name: str, put: Put) -> None:
        self._program, self._kernel, self._put = model.programs[name], kernel, put
        self.calls: list[tuple[Run, Node]] = []

    @property
    def elements(self) -> int:
        """That are given by them all, and what calls take besides."""
        return sum(_CALL + sum(run.graph.values[value].type.size for value in node.outputs) for run, node in self.calls)

    def tolerances(self, converted: Converted | None = None) -> OperatorTolerances:
        texts = [file.text for file in self._kernel.files]
        return OperatorTolerances(self._program, texts, self._put, stated(self._kernel.document), converted)

    def derived(self) -> _Derived:
        """Of all calls in order. Raises OSError where a bound cannot be written."""
        readers = (run.arrays[value] for run, node in self.calls for value in node.inputs)
        operator = self.tolerances(Converted(readers))
        if (together := self._together(operator)) is not None:
            return _Derived(together, "")
        trimming = Trimming()
        found = {}
        for run, node in self.calls:
            inputs, expected = _arrays(run, node)
            tolerances = operator.derived(inputs, expected)
            if tolerances is not None:
                found[run.number, node.id] = tolerances
            let_go([*inputs, *expected])
            trimming.went_through(sum(array.nbytes for array in expected))
        return _Derived(found, operator.obstacle)

    def _together(self, operator: OperatorTolerances) -> dict[Call, tuple[Tolerance, ...]] | None:
        """Of many small calls."""
        if len(self.calls) < _MANY:
            return None
        calls = [_arrays(run, node) for run, node in self.calls]
        arrays = {id(array): array for inputs, expected in calls for array in (*inputs, *expected)}
        times = Counter(id(array) for inputs, expected in calls for array in (*inputs, *expected))
        # Weights that all of them read are in memory anyway.
        if sum(array.nbytes for key, array in arrays.items() if times[key] < _MANY) > _MOST_TOGETHER:
            return None
        try:
            found = operator.derived_together(calls)
        finally:
            let_go(arrays.values())
        if found is None:
            return None
        return {(run.number, node.id): of_call for (run, node), of_call in zip(self.calls, found, strict=True)}


def _arrays(run: Run, node: Node) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """A call's inputs and outputs."""
    return [run.arrays[value] for value in node.inputs], [run.arrays[value] for value in node.outputs]


class Deriving:
    """Derives the bounds of all calls of runs. In its `with` block a second process does, where that is worth it."""

    def __init__(
        self, runs: Sequence[Run], models: Mapping[Graph, Model], kernels: Mapping[str, CompiledKernel], put: Put
    ) -> None:
        """`models` by the graph of a run; `put` stores a bound."""
        found: dict[tuple[Graph, str], _OfKernel] = {}
        for run in runs:
            for node in run.graph.kernel_nodes:
                key = run.graph, node.kernel
                if key not in found:
                    found[key] = _OfKernel(models[run.graph], kernels[node.kernel], node.kernel, put)
                found[key].calls.append((run, node))
        # What takes long comes first, so that both end at about the same time.
        in_order = sorted(found.values(), key=lambda of_kernel: of_kernel.elements, reverse=True)
        self._left = {str(number): of_kernel for number, of_kernel in enumerate(in_order)}
        worth = sum(of_kernel.elements for of_kernel in in_order) >= _WORTH_A_PROCESS
        self._shared = Shared([(name, of.derived) for name, of in self._left.items()] if worth else [])

    def __enter__(self) -> Deriving:
        self._shared.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._shared.__exit__(*error)

    def bounds(self, progress: Callable[[int], None]) -> Bounds:
        """Of all calls, once; `progress` with so many calls more. Raises OSError where a bound cannot be written."""
        found = Bounds()

        def add(of_kernel: _OfKernel, derived: _Derived) -> None:
            found.tolerances.update(derived.tolerances)
            if len(derived.tolerances) < len(of_kernel.calls):
                left = of_kernel.tolerances()
                left.obstacle = derived.obstacle
                found.left.update(dict.fromkeys(((run.number, node.id) for run, node in of_kernel.calls), left))
            progress(len(of_kernel.calls))

        for name, derived in self._shared.results():
            add(self._left.pop(name), derived)
        for of_kernel in self._left.values():  # all, or what a process that died has left
            add(of_kernel, of_kernel.derived())
        return found
