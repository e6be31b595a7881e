"""Products of matrices that give float16 are summed in float32 and rounded once, as PyTorch and ONNX Runtime have them.

TVM sums a product in the dtype of its result. What a sum of thousands of float16 may be off by is more than what many
a wrong kernel gives, so that its bounds find little; and a kernel that is fast sums in float32 in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te
from tvm.relax import op

# FLegalize, by which it is registered, would bring it a builder of TVM's own.
from tvm.relax.transform.legalize_ops.linear_algebra import _matmul


class _Rounding(relax.BlockBuilder):  # type: ignore[misc]  # TVM has no types
    """Tensor expressions are rounded to float16 in the PrimFunc that computes them, which is one of `target`'s: a cast
    of its own would be an operator that the model does not have."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        self._target = target

    def call_te(self, func: Callable[..., Any], *args: Any, **named: Any) -> Any:
        def rounded(*tensors: Any) -> Any:
            sums = func(*tensors)
            return te.compute(sums.shape, lambda *at: sums(*at).astype("float16"), name="rounded")

        return self._target.call_te(rounded, *args, **named)


def summed_in_float32(builder: Any, call: Any) -> Any:
    """What relax.matmul becomes: TVM's own PrimFunc, but in one that gives float16 sums are float32."""
    if str(call.ty.dtype) != "float16":
        return _matmul(builder, call)
    return _matmul(_Rounding(builder), builder.normalize(op.matmul(*call.args, out_dtype="float32")))
