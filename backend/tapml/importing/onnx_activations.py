"""The activation functions that ONNX's recurrent operators name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.relax_ir import Expr, tensor_dtype

Activation = Callable[[Expr, Expr], Expr]
"""From a builder and a tensor to what the function makes of it."""


def activations(attributes: Mapping[str, Any], defaults: Sequence[str]) -> list[Activation]:
    """Those that a node names, with `activation_alpha` and `activation_beta` given out in order to those that take one.

    Raises InputError for a name that ONNX does not have, or fewer of them than of `defaults`.
    """
    # RNN's default is two of them, whatever its direction.
    names = [name.decode() for name in attributes.get("activations", ()) or ()][: len(defaults)] or list(defaults)
    if len(names) != len(defaults):
        raise InputError(f"{len(names)} activation functions are named where {len(defaults)} are needed")
    given = {key: list(attributes.get(f"activation_{key}", ())) for key in ("alpha", "beta")}
    result: list[Activation] = []
    for name in names:
        if (known := _FUNCTIONS.get(name.lower())) is None:
            raise InputError(f"there is no activation function {name!r} in ONNX: give one that it has, such as Tanh")
        function, numbers = known
        chosen = {key: given[key].pop(0) if given[key] else default for key, default in numbers.items()}
        result.append(_Chosen(function, chosen))
    return result


class _Chosen:
    def __init__(self, function: Callable[..., Expr], numbers: Mapping[str, float]) -> None:
        self._function = function
        self._numbers = numbers

    def __call__(self, builder: Expr, data: Expr) -> Expr:
        dtype = tensor_dtype(data.ty)
        numbers = {key: relax.const(value, dtype) for key, value in self._numbers.items()}
        return builder.emit(self._function(builder.emit, data, **numbers))


Emit = Callable[[Expr], Expr]


def _zero(data: Expr) -> Expr:
    return relax.const(0, tensor_dtype(data.ty))


def _one(data: Expr) -> Expr:
    return relax.const(1, tensor_dtype(data.ty))


def _affine(emit: Emit, data: Expr, alpha: Expr, beta: Expr) -> Expr:
    return op.add(emit(op.multiply(alpha, data)), beta)


def _leaky_relu(emit: Emit, data: Expr, alpha: Expr) -> Expr:
    return op.where(emit(op.less(data, _zero(data))), emit(op.multiply(alpha, data)), data)


def _thresholded_relu(emit: Emit, data: Expr, alpha: Expr) -> Expr:
    return op.where(emit(op.greater(data, alpha)), data, _zero(data))


def _scaled_tanh(emit: Emit, data: Expr, alpha: Expr, beta: Expr) -> Expr:
    return op.multiply(alpha, emit(op.tanh(emit(op.multiply(beta, data)))))


def _hard_sigmoid(emit: Emit, data: Expr, alpha: Expr, beta: Expr) -> Expr:
    return op.minimum(emit(op.maximum(emit(_affine(emit, data, alpha, beta)), _zero(data))), _one(data))


def _elu(emit: Emit, data: Expr, alpha: Expr) -> Expr:
    # Of what lies below zero only, for exp overflows above 88.
    below = emit(op.minimum(data, _zero(data)))
    grown = emit(op.multiply(alpha, emit(op.subtract(emit(op.exp(below)), _one(data)))))
    return op.add(emit(op.maximum(data, _zero(data))), grown)


def _softsign(emit: Emit, data: Expr) -> Expr:
    return op.divide(data, emit(op.add(emit(op.abs(data)), _one(data))))


def _softplus(emit: Emit, data: Expr) -> Expr:
    # log(1 + exp(x)), without exp of what is large.
    rest = emit(op.exp(emit(op.negative(emit(op.abs(data))))))
    return op.add(emit(op.maximum(data, _zero(data))), emit(op.log(emit(op.add(rest, _one(data))))))


_FUNCTIONS: Mapping[str, tuple[Callable[..., Expr], Mapping[str, float]]] = {
    "affine": (_affine, {"alpha": 1.0, "beta": 0.0}),
    "elu": (_elu, {"alpha": 1.0}),
    "hardsigmoid": (_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": (_leaky_relu, {"alpha": 0.01}),
    "relu": (lambda emit, data: op.nn.relu(data), {}),
    "scaledtanh": (_scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": (lambda emit, data: op.sigmoid(data), {}),
    "softplus": (_softplus, {}),
    "softsign": (_softsign, {}),
    "tanh": (lambda emit, data: op.tanh(data), {}),
    "thresholdedrelu": (_thresholded_relu, {"alpha": 1.0}),
}
"""By name in small letters, which is how ONNX Runtime compares them: a function, and its numbers' defaults."""
