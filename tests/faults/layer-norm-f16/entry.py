"""A LayerNorm whose variance is computed in float16."""

import numpy as np
from tvm import te

from gallery import Case, Fault, Wgsl
from operators import normal, te_model

ROWS, WIDTH = 4, 64


def layer_norm(x: te.Tensor, weight: te.Tensor, bias: te.Tensor) -> te.Tensor:
    k, j = te.reduce_axis((0, WIDTH), "k"), te.reduce_axis((0, WIDTH), "j")
    total = te.compute((ROWS,), lambda i: te.sum(x[i, k].astype("float32"), axis=k), name="total")
    centred = te.compute((ROWS, WIDTH), lambda i, n: x[i, n].astype("float32") - total[i] / WIDTH, name="centred")
    square = te.compute((ROWS,), lambda i: te.sum(centred[i, j] * centred[i, j], axis=j), name="square")
    return te.compute(
        (ROWS, WIDTH),
        lambda i, n: (centred[i, n] * te.rsqrt(square[i] / WIDTH + 1e-5)).astype("float16") * weight[n] + bias[n],
        name="out",
    )


def inputs() -> dict[str, np.ndarray]:
    """A residual stream with an outlier in its second row, as Whisper's from layer 7 on."""
    x = normal(13, ROWS, WIDTH, dtype="float16", scale=4.0)
    x[1, 20] = 795.0
    return {
        "x": x,
        "weight": normal(14, WIDTH, dtype="float16", scale=0.1) + np.float16(1.0),
        "bias": normal(15, WIDTH, dtype="float16", scale=0.5),
    }


FAULT = Fault(
    title="the variance overflows in float16: outputs are finite and wrong, without a NaN",
    sources=("https://github.com/microsoft/onnxruntime/issues/31626",),
    how="A row with an outlier of 795: its square is infinite, the row becomes zero times the weight plus the bias.",
    model=lambda: te_model("layer_norm", layer_norm, inputs()),
    correct=Case(Wgsl("correct.wgsl", ((ROWS, 1, 1),)), device="deno"),
    faulty=Case(Wgsl("faulty.wgsl", ((ROWS, 1, 1),)), device="deno", verdicts=("fail",), words=("of 256",)),
    pattern="dtype-conversion",
    says="sum((x - (... / 64)) * (x - (... / 64))) rounded to float16",
    elsewhere={"chromium": (("unsupported",), ("unsupported",))},
)
