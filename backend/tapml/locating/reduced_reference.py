"""What is expected of inputs that nobody carved: the reference's result, and how far a device may be from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tapml.compare.elements import bound_of
from tapml.compare.operators import OperatorTolerances
from tapml.compare.tolerance import perturb
from tapml.errors import InputError
from tapml.files import sha256
from tapml.locating.evidence import Evidence
from tapml.lowering.lower import Model
from tapml.operators.numerics import stated
from tapml.operators.of_suite import read_operator
from tapml.platforms.reference import Reference, to_numpy
from tapml.suite import CarvedTest, Suite, TensorRef, Tolerance


@dataclasses.dataclass(frozen=True)
class Expected:
    """One output: the reference's value, and what a device may differ by (`bound`: float64, for each element)."""

    value: np.ndarray
    tolerance: Tolerance
    bound: np.ndarray

    def evidence(self, got: np.ndarray) -> Evidence:
        """Of what a device gave. Where the reference itself gives no number nothing is said of the kernel."""
        unknown = ~np.isfinite(self.value.astype(np.float64))
        return Evidence(got, self.value, self.bound, accepted=unknown)


@dataclasses.dataclass(frozen=True)
class Reduced:
    """What remained: inputs, what the reference gives for them, what the device gave; tensors of tolerances."""

    inputs: list[np.ndarray]
    expected: list[Expected]
    outputs: list[Evidence]
    tensors: Mapping[str, np.ndarray]


class ReducedReference:
    """One operator of a suite's model on the reference platform, for any inputs of its types."""

    def __init__(self, suite: Suite, test: CarvedTest) -> None:
        """Raises InputError where the suite has no model, or not this operator in it (imported tests)."""
        graph = suite.graphs[test.step] if test.step < len(suite.graphs) else suite.model_graph
        node = next((node for node in graph.nodes if node.id == test.node), None)
        if node is None:
            raise InputError(
                f"{test.id} was imported, and {suite.path} does not have its operator's program: "
                "reduce it in the suite that it was carved in"
            )
        # Only this operator is built for the reference: a model's others take seconds.
        program = read_operator(suite, node.kernel, graph)
        self._reference = Reference(Model(graph, [], {node.kernel: program}))
        self._kernel, self._sizes = node.kernel, graph.sizes
        self._types = [graph.values[name].type for name in node.outputs]
        self.tensors: dict[str, np.ndarray] = {}
        """Of the latest tolerances, by digest."""
        texts = [file.text for file in suite.kernel_files(test.kernel)]
        self._tolerances = OperatorTolerances(program, texts, self._put, stated(suite.bundle(test.kernel)))

    def expected_and_tolerance(self, inputs: Sequence[np.ndarray]) -> list[Expected]:
        """What a device has to give for `inputs`, output by output."""
        self.tensors.clear()
        values = self._call(inputs)
        random = np.random.default_rng(0)

        def moved(runs: int) -> list[list[np.ndarray]]:
            found = [self._call([perturb(array, random) for array in inputs]) for _ in range(runs)]
            return [list(outputs) for outputs in zip(*found, strict=True)]

        tolerances = self._tolerances.of_call(inputs, values, moved)
        return [
            Expected(value, tolerance, bound_of(tolerance, value, lambda ref: self.tensors[ref.digest]))
            for value, tolerance in zip(values, tolerances, strict=True)
        ]

    def _call(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        tensors = [self._reference.tensor(array) for array in inputs]
        results = self._reference.call(self._kernel, tensors, self._types, self._sizes)
        return [to_numpy(result, found.dtype) for result, found in zip(results, self._types, strict=True)]

    def _put(self, array: np.ndarray) -> TensorRef:
        dense = np.ascontiguousarray(array)
        digest = sha256(dense.tobytes())
        self.tensors[digest] = dense
        return TensorRef(digest, str(dense.dtype), tuple(array.shape))
