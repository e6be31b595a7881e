"""If, Loop and Scan of an ONNX graph as plain data flow.

Where a condition is known its branch is taken, else a kernel of its own, `choose`, gives the result of one of both: all
of either branch is carved, and a compiled model runs that of the condition alone (building/branches.py). Loops are
written out turn by turn; what is the same in all turns is computed once, and turns of equal shapes call the same
kernels. Where values end a loop, each turn is a branch, and the turns behind it, half by half, branches of it: of those
that are not taken few conditions are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.compacting import Counted
from tapml.importing.onnx_bodies import Bodies, Body, Scope, Value
from tapml.importing.onnx_sequence import step
from tapml.importing.onnx_values import Known
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

_TRUE = Known.of(np.array(True))


@dataclass(frozen=True)
class _Turns:
    """What turns of a loop left: whether there is another one, the loop's states, a row of scan outputs for each turn,
    and how many turns there were (int32 [1])."""

    going: Value
    states: Sequence[Value]
    rows: Sequence[Sequence[Value]]
    count: Value

    @staticmethod
    def counted(number: int) -> Known:
        return Known.of(np.array([number], np.int32))


class ControlFlow:
    """Of one model; `versions` are those of its operator sets."""

    def __init__(self, scope: Scope, versions: Mapping[str, int]) -> None:
        self._scope = scope
        self._versions = versions
        self._bodies = Bodies(scope, versions)

    def varies(self, name: str) -> bool:
        """Whether a value may be another in each turn of a loop."""
        return self._bodies.varies(name)

    def convert(self, node: Any) -> dict[str, Counted]:
        """Add what an If, a Loop or a Scan does: outputs with a count. Raises InputError where no plain data flow does
        that."""
        count: Value | None = None
        if node.op_type == "Loop":
            found, count = self._loop(node)
        else:
            found = self._if(node) if node.op_type == "If" else self._scan(node)
        for name, value in zip(node.output, found, strict=False):
            if name:
                self._scope.bind(name, value)
        rows = node.output[len(node.input) - 2 :] if count is not None else ()
        return {name: Counted(self._scope.tensor(count), 0) for name in rows if name}

    def _emit(self, call: Expr) -> Expr:
        return self._scope.builder.emit(call)

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
            either = [self._branch(node, graphs[name]) for name in ("then_branch", "else_branch")]
        except InputError as error:
            why = f"depends on the values of the input, and one of its branches cannot be computed: {error}"
            raise self._bodies.failure(node, why) from error
        flag = self._bodies.flag(condition)
        return [self._bodies.chosen(node, flag, a, b) for a, b in zip(*either, strict=True)]

    def _branch(self, node: Any, graph: Any) -> list[Value]:
        return self._bodies.run(self._bodies.entered(node, graph), [])

    # ------------------------------------------------ loops

    def _loop(self, node: Any) -> tuple[list[Value], Value | None]:
        """Its outputs; and how long its scan outputs are, where that depends on values."""
        most, keep = (self._scope.value(name) if name else None for name in node.input[:2])
        if most is not None and (not isinstance(most, Known) or most.symbolic):
            raise self._bodies.failure(
                node, "has as many turns as a value or a size of the input says: export the model with a number of them"
            )
        end = None if most is None else int(most.array.item())
        states = [self._scope.value(name) for name in node.input[2:]]
        body = self._bodies.entered(node, _graph(node))
        found = _Turns(_TRUE if keep is None else keep, states, [], _Turns.counted(0))
        rows: list[Sequence[Value]] = []
        number = 0
        while _is(found.going, True) and (end is None or number < end):
            found = self._taken(node, body, number, number + 1, found.states)
            rows += found.rows
            number += 1
        counted = not isinstance(found.going, Known) and number != end
        if counted:
            found = self._ended_by_values(node, body, number, end, found)
            rows += found.rows
        if rows:
            stacked = [self._stacked(values) for values in zip(*rows, strict=True)]
            return [*found.states, *stacked], found.count if counted else None
        # What one turn would give says of what shape the rows are that there are none of.
        turn = self._taken(node, body, 0, 1, found.states)
        return [*found.states, *(self._none(row) for row in turn.rows[0])], None

    def _ended_by_values(self, node: Any, body: Body, begin: int, end: int | None, before: _Turns) -> _Turns:
        """Turns from `begin` on, after those `before`, of which some or all may not be taken."""
        if end is None:
            raise self._bodies.failure(
                node,
                "ends when a value of the input says so, and may have any number of turns: export the model with a "
                "most of them",
            )
        self._bodies.check_turns(node, body, end - begin)
        return self._while(node, body, begin, end, replace(before, going=self._scalar(before.going)))

    def _taken(self, node: Any, body: Body, begin: int, end: int, states: Sequence[Value]) -> _Turns:
        """Turns `begin` up to `end`, of which the first is taken."""
        if end - begin == 1:
            going, *found = self._bodies.turn(node, body, [Known.of(np.int64(begin)), _TRUE, *states])
            going = going if isinstance(going, Known) else self._scalar(going)
            return _Turns(going, found[: len(states)], [found[len(states) :]], _Turns.counted(end))
        middle = (begin + end) // 2
        first = self._taken(node, body, begin, middle, states)
        rest = self._while(node, body, middle, end, first)
        return replace(rest, rows=[*first.rows, *rest.rows])

    def _while(self, node: Any, body: Body, begin: int, end: int, before: _Turns) -> _Turns:
        """The same where the first is taken if those `before` go on."""
        if _is(before.going, False):
            return replace(before, rows=[])
        taken = self._taken(node, body, begin, end, before.states)
        if _is(before.going, True):
            return taken
        flag = self._bodies.flag(before.going)

        def chosen(a: Value, b: Value) -> Value:
            return self._bodies.chosen(node, flag, a, b)

        going = taken.going
        if not _is(going, False):
            going = before.going if _is(going, True) else chosen(going, before.going)
        return _Turns(
            going,
            [chosen(*pair) for pair in zip(taken.states, before.states, strict=True)],
            [[chosen(row, self._zeros(row)) for row in rows] for rows in taken.rows],
            chosen(taken.count, before.count),
        )

    def _scalar(self, condition: Value) -> Expr:
        return self._emit(op.reshape(self._scope.tensor(condition), relax.ShapeExpr([])))

    def _scan(self, node: Any) -> list[Value]:
        values = [self._scope.value(name) if name else None for name in node.input]
        attributes = {a.name: a.i if a.name == "num_scan_inputs" else list(a.ints) for a in node.attribute}
        body = self._bodies.entered(node, _graph(node))
        if self._versions.get("", self._versions.get("ai.onnx", 9)) >= 9:
            return self._scanned(node, body, values, attributes)
        # Of opset 8: sequence_lens, and a batch along the first axis of all.
        lengths, *values = values
        if lengths is not None:
            raise self._bodies.failure(
                node, "has sequence_lens: export the model at opset 9 or later, where it has none"
            )
        attributes["scan_input_directions"] = attributes.pop("directions", [])
        count = axes_of(self._scope.tensor(values[0]))[0]
        each = [
            self._scanned(node, body, [self._at(value, number) for value in values], attributes)
            for number in range(self._turns(node, count))
        ]
        return [self._stacked(found) for found in zip(*each, strict=True)]

    def _scanned(self, node: Any, body: Body, values: Sequence[Value], attributes: Mapping[str, Any]) -> list[Value]:
        first = len(values) - attributes["num_scan_inputs"]
        states, over = list(values[:first]), list(values[first:])
        axes, backwards = (attributes.get(f"scan_input_{what}") or [0] * len(over) for what in ("axes", "directions"))
        over = [self._first(value, axis) for value, axis in zip(over, axes, strict=True)]
        count = self._turns(node, axes_of(self._scope.tensor(over[0]))[0])
        rows: list[list[Value]] = []
        for number in range(count):
            places = (count - 1 - number if backward else number for backward in backwards)
            taken = [self._at(value, place) for value, place in zip(over, places, strict=True)]
            found = self._bodies.turn(node, body, [*states, *taken])
            states = found[:first]
            rows.append(found[first:])
        if not rows:
            raise self._bodies.failure(node, "has nothing to go over: give inputs that are not empty")
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
            raise self._bodies.failure(
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
        return self._zeros(row, 0)

    def _zeros(self, row: Value, *outer: int) -> Value:
        """Of the row's shape, in axes around it."""
        tensor = self._scope.tensor(row)
        return self._emit(op.zeros(relax.ShapeExpr([*outer, *axes_of(tensor)]), tensor_dtype(tensor.ty)))


def _is(condition: Value, value: bool) -> bool:
    """Whether it is known to be this."""
    return isinstance(condition, Known) and bool(condition.array.item()) == value


def _graph(node: Any) -> Any:
    return next(attribute.g for attribute in node.attribute if attribute.name == "body")
