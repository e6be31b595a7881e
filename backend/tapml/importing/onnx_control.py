"""If, Loop and Scan of an ONNX graph as plain data flow.

Where a condition is known its branch is taken, else both are computed and one is chosen. Loops are written out turn by
turn; what is the same in all turns is computed once, and turns of equal shapes call the same kernels.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.onnx_file import described
from tapml.importing.onnx_run import read_by
from tapml.importing.onnx_sequence import step
from tapml.importing.onnx_values import RANDOM, Known
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

MOST_OPERATORS = 20_000
"""That the turns of all loops of a model may call."""

Value = Any
"""Of an ONNX graph: `Known`, or a Relax expression."""

_TRUE = Known.of(np.array(True))


class Scope(Protocol):
    """The names of a graph, and what adds nodes to it."""

    @property
    def builder(self) -> Expr: ...

    def enter(self, graph: Any) -> None:
        """Declare its weights."""

    def add(self, nodes: Sequence[Any]) -> None:
        """Nodes whose operands have values."""

    def value(self, name: str) -> Value: ...

    def bind(self, name: str, value: Value | None) -> None:
        """None: it has no value any more."""

    def tensor(self, value: Value) -> Expr: ...


class ControlFlow:
    """Of one model; `versions` are those of its operator sets."""

    def __init__(self, scope: Scope, versions: Mapping[str, int]) -> None:
        self._scope = scope
        self._versions = versions
        self._called = 0
        self._turning = 0
        self._varying: set[str] = set()

    def varies(self, name: str) -> bool:
        """Whether a value may be another in each turn of a loop."""
        return name in self._varying

    def convert(self, node: Any) -> None:
        """Add what an If, a Loop or a Scan does. Raises InputError where no plain data flow does that."""
        found = {"If": self._if, "Loop": self._loop, "Scan": self._scan}[node.op_type](node)
        for name, value in zip(node.output, found, strict=False):
            if name:
                self._scope.bind(name, value)

    def _failure(self, node: Any, why: str) -> InputError:
        return InputError(f"{described(node, self._versions)} {why}")

    def _emit(self, call: Expr) -> Expr:
        return self._scope.builder.emit(call)

    # ------------------------------------------------ If

    def _if(self, node: Any) -> list[Value]:
        condition = self._scope.value(node.input[0])
        graphs = {attribute.name: attribute.g for attribute in node.attribute}
        if isinstance(condition, Known):
            if condition.symbolic:
                raise self._failure(
                    node, "takes a branch by the sizes of the inputs: give inputs of sizes for one of them"
                )
            return self._branch(node, graphs["then_branch" if bool(condition.array.item()) else "else_branch"])
        try:
            either = [self._branch(node, graphs[name]) for name in ("then_branch", "else_branch")]
        except InputError as error:
            why = f"depends on the values of the input, and one of its branches cannot be computed: {error}"
            raise self._failure(node, why) from error
        return [self._chosen(node, condition, a, b) for a, b in zip(*either, strict=True)]

    def _branch(self, node: Any, graph: Any) -> list[Value]:
        return self._run(self._entered(node, graph), [])

    def _chosen(self, node: Any, condition: Expr, a: Value, b: Value) -> Expr:
        a, b = self._scope.tensor(a), self._scope.tensor(b)
        if tensor_dtype(a.ty) != tensor_dtype(b.ty) or not _equal(axes_of(a), axes_of(b)):
            raise self._failure(
                node,
                "depends on the values of the input, and its results are of several shapes: export the model with one "
                "branch, or with results of one shape",
            )
        return self._emit(op.where(self._scalar(condition), a, b))

    def _scalar(self, condition: Value) -> Expr:
        return self._emit(op.reshape(self._scope.tensor(condition), relax.ShapeExpr([])))

    # ------------------------------------------------ loops

    def _entered(self, node: Any, graph: Any) -> _Body:
        """A graph inside a node; inside of a loop it is entered in each turn."""
        if self._turning:
            self._count(node, len(graph.node))
        return _Body(graph, self._scope)

    def _turn(self, node: Any, body: _Body, values: Sequence[Value]) -> list[Value]:
        """The outputs of the body of a loop."""
        self._count(node, len(body.each) or 1)
        self._varying |= body.varying
        self._turning += 1
        found = self._run(body, values)
        self._turning -= 1
        return found

    def _count(self, node: Any, operators: int) -> None:
        self._called += operators
        if self._called > MOST_OPERATORS:
            raise self._failure(
                node,
                f"is written out turn by turn, to more than {MOST_OPERATORS} operators: give inputs of fewer turns, or "
                "export the model without it",
            )

    def _run(self, body: _Body, values: Sequence[Value]) -> list[Value]:
        for name in body.varying:
            self._scope.bind(name, None)
        for name, value in zip(body.inputs, values, strict=True):
            self._scope.bind(name, value)
        self._scope.add(body.each)
        return [self._scope.value(name) for name in body.outputs]

    def _loop(self, node: Any) -> list[Value]:
        most, keep = (self._scope.value(name) if name else None for name in node.input[:2])
        keep = _TRUE if keep is None else keep
        if most is not None and (not isinstance(most, Known) or most.symbolic):
            raise self._failure(
                node, "has as many turns as a value or a size of the input says: export the model with a number of them"
            )
        states = [self._scope.value(name) for name in node.input[2:]]
        body = self._entered(node, _graph(node))
        rows: list[list[Value]] = []
        for number in itertools.count() if most is None else range(int(most.array.item())):
            known = isinstance(keep, Known)
            if known and not bool(keep.array.item()):
                break
            if not known and (most is None or len(body.outputs) > 1 + len(states)):
                raise self._failure(
                    node,
                    "ends when a value of the input says so, and may have any number of turns: export the model with a "
                    "number of turns, or with a most of them and no scan outputs",
                )
            going, *found = self._turn(node, body, [Known.of(np.int64(number)), keep, *states])
            rows.append(found[len(states) :])
            if known:
                keep, states = going, found[: len(states)]
            else:
                states = [self._chosen(node, keep, *pair) for pair in zip(found, states, strict=True)]
                keep = self._emit(op.logical_and(self._scalar(keep), self._scalar(going)))
        if rows:
            return [*states, *(self._stacked(found) for found in zip(*rows, strict=True))]
        # What one turn would give says of what shape the rows are that there are none of.
        _, *found = self._turn(node, body, [Known.of(np.int64(0)), _TRUE, *states])
        return [*states, *(self._none(row) for row in found[len(states) :])]

    def _scan(self, node: Any) -> list[Value]:
        values = [self._scope.value(name) if name else None for name in node.input]
        attributes = {a.name: a.i if a.name == "num_scan_inputs" else list(a.ints) for a in node.attribute}
        body = self._entered(node, _graph(node))
        if self._versions.get("", self._versions.get("ai.onnx", 9)) >= 9:
            return self._scanned(node, body, values, attributes)
        # Of opset 8: sequence_lens, and a batch along the first axis of all.
        lengths, *values = values
        if lengths is not None:
            raise self._failure(node, "has sequence_lens: export the model at opset 9 or later, where it has none")
        attributes["scan_input_directions"] = attributes.pop("directions", [])
        count = axes_of(self._scope.tensor(values[0]))[0]
        each = [
            self._scanned(node, body, [self._at(value, number) for value in values], attributes)
            for number in range(self._turns(node, count))
        ]
        return [self._stacked(found) for found in zip(*each, strict=True)]

    def _scanned(self, node: Any, body: _Body, values: Sequence[Value], attributes: Mapping[str, Any]) -> list[Value]:
        first = len(values) - attributes["num_scan_inputs"]
        states, over = list(values[:first]), list(values[first:])
        axes, backwards = (attributes.get(f"scan_input_{what}") or [0] * len(over) for what in ("axes", "directions"))
        over = [self._first(value, axis) for value, axis in zip(over, axes, strict=True)]
        count = self._turns(node, axes_of(self._scope.tensor(over[0]))[0])
        rows: list[list[Value]] = []
        for number in range(count):
            places = (count - 1 - number if backward else number for backward in backwards)
            taken = [self._at(value, place) for value, place in zip(over, places, strict=True)]
            found = self._turn(node, body, [*states, *taken])
            states = found[:first]
            rows.append(found[first:])
        if not rows:
            raise self._failure(node, "has nothing to go over: give inputs that are not empty")
        results = len(rows[0])
        axes, backwards = (attributes.get(f"scan_output_{what}") or [0] * results for what in ("axes", "directions"))
        return [
            *states,
            *(
                self._stacked(found[::-1] if backward else found, axis)
                for found, axis, backward in zip(zip(*rows, strict=True), axes, backwards, strict=True)
            ),
        ]

    def _turns(self, node: Any, size: Any) -> int:
        if not isinstance(size, int):
            raise self._failure(
                node, "has as many turns as a size of the inputs, which varies: give inputs of one size"
            )
        return size

    def _first(self, value: Value, axis: int) -> Value:
        """With an axis moved to the front."""
        if isinstance(value, Known):
            return Known(np.moveaxis(value.array, axis, 0), value.dtype)
        axes = list(range(value.ty.ndim))
        order = [axes.pop(axis), *axes]
        return value if order == sorted(order) else self._emit(op.permute_dims(value, order))

    def _at(self, value: Value, number: int) -> Value:
        if isinstance(value, Known):
            return Known(np.asarray(value.array[number]), value.dtype)
        return step(self._scope.builder, value, number)

    def _stacked(self, rows: Sequence[Value], axis: int = 0) -> Value:
        if all(isinstance(row, Known) for row in rows):
            return Known(np.stack([row.array for row in rows], axis), rows[0].dtype)
        return self._emit(op.stack([self._scope.tensor(row) for row in rows], axis=axis))

    def _none(self, row: Value) -> Value:
        tensor = self._scope.tensor(row)
        return self._emit(op.zeros(relax.ShapeExpr([0, *axes_of(tensor)]), tensor_dtype(tensor.ty)))


class _Body:
    """A graph inside a node: `each` are the nodes that depend on its inputs, and `varying` the names of all of these.

    The others are added at once.
    """

    def __init__(self, graph: Any, scope: Scope) -> None:
        self.inputs = [value.name for value in graph.input]
        self.outputs = [value.name for value in graph.output]
        self.varying = set(self.inputs)
        self.each: list[Any] = []
        once: list[Any] = []
        for node in graph.node:
            if self.varying.isdisjoint(read_by(node)) and node.op_type not in RANDOM:
                once.append(node)
                continue
            self.each.append(node)
            self.varying.update(name for name in node.output if name)
        names = [tensor.name for tensor in graph.initializer]
        for name in (*names, *(name for node in once for name in node.output if name)):
            scope.bind(name, None)
        scope.enter(graph)
        scope.add(once)


def _graph(node: Any) -> Any:
    return next(attribute.g for attribute in node.attribute if attribute.name == "body")


def _equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y or (isinstance(x, int) and x == y) for x, y in zip(a, b, strict=True))
