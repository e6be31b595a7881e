"""What is expected of inputs that nobody carved: the reference's result, and how far a device may be from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tapml.errors import InputError
from tapml.importing.model import Functions
from tapml.locating.evidence import Evidence
from tapml.lowering.lower import Model
from tapml.operators.numerics import stated
from tapml.operators.of_suite import read_operator
from tapml.platforms import expected
from tapml.platforms.reference import Reference
from tapml.suite import CarvedTest, Suite


class Expected(expected.Expected):
    """One output of the reference, as evidence of what a device gave is held against."""

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

    def __init__(self, suite: Suite, test: CarvedTest, functions: Functions = MappingProxyType({})) -> None:
        """`functions` compute operators of their names. Raises InputError where the suite has no model, or not this
        operator in it (imported tests)."""
        graph = suite.graphs[test.step] if test.step < len(suite.graphs) else suite.model_graph
        node = next((node for node in graph.nodes if node.id == test.node), None)
        if node is None:
            raise InputError(
                f"{test.id} was imported, and {suite.path} does not have its operator's program: "
                "reduce it in the suite that it was carved in"
            )
        # Only this operator is built for the reference: a model's others take seconds.
        program = read_operator(suite, node.kernel, graph)
        operator = expected.Operator(
            node.kernel,
            program,
            [graph.values[name].type for name in node.outputs],
            graph.sizes,
            [file.text for file in suite.kernel_files(test.kernel)],
            stated(suite.bundle(test.kernel)),
        )
        reference = Reference(Model(graph, [], {node.kernel: program}), functions=functions)
        self._outputs = expected.ExpectedOutputs(reference, operator)

    @property
    def tensors(self) -> Mapping[str, np.ndarray]:
        """Of the latest tolerances, by digest."""
        return self._outputs.tensors

    def expected_and_tolerance(self, inputs: Sequence[np.ndarray]) -> list[Expected]:
        """What a device has to give for `inputs`, output by output."""
        return [Expected(found.value, found.tolerance, found.bound) for found in self._outputs.of(inputs)]
