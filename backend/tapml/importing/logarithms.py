"""log(1 + x) that is as exact near 0 as elsewhere.

TVM's importers write the sum out, of which rounding leaves little: a state space model whose time steps are softplus of
-7 was off by 1e-4 of what it remembers, and accused of being imported wrongly.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx
from tvm.relax import op

from tapml.importing.kernel_calls import as_dtype, call
from tapml.importing.relax_ir import Expr, tensor_dtype


def log1p(builder: Expr, data: Expr) -> Expr:
    def kernel(x: Any) -> Any:
        return te.compute(x.shape, lambda *place: tirx.log1p(x(*place)), name="log1p")

    return as_dtype(builder, call(builder, kernel, [data], name="log1p"), tensor_dtype(data.ty))


def softplus(builder: Expr, data: Expr) -> Expr:
    """log(1 + exp(x)), without exp of what is large."""
    emit, zero = builder.emit, relax.const(0, tensor_dtype(data.ty))
    return emit(op.add(emit(op.maximum(data, zero)), log1p(builder, _falling(builder, data))))


def mish(builder: Expr, data: Expr) -> Expr:
    """x tanh(softplus(x)). With e = exp(x) the factor is (e^2 + 2e) / (e^2 + 2e + 2), above 0 written with exp(-x):
    nothing cancels, and nothing overflows."""
    emit = builder.emit
    zero, two = (relax.const(number, tensor_dtype(data.ty)) for number in (0, 2))
    falling = _falling(builder, data)
    square, twice = emit(op.multiply(falling, falling)), emit(op.multiply(two, falling))
    below = emit(op.less(data, zero))
    # Above 0 both are divided by e^2.
    over = emit(op.add(twice, emit(op.where(below, square, relax.const(1, tensor_dtype(data.ty))))))
    under = emit(op.add(over, emit(op.where(below, two, emit(op.multiply(two, square))))))
    return emit(op.multiply(data, emit(op.divide(over, under))))


def _falling(builder: Expr, data: Expr) -> Expr:
    """exp(-|x|)."""
    emit = builder.emit
    return emit(op.exp(emit(op.negative(emit(op.abs(data))))))
