"""Dequantisation that converts four packed bytes as one number."""

from typing import Any

import numpy as np
from tvm import te, tirx

from gallery import Case, Fault, Wgsl
from operators import random, te_model


def dequantize(packed: te.Tensor, scale: te.Tensor) -> te.Tensor:
    def element(i: tirx.Var) -> Any:
        byte = (packed[i // 4] >> ((i % 4) * 8).astype("uint32")) & tirx.const(0xFF, "uint32")
        return (byte.astype("float32") - 128.0).astype("float16") * scale[i // 32]

    return te.compute((packed.shape[0] * 4,), element, name="weight")


def inputs() -> dict[str, np.ndarray]:
    weights = random(3).integers(0, 256, 256).astype(np.uint8)
    scales = (random(4).uniform(0.5, 2.0, 8) / 128).astype(np.float16)
    return {"packed": weights.view(np.uint32), "scale": scales}


FAULT = Fault(
    title="uint8x4 converted through uint32 before half",
    sources=("https://doi.org/10.1145/3728957",),
    how="Each of the four lanes gets the half of the whole word, which overflows, instead of its own byte's.",
    model=lambda: te_model("dequantize", dequantize, inputs()),
    correct=Case(Wgsl("correct.wgsl", ((4, 1, 1),)), device="deno"),
    faulty=Case(Wgsl("faulty.wgsl", ((4, 1, 1),)), device="deno", verdicts=("fail",), words=("of 256",)),
    pattern="nan-range",
    says="Infinity in every element",
    elsewhere={"chromium": (("unsupported",), ("unsupported",))},
)
