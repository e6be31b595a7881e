"""ONNX's LSTM, GRU and RNN, written out step by step.

What the input adds to the gates of all steps is one matrix product. Each step then calls the same few kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.onnx_activations import Activation, activations
from tapml.importing.onnx_sequence import along, reversed_within, step, steps_of
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

Attributes = Mapping[str, Any]
Step = Callable[[Expr, list[Expr]], list[Expr]]
"""From what the input adds to the gates [batch, gates * hidden] and the states, the hidden one first, to the states."""


@dataclass(frozen=True)
class _Direction:
    """The operands of one direction of a layer; `bias` is the input's, then the recurrence's."""

    builder: Expr
    hidden: int
    dtype: str
    recurrence: Expr
    bias: tuple[Expr, Expr] | None
    peepholes: Expr | None
    functions: Sequence[Activation]
    limit: float
    seen: Callable[[Expr], Expr]
    """What products see of a state."""

    def part(self, gates: Expr, first: int, count: int = 1) -> Expr:
        """Some of the gates, along the last axis."""
        begin, axis = first * self.hidden, gates.ty.ndim - 1
        return self.emit(op.strided_slice(gates, [axis], [begin], [begin + count * self.hidden], assume_inbound=True))

    def product(self, state: Expr, weights: Expr) -> Expr:
        return self.emit(op.matmul(self.seen(state), weights))

    def called(self, number: int, data: Expr, *, clipped: bool = True) -> Expr:
        """An activation function, of what was clipped first."""
        if self.limit and clipped:
            data = self.emit(op.clip(data, -self.limit, self.limit))
        return self.functions[number](self.builder, data)

    def add(self, *terms: Expr | None) -> Expr:
        found = [term for term in terms if term is not None]
        total = found[0]
        for term in found[1:]:
            total = self.emit(op.add(total, term))
        return total

    def multiply(self, a: Expr, b: Expr) -> Expr:
        return self.emit(op.multiply(a, b))

    def emit(self, call: Expr) -> Expr:
        return self.builder.emit(call)

    def turned(self, first: int = 0, count: int | None = None) -> Expr:
        """The recurrence's weights of some gates, as [hidden, gates * hidden]."""
        weights = self.recurrence
        if count is not None:
            begin = first * self.hidden
            weights = self.emit(op.strided_slice(weights, [0], [begin], [begin + count * self.hidden]))
        return self.emit(op.permute_dims(weights))

    def all_of_bias(self) -> Expr | None:
        return self.add(*self.bias) if self.bias else None


def _lstm_step(of: _Direction, attributes: Attributes) -> tuple[Expr | None, Step]:
    weights, peepholes = of.turned(), of.peepholes

    def peep(gate: Expr, number: int, cell: Expr) -> Expr:
        return gate if peepholes is None else of.add(gate, of.multiply(of.part(peepholes, number), cell))

    def made(row: Expr, states: list[Expr]) -> list[Expr]:
        hidden, cell = states
        gates = of.add(of.product(hidden, weights), row)
        enter = of.called(0, peep(of.part(gates, 0), 0, cell))
        if attributes["input_forget"]:
            keep = of.emit(op.subtract(relax.const(1, of.dtype), enter))
        else:
            keep = of.called(0, peep(of.part(gates, 2), 2, cell))
        cell = of.add(of.multiply(keep, cell), of.multiply(enter, of.called(1, of.part(gates, 3))))
        leave = of.called(0, peep(of.part(gates, 1), 1, cell))
        # ONNX Runtime clips the gates, not the cell.
        return [of.multiply(leave, of.called(2, cell, clipped=False)), cell]

    return of.all_of_bias(), made


def _gru_step(of: _Direction, attributes: Attributes) -> tuple[Expr | None, Step]:
    one = relax.const(1, of.dtype)
    after = bool(attributes["linear_before_reset"])
    weights, later = (of.turned(), None) if after else (of.turned(0, 2), of.turned(2, 1))
    bias, inner = of.all_of_bias(), None
    if after and of.bias:
        # The candidate's is multiplied by the reset gate, with the product that it belongs to.
        zero = of.emit(op.zeros(relax.ShapeExpr([of.hidden]), of.dtype))
        bias = of.add(of.bias[0], of.emit(op.concat([of.part(of.bias[1], 0, 2), zero], axis=0)))
        inner = of.part(of.bias[1], 2)

    def made(row: Expr, states: list[Expr]) -> list[Expr]:
        (hidden,) = states
        product = of.product(hidden, weights)
        gates = of.add(of.part(product, 0, 2), of.part(row, 0, 2)) if after else of.add(product, of.part(row, 0, 2))
        update, reset = of.called(0, of.part(gates, 0)), of.called(0, of.part(gates, 1))
        if later is None:
            candidate = of.multiply(reset, of.add(of.part(product, 2), inner))
        else:
            candidate = of.product(of.multiply(reset, hidden), later)
        candidate = of.called(1, of.add(candidate, of.part(row, 2)))
        fresh = of.multiply(of.emit(op.subtract(one, update)), candidate)
        return [of.add(fresh, of.multiply(update, hidden))]

    return bias, made


def _rnn_step(of: _Direction, attributes: Attributes) -> tuple[Expr | None, Step]:
    weights = of.turned()

    def made(row: Expr, states: list[Expr]) -> list[Expr]:
        return [of.called(0, of.add(of.product(states[0], weights), row))]

    return of.all_of_bias(), made


@dataclass(frozen=True)
class _Kind:
    """A recurrent operator: `functions` are the activation functions of one direction, where a node names none."""

    name: str
    states: int
    functions: Sequence[str]
    step: Callable[[_Direction, Attributes], tuple[Expr | None, Step]]

    def convert(
        self,
        builder: Expr,
        inputs: Sequence[Any],
        attributes: Attributes,
        seen: Callable[[Expr], Expr] = lambda state: state,
    ) -> list[Expr]:
        """As the converters of `onnx_operators`. Raises InputError for a length that varies, or is too long."""
        data, weights, recurrence, bias, lengths, hidden, cell, peepholes = (*inputs, *[None] * 8)[:8]
        batchwise = bool(attributes.get("layout", 0))
        if batchwise:
            data, hidden, cell = (_swapped(builder, found) for found in (data, hidden, cell))
        backwards = _BACKWARDS.get(attributes["direction"].decode())
        if backwards is None:
            raise InputError("its direction is none of forward, reverse and bidirectional: give one of these")
        functions = activations(attributes, list(self.functions) * len(backwards))
        found: list[list[Expr]] = []
        for number, backward in enumerate(backwards):
            of = _Direction(
                builder,
                axes_of(recurrence)[2],
                tensor_dtype(data.ty) or "",
                _at(builder, recurrence, number),
                None if bias is None else _halves(builder, _at(builder, bias, number)),
                None if peepholes is None else _at(builder, peepholes, number),
                functions[number * len(self.functions) : (number + 1) * len(self.functions)],
                float(attributes.get("clip", 0.0)),
                seen,
            )
            zeros = op.zeros(relax.ShapeExpr([axes_of(data)[1], of.hidden]), of.dtype)
            start = [
                builder.emit(zeros) if state is None else _at(builder, state, number)
                for state in (hidden, cell)[: self.states]
            ]
            run = _Run(builder, data, lengths, backward, steps_of(data, 0))
            found.append(run.all(_at(builder, weights, number), *self.step(of, attributes), start))
        result, *states = (list(each) for each in zip(*found, strict=True))
        everything = builder.emit(op.stack(result, axis=1))
        last = [builder.emit(op.stack(state, axis=0)) for state in states]
        if not batchwise:
            return [everything, *last]
        return [op.permute_dims(everything, [2, 0, 1, 3]), *(op.permute_dims(state, [1, 0, 2]) for state in last)]


_BACKWARDS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


def _swapped(builder: Expr, data: Expr | None) -> Expr | None:
    return None if data is None else builder.emit(op.permute_dims(data, [1, 0, 2]))


def _at(builder: Expr, data: Expr, number: int) -> Expr:
    """What one direction has of an operand, whose first axis they are."""
    if axes_of(data)[0] != 1:
        data = builder.emit(op.strided_slice(data, [0], [number], [number + 1]))
    return builder.emit(op.reshape(data, axes_of(data)[1:]))


def _halves(builder: Expr, data: Expr) -> tuple[Expr, Expr]:
    half = axes_of(data)[0] // 2
    first, second = (builder.emit(op.strided_slice(data, [0], [place], [place + half])) for place in (0, half))
    return first, second


@dataclass(frozen=True)
class _Run:
    """Over the steps of `data` [steps, batch, size] in one direction; `lengths` says how many each sequence has."""

    builder: Expr
    data: Expr
    lengths: Expr | None
    backward: bool
    count: int

    def all(self, weights: Expr, bias: Expr | None, made: Step, states: list[Expr]) -> list[Expr]:
        """The hidden state after each step, in the order of `data` and 0 behind a sequence's end; then the last states,
        0 for a sequence without steps."""
        emit, data, inside = self.builder.emit, self.data, None
        if self.lengths is not None:
            size = emit(op.reshape(emit(op.astype(self.lengths, "int64")), [1, -1, 1]))
            inside = emit(op.less(along(self.builder, data, 0), size))
            data = self._turned(data)
        rows = emit(op.matmul(data, emit(op.permute_dims(weights))))
        if bias is not None:
            rows = emit(op.add(rows, bias))
        hidden: dict[int, Expr] = {}
        order = range(self.count)
        for number in reversed(order) if self.backward and inside is None else order:
            new = made(step(self.builder, rows, number), states)
            if inside is not None:
                here = step(self.builder, inside, number)
                new = [emit(op.where(here, found, old)) for found, old in zip(new, states, strict=True)]
            states = new
            hidden[number] = states[0]
        result = emit(op.stack([hidden[number] for number in order], axis=0))
        if inside is None:
            return [result, *states]
        zero, first = relax.const(0, tensor_dtype(result.ty)), step(self.builder, inside, 0)
        result = self._turned(emit(op.where(inside, result, zero)))
        return [result, *(emit(op.where(first, state, zero)) for state in states)]

    def _turned(self, data: Expr) -> Expr:
        return reversed_within(self.builder, data, self.lengths, 0, 1) if self.backward else data


_LSTM = _Kind("LSTM", 2, ("Sigmoid", "Tanh", "Tanh"), _lstm_step)

lstm = _LSTM.convert
"""With a fourth argument: what the products see of a state."""

RECURRENT = {
    kind.name: kind.convert
    for kind in (
        _Kind("GRU", 1, ("Sigmoid", "Tanh"), _gru_step),
        _LSTM,
        _Kind("RNN", 1, ("Tanh",), _rnn_step),
    )
}
"""Operator -> its converter, as in `onnx_operators`."""
