"""Tensors of a graph that are as long as they could be, with a count of what counts of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.compacting import Counted, compress, masked, nonzero, unique
from tapml.importing.model import Array
from tapml.importing.onnx_bodies import Scope
from tapml.importing.onnx_count_rules import Call, Mixed, counted_axis
from tapml.importing.onnx_file import described
from tapml.importing.onnx_operands import Operands
from tapml.importing.onnx_run import read_by
from tapml.importing.onnx_suppression import non_max_suppression
from tapml.importing.onnx_values import Known
from tapml.importing.relax_ir import Expr, axes_of, static_shape

CHOOSING: Mapping[str, Callable[..., list[tuple[Any, Counted | None]]]] = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": nonzero,
    "Unique": unique,
}
"""Operators that give counted tensors."""


class Counts:
    """Of one graph; `versions` are those of its operator sets."""

    def __init__(self, scope: Scope, versions: Mapping[str, int]) -> None:
        self._scope = scope
        self._versions = versions
        self._found: dict[Expr, Counted] = {}
        self.outputs: dict[str, tuple[int, int]] = {}
        """Outputs of the graph with a count, which is an output as well (`count_name`): their counted axes, and how
        long they are there."""

    def __len__(self) -> int:
        return len(self._found)

    def of(self, name: str) -> Counted | None:
        """The count of a value, where it has one."""
        value = self._scope.value(name)
        return None if value is None or isinstance(value, Known) else self._found.get(value)

    def add(self, name: str, counted: Counted) -> None:
        """A value has a count."""
        self._found[self._scope.value(name)] = counted

    def refuse(self, node: Any, name: str, why: str) -> InputError:
        """For an operator that cannot take the counted tensor `name`."""
        return InputError(
            f"{described(node, self._versions)} takes {name}, whose size depends on the values of the input, and "
            f"cannot, for {why}: tapml keeps such a tensor as long as it could be, with something behind what counts; "
            "end the model before this operator"
        )

    def choose(self, node: Any, inputs: Operands, attributes: Mapping[str, Any]) -> None:
        """Add a node whose outputs' sizes depend on data."""
        for name in read_by(node):
            if self.of(name) is not None:
                raise self.refuse(node, name, "its result would be counted twice")
        builder = self._scope.builder
        results = CHOOSING[node.op_type](builder, inputs, attributes)
        for name, (made, counted) in zip(node.output, results, strict=True):
            self._scope.bind(name, builder.normalize(made))
            if counted is not None:
                self.add(name, counted)

    def follow(self, node: Any, attributes: Callable[[], Mapping[str, Any]]) -> None:
        """Note where the counted axis of what a node reads is in its outputs. Raises InputError where it may not."""
        counts = [self.of(name) for name in node.input]
        if not any(counts):
            return
        name, counted = next((name, found) for name, found in zip(node.input, counts, strict=True) if found is not None)
        outputs = [output for output in node.output if output]
        if not all(self._fixed(operand) for operand in (*node.input, *outputs) if operand):
            raise self.refuse(node, name, "other sizes of what it takes or gives differ among the given inputs")
        try:
            axis = counted_axis(
                Call(
                    node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}",
                    attributes(),
                    [self._shape(operand) if operand else None for operand in node.input],
                    counts,
                    [self._numbers(operand) for operand in node.input],
                    [self._shape(output) or () for output in outputs],
                )
            )
        except Mixed as error:
            raise self.refuse(node, name, str(error)) from error
        made = Counted(counted.count, axis)
        self._found.update((self._scope.value(output), made) for output in outputs)

    def _shape(self, name: str) -> Sequence[int] | None:
        value = self._scope.value(name)
        return value.array.shape if isinstance(value, Known) else static_shape(value.ty)

    def _fixed(self, name: str) -> bool:
        return self._shape(name) is not None

    def _numbers(self, name: str) -> list[Any] | None:
        value = self._scope.value(name)
        return value.elements if isinstance(value, Known) else None

    def add_to_outputs(self, graph: Any) -> None:
        """Outputs with a count hold zeros behind it, and the count is an output, too."""
        from onnx import ValueInfoProto

        builder = self._scope.builder
        for name in [output.name for output in graph.output]:
            if (counted := self.of(name)) is None:
                continue
            count, shape = count_name(name), axes_of(self._scope.value(name))
            if self._scope.value(count) is not None:
                raise InputError(f"the model has a value {count}, which is to be the count of {name}: rename it")
            self._scope.bind(name, masked(builder, self._scope.value(name), counted))
            self._scope.bind(count, builder.emit(op.astype(counted.count, "int64")))
            self.outputs[name] = counted.axis, shape[counted.axis]
            if all(output.name != count for output in graph.output):
                graph.output.append(ValueInfoProto(name=count))


def count_name(output: str) -> str:
    """The output that says how much of another counts."""
    return f"{output}.count"


def filled_up(outputs: Sequence[str], found: Sequence[Array], counted: Mapping[str, tuple[int, int]]) -> list[Array]:
    """What an oracle gives for `outputs` as the module does: counted ones, by name with their axis and their length
    there, end in zeros, and the counts (int64 [1]) come last.
    """
    results = []
    for name, array in zip(outputs, found, strict=True):
        axis, size = counted.get(name, (0, 0))
        missing = max(size - array.shape[axis], 0) if name in counted else 0
        widths = [(0, missing if number == axis else 0) for number in range(array.ndim)]
        results.append(np.pad(array, widths) if missing else array)
    counts = [found[outputs.index(name)].shape[axis] for name, (axis, _) in counted.items()]
    return [*results, *(np.array([count], np.int64) for count in counts)]
