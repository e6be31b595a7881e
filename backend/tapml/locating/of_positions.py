"""Integers that follow from positions and weights alone, such as T5's buckets of distances: what they are at a position
that nobody carved is computed. They choose what is read, and the carved ones choose among few."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from tapml.bounds import rounded
from tapml.errors import InputError
from tapml.locating.suspects import program_of
from tapml.program.graph import NodeKind, ValueKind
from tapml.suite import Suite, TensorRef


class OfPositions:
    """Of the model that a suite was carved of."""

    def __init__(self, suite: Suite, positions: Set[str]) -> None:
        """`positions`: the values that are the positions of a call."""
        self._suite = suite
        self._positions = positions
        graph = suite.model_graph
        parameters = {name for name, value in graph.values.items() if value.kind is ValueKind.PARAMETER}
        follows = {*positions}
        for node in graph.nodes:
            if follows.intersection(node.inputs) and follows.union(parameters).issuperset(node.inputs):
                follows.update(node.outputs)
        self.integers = {name for name in follows - positions if "int" in graph.values[name].type.dtype}
        self._given_by = {value: node for node in graph.nodes for value in node.outputs}
        self._tests = {(test.node, test.step): test for test in suite.tests}

    def at(self, ref: TensorRef, value: str, step: int, positions: np.ndarray) -> np.ndarray:
        """What stands for `ref` in a call at other positions than those of its carved step. Raises InputError where an
        operator has no program, and what its program raises."""
        return self._value(value, step, positions).reshape(ref.shape).astype(ref.dtype)

    def _value(self, value: str, step: int, positions: np.ndarray) -> np.ndarray:
        if value in self._positions:
            return positions
        node = self._given_by[value]
        if node.kind is NodeKind.VIEW:
            return self._value(node.inputs[0], step, positions)
        test = self._tests.get((node.id, step))
        program = None if test is None else program_of(self._suite, test)
        if test is None or program is None:
            raise InputError(f"what {node.kernel} gives at a later position is not known")
        values = self._suite.model_graph.values
        inputs = [
            self._suite.tensors.get(ref)
            if values[name].kind is ValueKind.PARAMETER
            else self.at(ref, name, step, positions)
            for ref, name in zip(test.inputs, node.inputs, strict=True)
        ]
        place = node.outputs.index(value)
        return np.broadcast_to(rounded(program, inputs, None)[place], test.outputs[place].shape)
