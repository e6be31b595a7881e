"""If, Loop and Scan of an ONNX graph as plain data flow.

Where a condition is known its branch is taken, else a kernel of its own, `choose`, gives the result of one of both: all
of either branch is carved, and a compiled model runs that of the condition alone (building/branches.py). Loops are
written out turn by turn (onnx_loops.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapml.errors import InputError
from tapml.importing.compacting import Counted
from tapml.importing.onnx_bodies import Bodies, Scope, Value
from tapml.importing.onnx_loops import Loops
from tapml.importing.onnx_turns import NONE, Turns, Unfinished
from tapml.importing.onnx_values import Known


class ControlFlow:
    """Of one model; `versions` are those of its operator sets."""

    def __init__(self, scope: Scope, versions: Mapping[str, int], turns: Turns) -> None:
        self._scope = scope
        self._bodies = Bodies(scope, versions)
        self._unfinished = Unfinished()
        self._loops = Loops(scope, versions, self._bodies, turns, self._unfinished)

    @property
    def causes(self) -> Mapping[str, str]:
        """Outputs that are not 0 where a loop needs more turns than it was written out to, with what is wrong then."""
        return {name: self._unfinished.causes[name] for name in self._unfinished.found}

    def add_to_outputs(self, graph: Any) -> None:
        """These are outputs of the graph."""
        from onnx import ValueInfoProto

        for name, value in self._unfinished.found.items():
            self._scope.bind(name, value)
            graph.output.append(ValueInfoProto(name=name))

    def varies(self, name: str) -> bool:
        """Whether a value may be another in each turn of a loop."""
        return self._bodies.varies(name)

    def convert(self, node: Any) -> dict[str, Counted]:
        """Add what an If, a Loop or a Scan does: outputs with a count. Raises InputError where no plain data flow does
        that."""
        count: Value | None = None
        if node.op_type == "Loop":
            found, count = self._loops.loop(node)
        else:
            found = self._if(node) if node.op_type == "If" else self._loops.scan(node)
        for name, value in zip(node.output, found, strict=False):
            if name:
                self._scope.bind(name, value)
        rows = node.output[len(node.input) - 2 :] if count is not None else ()
        return {name: Counted(self._scope.tensor(count), 0) for name in rows if name}

    def _if(self, node: Any) -> list[Value]:
        condition = self._scope.value(node.input[0])
        graphs = {attribute.name: attribute.g for attribute in node.attribute}
        if isinstance(condition, Known):
            if condition.symbolic:
                raise self._bodies.failure(
                    node, "takes a branch by the sizes of the inputs: give inputs of sizes for one of them"
                )
            return self._branch(node, graphs["then_branch" if bool(condition.array.item()) else "else_branch"])
        try:
            either = [self._side(node, graphs[name]) for name in ("then_branch", "else_branch")]
        except InputError as error:
            why = f"depends on the values of the input, and one of its branches cannot be computed: {error}"
            raise self._bodies.failure(node, why) from error
        flag = self._bodies.flag(condition)
        (then, left), (otherwise, left_otherwise) = either
        self._unfinished.add(
            {
                name: self._bodies.chosen(node, flag, left.get(name, NONE), left_otherwise.get(name, NONE))
                for name in {**left, **left_otherwise}
            },
            self._bodies.either,
        )
        return [self._bodies.chosen(node, flag, a, b) for a, b in zip(then, otherwise, strict=True)]

    def _branch(self, node: Any, graph: Any) -> list[Value]:
        return self._bodies.run(self._bodies.entered(node, graph), [])

    def _side(self, node: Any, graph: Any) -> tuple[list[Value], Mapping[str, Value]]:
        """And what loops inside of it left unfinished."""
        with self._unfinished.inside() as left:
            return self._branch(node, graph), left
