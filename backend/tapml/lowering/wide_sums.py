"""Operators that give float16 add up in float32, and round once, as PyTorch and ONNX Runtime do.

TVM adds up in the dtype of the result. What a sum of thousands of float16 may be off by is more than what many a wrong
kernel gives, so that its bounds find little; and a kernel that is fast adds up in float32 in any case. Nor does TVM
divide by a number of elements that float16 does not have.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import relax, te, topi
from tvm.relax import op

# FLegalize, by which they are registered, would bring them a builder of TVM's own.
from tvm.relax.transform.legalize_ops import linear_algebra, nn

from tapml.lowering.calls import axes_of, shape_of
from tapml.lowering.expanded import REDUCED

Legalize = Callable[[Any, Any], Any]


class _Rounding(relax.BlockBuilder):  # type: ignore[misc]  # TVM has no types
    """Tensor expressions are rounded to float16 in the PrimFunc that computes them, which is one of `target`'s: a cast
    of its own would be an operator that the model does not have."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        self._target = target

    def call_te(self, func: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return self._target.call_te(lambda *given, **others: _rounded(func(*given, **others)), *args, **named)


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
    found = legalize(_Rounding(builder), wide)
    # TVM has no kernel for some layouts.
    return call if found.same_as(wide) else found


def _mean(numbers: Any, axes: list[int], keepdims: bool) -> Any:
    count = math.prod([numbers.shape[axis] for axis in axes])
    return topi.sum(numbers, axes, keepdims) / topi.cast(count, "float32")


def _variance(numbers: Any, axes: list[int], keepdims: bool) -> Any:
    apart = numbers - _mean(numbers, axes, True)
    return _mean(apart * apart, axes, keepdims)


_OF_AXES: dict[str, Callable[..., Any]] = {
    "sum": topi.sum,
    "mean": _mean,
    "variance": _variance,
    "std": lambda *given: topi.sqrt(_variance(*given)),
}
_OF_ROWS: dict[str, Callable[..., Any]] = {"nn.softmax": topi.nn.softmax, "nn.log_softmax": topi.nn.log_softmax}


def _of(name: str, builder: Any, call: Any) -> Any:
    def computed(given: Any) -> Any:
        numbers = topi.cast(given, "float32")
        if name in _OF_ROWS:
            return _rounded(_OF_ROWS[name](numbers, int(call.attrs.axis)))
        return _rounded(_OF_AXES[name](numbers, axes_of(call, len(given.shape)), bool(call.attrs.keepdims)))

    attributes = {"op_pattern": REDUCED} if name == "sum" else {}
    hint = name.removeprefix("nn.")
    return builder.call_te(computed, call.args[0], primfunc_name_hint=hint, primfunc_attrs=attributes)


_CONVOLUTIONS = [f"conv{rank}d{transposed}" for rank in (1, 2, 3) for transposed in ("", "_transpose")]
_WIDE: dict[str, Legalize] = {
    "matmul": partial(_of_factors, linear_algebra._matmul, op.matmul),
    **{f"nn.{name}": partial(_of_factors, getattr(nn, f"_nn_{name}"), getattr(op.nn, name)) for name in _CONVOLUTIONS},
    **{name: partial(_of, name) for name in (*_OF_AXES, *_OF_ROWS)},
}


def summed_in_float32(name: str, legalize: Legalize) -> Legalize:
    """What TVM has of relax's operator `name`, or one of this module's, where that gives float16."""
    wide = _WIDE.get(name.removeprefix("relax."))
    if wide is None:
        return legalize

    def made(builder: Any, call: Any) -> Any:
        return (wide if str(call.ty.dtype) == "float16" and _is_wider(name, call) else legalize)(builder, call)

    return made


def _is_wider(name: str, call: Any) -> bool:
    """Not for the sum of nothing, nor for that of a whole tensor: TVM's schedules have one invocation add it up where
    its result is rounded."""
    sizes = shape_of(call.args[0])
    if sizes is None or any(isinstance(size, tvm.tirx.IntImm) and int(size) == 0 for size in sizes):
        return False
    return name != "relax.sum" or shape_of(call) != []
