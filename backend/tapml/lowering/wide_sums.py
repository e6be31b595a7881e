"""Operators that give float16 add up in float32, and round once, as PyTorch and ONNX Runtime do.

TVM adds up in the dtype of the result. What a sum of thousands of float16 may be off by is more than what many a wrong
kernel gives, so that its bounds find little; and a kernel that is fast adds up in float32 in any case. Nor does TVM
divide by a number of elements that float16 does not have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax, te, topi
from tvm.relax import op

# FLegalize, by which they are registered, would bring them a builder of TVM's own.
from tvm.relax.transform.legalize_ops import linear_algebra, nn, statistical

from tapml.lowering.calls import shape_of
from tapml.lowering.expanded import REDUCED

Legalize = Callable[[Any, Any], Any]


class _Rounding(relax.BlockBuilder):  # type: ignore[misc]  # TVM has no types
    """Tensor expressions are rounded to float16 in the PrimFunc that computes them, which is one of `target`'s and has
    `attributes`: a cast of its own would be an operator that the model does not have. `widening`: they are of float32
    in place of float16."""

    def __init__(self, target: Any, attributes: Mapping[str, Any] = MappingProxyType({}), *, widening: bool) -> None:
        super().__init__()
        self._target, self._attributes, self._widening = target, dict(attributes), widening

    def call_te(self, func: Callable[..., Any], *args: Any, **named: Any) -> Any:
        @wraps(func)  # a PrimFunc has its name
        def rounded(*given: Any, **others: Any) -> Any:
            return _rounded(func(*(map(_widened, given) if self._widening else given), **others))

        return self._target.call_te(rounded, *args, primfunc_attrs=self._attributes, **named)

    def lookup_binding(self, var: Any) -> Any:
        return self._target.lookup_binding(var)


def _widened(given: Any) -> Any:
    return topi.cast(given, "float32") if isinstance(given, te.Tensor) and given.dtype == "float16" else given


def product_of(shape: Sequence[Any], factors: Callable[..., tuple[Any, Any]], term: Any, dtype: str) -> Any:
    """The sums over `term` of products of two `factors` that each element has, of `dtype`."""
    wide = "float32" if dtype == "float16" else dtype

    def product(*at: Any) -> Any:
        left, right = factors(*at)
        return left.astype(wide) * right.astype(wide)

    sums = te.compute(shape, lambda *at: te.sum(product(*at), axis=term), name="matmul")
    return _rounded(sums) if wide != dtype else sums


def _rounded(numbers: Any) -> Any:
    return te.compute(numbers.shape, lambda *at: numbers(*at).astype("float16"), name="rounded")


def _of_factors(legalize: Legalize, made: Callable[..., Any], builder: Any, call: Any) -> Any:
    attributes = [name for name in inspect.signature(made).parameters if hasattr(call.attrs, name)]
    fields = {name: getattr(call.attrs, name) for name in attributes} | {"out_dtype": "float32"}
    wide = builder.normalize(made(*call.args, **fields))
    found = legalize(_Rounding(builder, widening=False), wide)
    # TVM has no kernel for some layouts.
    return call if found.same_as(wide) else found


def _of_tensors(legalize: Legalize, builder: Any, call: Any) -> Any:
    return legalize(_Rounding(builder, widening=True), call)


def _sum(builder: Any, call: Any) -> Any:
    return statistical._statistical(topi.sum)(_Rounding(builder, {"op_pattern": REDUCED}, widening=True), call)


_CONVOLUTIONS = [f"conv{rank}d{transposed}" for rank in (1, 2, 3) for transposed in ("", "_transpose")]
_OF_IMAGES = [f"{adaptive}avg_pool{rank}d" for rank in (1, 2, 3) for adaptive in ("", "adaptive_")]
_OF_NUMBERS = ("mean", "variance", "std")
_WIDE: dict[str, Legalize] = {
    "matmul": partial(_of_factors, linear_algebra._matmul, op.matmul),
    **{f"nn.{name}": partial(_of_factors, getattr(nn, f"_nn_{name}"), getattr(op.nn, name)) for name in _CONVOLUTIONS},
    "einsum": partial(_of_tensors, linear_algebra._einsum),
    "sum": _sum,
    **{name: partial(_of_tensors, getattr(statistical, f"_{name}")) for name in _OF_NUMBERS},
    **{
        f"nn.{name}": partial(_of_tensors, getattr(nn, f"_nn_{name}"))
        for name in ("softmax", "log_softmax", *_OF_IMAGES)
    },
}


def summed_in_float32(name: str, legalize: Legalize) -> Legalize:
    """What TVM has of relax's operator `name`, or one of this module's, where that gives float16."""
    name = name.removeprefix("relax.")
    wide = _WIDE.get(name)
    if wide is None:
        return legalize

    def made(builder: Any, call: Any) -> Any:
        return (wide if str(call.ty.dtype) == "float16" and _is_wider(name, call) else legalize)(builder, call)

    return made


def _is_wider(name: str, call: Any) -> bool:
    """Not for the sum of nothing, nor for a sum that is a single number: TVM's schedules have one invocation add it up
    where its result is rounded (means are computed so in any case)."""
    (given, *_) = call.args
    tensors = given.ty.fields if isinstance(given.ty, relax.TupleType) else [given.ty]
    for sizes in (getattr(tensor.shape, "values", None) for tensor in tensors):
        if sizes is None or any(isinstance(size, tvm.tirx.IntImm) and int(size) == 0 for size in sizes):
            return False
    if name == "einsum" and len(tensors) == 1:  # into which what it is of is fused, as TVM has it
        return False
    return shape_of(call) != [] or name in _OF_NUMBERS
