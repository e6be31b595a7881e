"""Graphs inside the nodes of an ONNX graph, and what is chosen of what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tvm import relax, te, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.dtypes import narrow_array
from tapml.importing.kernel_calls import as_dtype, call, in_stored
from tapml.importing.onnx_file import described
from tapml.importing.onnx_operands import zero
from tapml.importing.onnx_run import read_by
from tapml.importing.onnx_values import RANDOM, Known, constant
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype
from tapml.importing.sizes import Sizes, integer

MOST_OPERATORS = 20_000
"""That the turns of all loops of a model may call."""

_OF_BRANCHES = (
    "depends on the values of the input, and its results are of several shapes: export the model with one branch, or "
    "with results of one shape"
)

Value = Any
"""Of an ONNX graph: `Known`, or a Relax expression."""


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

    @property
    def sizes(self) -> Sizes: ...


class Body:
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


class Bodies:
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

    def failure(self, node: Any, why: str) -> InputError:
        return InputError(f"{self.described(node)} {why}")

    def described(self, node: Any) -> str:
        """For people."""
        return described(node, self._versions)

    def entered(self, node: Any, graph: Any) -> Body:
        """A graph inside a node; inside of a loop it is entered in each turn."""
        if self._turning:
            self._count(node, len(graph.node))
        return Body(graph, self._scope)

    def run(self, body: Body, values: Sequence[Value]) -> list[Value]:
        """Its outputs."""
        for name in body.varying:
            self._scope.bind(name, None)
        for name, value in zip(body.inputs, values, strict=True):
            self._scope.bind(name, value)
        self._scope.add(body.each)
        return [self._scope.value(name) for name in body.outputs]

    def turn(self, node: Any, body: Body, values: Sequence[Value]) -> list[Value]:
        """The outputs of the body of a loop."""
        self._count(node, len(body.each) or 1)
        self._varying |= body.varying
        self._turning += 1
        found = self.run(body, values)
        self._turning -= 1
        return found

    def check_turns(self, node: Any, operators: int, turns: int) -> None:
        """Raise InputError where so many, of so many operators each, are too many."""
        if turns * operators > MOST_OPERATORS:
            raise self._too_long(node)

    def _count(self, node: Any, operators: int) -> None:
        self._called += operators
        if self._called > MOST_OPERATORS:
            raise self._too_long(node)

    def _too_long(self, node: Any) -> InputError:
        return self.failure(
            node,
            f"is written out turn by turn, to more than {MOST_OPERATORS} operators: give inputs of fewer turns, or "
            "export the model without it",
        )

    def flag(self, condition: Value) -> Expr:
        """A condition as `chosen` takes it: one for all that is chosen by it."""
        builder = self._scope.builder
        return in_stored(builder, builder.emit(op.reshape(self._scope.tensor(condition), relax.ShapeExpr([1]))))

    def chosen(self, node: Any, flag: Expr, a: Value, b: Value, why: str = _OF_BRANCHES) -> Value:
        """`a` where the flag is not 0, else `b`. Raises InputError that says `why` for values of several shapes."""
        if a is b or (isinstance(a, Known) and isinstance(b, Known) and a.same(b)):
            return a
        dtype, other = (found.dtype if isinstance(found, Known) else tensor_dtype(found.ty) for found in (a, b))
        a, b = self._operand(a), self._operand(b)
        if dtype != other or not self._equal(axes_of(a), axes_of(b)):
            raise self.failure(node, why)
        # Alone: fused with what computes or reads it, it would be no branch.
        made = call(self._scope.builder, _either, [flag, a, b], name="choose", alone=True)
        return as_dtype(self._scope.builder, made, dtype)

    def _equal(self, a: Sequence[Any], b: Sequence[Any]) -> bool:
        """At all sizes in range."""
        simplified = self._scope.sizes.simplified
        return len(a) == len(b) and all(simplified(integer(x) == integer(y)) == 1 for x, y in zip(a, b, strict=True))

    def either(self, a: Value, b: Value) -> Value:
        """A number that is not 0 where one of two, none of which is negative, is not."""
        return self._scope.builder.emit(op.maximum(self._scope.tensor(a), self._scope.tensor(b)))

    def _operand(self, value: Value) -> Expr:
        """Of what is known, what is stored of it: a cast would wrap numbers that mean "to the end"."""
        if isinstance(value, Known) and not value.symbolic:
            return constant(narrow_array(value.array, "a result of a branch")[0])
        return self._scope.tensor(value)


def _either(flag: Any, a: Any, b: Any) -> Any:
    return te.compute(a.shape, lambda *at: tirx.Select(flag(0) != zero(flag.dtype), a(*at), b(*at)), name="choose")
