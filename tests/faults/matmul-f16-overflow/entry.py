"""A quantised matmul that adds up in float16."""

import numpy as np
from tvm import te

from gallery import Case, Fault, Wgsl
from operators import random, te_model

ROWS, LENGTH, COLUMNS = 4, 64, 16


def matmul(x: te.Tensor, quantized: te.Tensor, scale: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, LENGTH), "k")
    weight = te.compute(
        (COLUMNS, LENGTH), lambda j, i: quantized[j, i].astype("float32") * scale[j].astype("float32"), name="weight"
    )
    total = te.compute(
        (ROWS, COLUMNS), lambda i, j: te.sum(x[i, k].astype("float32") * weight[j, k], axis=k), name="total"
    )
    return te.compute((ROWS, COLUMNS), lambda i, j: total[i, j].astype("float16"), name="out")


def inputs() -> dict[str, np.ndarray]:
    """Partial sums beyond 65504 whose total is small, as in Gemma 3."""
    signs = np.where(np.arange(LENGTH) % 4 < 2, 1, -1)
    quantized = (signs * random(12).integers(100, 127, (COLUMNS, LENGTH))).astype(np.int32)
    x = np.full((ROWS, LENGTH), 16.0, np.float16)
    return {"x": x, "quantized": quantized, "scale": np.full(COLUMNS, 18.0, np.float16)}


FAULT = Fault(
    title="partial sums in float16 overflow in a quantised matmul",
    sources=("https://github.com/microsoft/onnxruntime/issues/26732",),
    how="Products of 36000 that cancel: two of them in a row exceed float16, their exact sum does not.",
    model=lambda: te_model("matmul", matmul, inputs()),
    correct=Case(Wgsl("correct.wgsl"), device="deno"),
    faulty=Case(Wgsl("faulty.wgsl"), device="deno", verdicts=("fail",), words=("52 of 64", "52 Inf")),
    pattern="nan-range",
    says="Infinity in 52 of 64 elements",
    elsewhere={"chromium": (("unsupported",), ("unsupported",))},
)
