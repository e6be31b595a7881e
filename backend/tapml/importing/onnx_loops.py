"""Loop and Scan of an ONNX graph, written out turn by turn.

What is the same in all turns is computed once, and turns of equal shapes call the same kernels. Where values or sizes
end a loop, each turn is a branch, and the turns behind it, half by half, branches of it: of those that are not taken
few conditions are looked at. There are as many turns as there may be, or as `Turns` says; whether a call needs more is
noted (`Unfinished`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm import relax, te
from tvm.relax import op

from tapml.importing.kernel_calls import as_dtype, call
from tapml.importing.onnx_bodies import MOST_OPERATORS, Bodies, Body, Scope, Value
from tapml.importing.onnx_operands import within
from tapml.importing.onnx_sequence import step
from tapml.importing.onnx_turns import NONE, Turns, Unfinished
from tapml.importing.onnx_values import Known, constant, symbolic
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype
from tapml.importing.sizes import integer

_TRUE = Known.of(np.array(True))


@dataclass(frozen=True)
class _Turns:
    """What turns of a loop left: whether there is another one, the loop's states, a row of scan outputs for each turn,
    how many turns there were (int32 [1]), and what loops inside of them left unfinished."""

    going: Value
    states: Sequence[Value]
    rows: Sequence[Sequence[Value]]
    count: Value
    unfinished: Mapping[str, Value] = field(default_factory=dict)

    @staticmethod
    def counted(number: int) -> Known:
        return Known.of(np.array([number], np.int32))


@dataclass
class _Loop:
    """A Loop or a Scan. `turn`: what one of a number gives for states: whether its condition holds on, states, a row of
    scan outputs; `per_turn`: operators."""

    node: Any
    turn: Callable[[int, Sequence[Value]], tuple[Value, list[Value], list[Value]]]
    per_turn: int
    end: int | None = None
    """The most turns."""
    size: Any = None
    """How many there are, where that is an expression over the sizes of inputs."""
    below: Expr | None = None
    """Which of the numbers from 0 to `end` are those of turns, where values say how many there are, or sizes."""
    open: bool = False
    """Whether it may need more turns than `end`."""
    by_values: bool = False
    """Whether values, and not sizes alone, end it."""


_OF_A_TURN = (
    "is ended by values, and what it carries has another shape or type after a turn than before, or a row of it "
    "another than the next: export the model with states of one shape (a buffer of the largest, written part by part)"
)


class Loops:
    """Of one model; `versions` are those of its operator sets."""

    def __init__(
        self, scope: Scope, versions: Mapping[str, int], bodies: Bodies, limits: Turns, unfinished: Unfinished
    ) -> None:
        self._scope = scope
        self._versions = versions
        self._bodies = bodies
        self._limits = limits
        self._unfinished = unfinished

    def _emit(self, call: Expr) -> Expr:
        return self._scope.builder.emit(call)

    def loop(self, node: Any) -> tuple[list[Value], Value | None]:
        """Its outputs; and how long its scan outputs are, where that depends on values."""
        most, keep = (self._scope.value(name) if name else None for name in node.input[:2])
        states = [self._scope.value(name) for name in node.input[2:]]
        body = self._bodies.entered(node, _graph(node))

        def turn(number: int, before: Sequence[Value]) -> tuple[Value, list[Value], list[Value]]:
            going, *found = self._bodies.turn(node, body, [Known.of(np.int64(number)), _TRUE, *before])
            return going, found[: len(states)], found[len(states) :]

        loop = _Loop(node, turn, len(body.each) or 1)
        if isinstance(most, Known) and most.symbolic:
            loop.size = most.elements[0]
        elif isinstance(most, Known):
            loop.end = int(most.array.item())
        elif most is not None:
            loop.end, loop.open = self._limit(loop, None), True
            loop.below = self._below(most, loop.end)
        found = self._run(loop, _TRUE if keep is None else keep, states)
        if not found.rows:
            # What one turn would give says of what shape the rows are that there are none of.
            turn_taken = self._taken(loop, 0, 1, found.states)
            return [*found.states, *(self._zeros(row, 0) for row in turn_taken.rows[0])], None
        stacked = [self._stacked(values) for values in zip(*found.rows, strict=True)]
        if loop.by_values:
            return [*found.states, *stacked], found.count
        return [*found.states, *(self._counting(rows, loop) for rows in stacked)], None

    def _run(self, loop: _Loop, keep: Value, states: Sequence[Value]) -> _Turns:
        """All turns, of which some may not be taken."""
        if loop.size is not None:
            loop.end = self._limit(loop, None, self._scope.sizes.most_given(loop.size))
            # More turns than there is room for are a size out of range.
            self._scope.sizes.holds(integer(loop.size) <= loop.end)
        loop.by_values = not isinstance(keep, Known) or loop.below is not None
        found = _Turns(self._and(keep, self._more(loop, 0)), states, [], _Turns.counted(0))
        rows: list[Sequence[Value]] = []
        number = 0
        while _is(found.going, True) and (loop.end is None or number < loop.end):
            found = self._taken(loop, number, number + 1, found.states)
            self._unfinished.add(found.unfinished, self._bodies.either)
            rows += found.rows
            number += 1
        if isinstance(found.going, Known) or number == loop.end:
            loop.by_values = False
            return replace(found, rows=rows)
        end = self._end(loop, number)
        self._bodies.check_turns(loop.node, loop.per_turn, end - number)
        found = self._while(loop, number, end, replace(found, going=self._scalar(found.going)))
        self._unfinished.add(found.unfinished, self._bodies.either)
        if loop.open and not _is(found.going, False):
            name = self._unfinished.name(
                loop.node, self._bodies.described(loop.node), end, lambda name: self._scope.value(name) is not None
            )
            self._unfinished.add({name: self._bodies.flag(found.going)}, self._bodies.either)
        return replace(found, rows=[*rows, *found.rows])

    def _end(self, loop: _Loop, number: int) -> int:
        """The most turns, of which `number` are taken in any case and values end the others."""
        end = loop.end
        if loop.open or loop.size is not None:
            assert end is not None
            return end
        if end is None or self._limits.below(end) or not self._fits(loop, end - number):
            limit = max(self._limit(loop, end), number + 1)
            loop.open = end is None or limit < end
            return limit if end is None else min(limit, end)
        return end

    def _limit(self, loop: _Loop, bound: int | None, taken: int | None = None) -> int:
        return self._limits.most(
            loop.node, self._bodies.described(loop.node), lambda turns: self._fits(loop, turns), bound, taken
        )

    def _fits(self, loop: _Loop, turns: int) -> bool:
        return turns * loop.per_turn <= MOST_OPERATORS

    def _taken(self, loop: _Loop, begin: int, end: int, states: Sequence[Value]) -> _Turns:
        """Turns `begin` up to `end`, of which the first is taken."""
        if end - begin == 1:
            with self._unfinished.inside() as left:
                going, after, row = loop.turn(begin, states)
            loop.by_values |= not isinstance(going, Known)
            return _Turns(self._and(going, self._more(loop, end)), after, [row], _Turns.counted(end), left)
        middle = (begin + end) // 2
        first = self._taken(loop, begin, middle, states)
        rest = self._while(loop, middle, end, first)
        left = dict(first.unfinished)
        for name, value in rest.unfinished.items():
            left[name] = self._bodies.either(left[name], value) if name in left else value
        return replace(rest, rows=[*first.rows, *rest.rows], unfinished=left)

    def _while(self, loop: _Loop, begin: int, end: int, before: _Turns) -> _Turns:
        """The same where the first is taken if those `before` go on."""
        if _is(before.going, False):
            return replace(before, rows=[], unfinished={})
        taken = self._taken(loop, begin, end, before.states)
        if _is(before.going, True):
            return taken
        flag = self._bodies.flag(before.going)

        def chosen(a: Value, b: Value) -> Value:
            return self._bodies.chosen(loop.node, flag, a, b, _OF_A_TURN)

        going = taken.going
        if not _is(going, False):
            going = before.going if _is(going, True) else chosen(going, before.going)
        return _Turns(
            going,
            [chosen(*pair) for pair in zip(taken.states, before.states, strict=True)],
            [[chosen(row, self._zeros(row)) for row in rows] for rows in taken.rows],
            chosen(taken.count, before.count),
            {name: chosen(value, NONE) for name, value in taken.unfinished.items()},
        )

    def _more(self, loop: _Loop, number: int) -> Value:
        """Whether there is a turn of this number, as far as the count of turns says."""
        if loop.size is not None:
            more = self._scope.sizes.simplified(integer(number) < loop.size)
            if isinstance(more, int):
                return Known.of(np.array(bool(more)))
            if loop.below is None:
                count = symbolic([loop.size], (1,))
                loop.below = self._below(self._scope.tensor(count), loop.end or 0)
        return _TRUE if loop.below is None else self._scalar(self._at(loop.below, number))

    def _below(self, count: Expr, most: int) -> Expr:
        """Which of the numbers from 0 to `most` are below a count."""
        numbers = constant(np.arange(most + 1, dtype=tensor_dtype(count.ty)))
        return self._emit(op.less(numbers, self._emit(op.reshape(count, relax.ShapeExpr([1])))))

    def _and(self, a: Value, b: Value) -> Value:
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Known):
                return other if _is(one, True) else one
        return self._emit(op.logical_and(self._scalar(a), self._scalar(b)))

    def _scalar(self, condition: Value) -> Expr:
        return self._emit(op.reshape(self._scope.tensor(condition), relax.ShapeExpr([])))

    def _counting(self, rows: Value, loop: _Loop, backward: bool = False) -> Value:
        """Of rows of all turns that there may be, those of the turns that there are; or from the last to the first."""
        if loop.size is None:
            return rows
        tensor = self._scope.tensor(rows)
        made = call(self._scope.builder, _first_rows, [tensor], loop.size, backward, name="rows_of_turns")
        return as_dtype(self._scope.builder, made, tensor_dtype(tensor.ty))

    def scan(self, node: Any) -> list[Value]:
        """Its outputs."""
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
        sizes = [axes_of(self._scope.tensor(value))[0] for value in over]
        count = next((size for size in sizes if isinstance(size, int)), sizes[0])
        last = None
        if not isinstance(count, int):
            last = self._scope.tensor(symbolic([self._scope.sizes.simplified(count - 1)], (1,)))

        def turn(number: int, before: Sequence[Value]) -> tuple[Value, list[Value], list[Value]]:
            taken = [
                self._at(value, count - 1 - number if backward else number)
                if last is None
                else self._nearest(value, number, last, bool(backward))
                for value, backward in zip(over, backwards, strict=True)
            ]
            found = self._bodies.turn(node, body, [*before, *taken])
            return _TRUE, found[:first], found[first:]

        loop = _Loop(node, turn, len(body.each) or 1)
        if isinstance(count, int):
            loop.end = count
        else:
            loop.size = count
        found = self._run(loop, _TRUE, states)
        if not found.rows:
            raise self._bodies.failure(node, "has nothing to go over: give inputs that are not empty")
        results = len(found.rows[0])
        axes, backwards = (attributes.get(f"scan_output_{what}") or [0] * results for what in ("axes", "directions"))
        return [
            *found.states,
            *(
                self._collected(rows, loop, axis, bool(backward))
                for rows, axis, backward in zip(zip(*found.rows, strict=True), axes, backwards, strict=True)
            ),
        ]

    def _nearest(self, value: Value, number: int, last: Expr, backward: bool) -> Value:
        """What a turn goes over where sizes say how many there are; the nearest place where there is no such turn."""
        place = constant(np.array([number], np.int64))
        if backward:
            place = self._emit(op.maximum(self._emit(op.subtract(last, place)), constant(np.zeros(1, np.int64))))
        else:
            place = self._emit(op.minimum(place, last))
        tensor = self._scope.tensor(value)
        taken = self._emit(op.take(tensor, place, axis=0, mode="fast"))
        return self._emit(op.reshape(taken, relax.ShapeExpr(axes_of(tensor)[1:])))

    def _collected(self, rows: Sequence[Value], loop: _Loop, axis: int, backward: bool) -> Value:
        """Scan outputs along an axis."""
        if loop.size is None:
            return self._stacked(rows[::-1] if backward else rows, axis)
        found = self._counting(self._stacked(rows), loop, backward)
        order = [*range(1, found.ty.ndim)]
        order.insert(axis % found.ty.ndim, 0)
        return self._emit(op.permute_dims(found, order)) if order[0] else found

    def _turns(self, node: Any, size: Any) -> int:
        if not isinstance(size, int):
            raise self._bodies.failure(
                node,
                "has a batch whose size varies, which Scan of opset 8 goes over: give inputs of one batch size, or "
                "export the model at opset 9 or later",
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

    def _zeros(self, row: Value, *outer: int) -> Value:
        """Of the row's shape, in axes around it."""
        tensor = self._scope.tensor(row)
        return self._emit(op.zeros(relax.ShapeExpr([*outer, *axes_of(tensor)]), tensor_dtype(tensor.ty)))


def _first_rows(data: Any, size: Any, backward: bool) -> Any:
    """So many, which are no more than there are."""

    def element(row: Any, *at: Any) -> Any:
        return data(within(size - 1 - row if backward else row, data.shape[0]), *at)

    return te.compute([size, *data.shape[1:]], element, name="rows")


def _is(condition: Value, value: bool) -> bool:
    """Whether it is known to be this."""
    return isinstance(condition, Known) and bool(condition.array.item()) == value


def _graph(node: Any) -> Any:
    return next(attribute.g for attribute in node.attribute if attribute.name == "body")
