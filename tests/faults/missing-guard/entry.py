"""A reduction into a tile that is narrower than the invocations that write it."""

import numpy as np
from tvm import relax

from gallery import Case, Edit, Fault, Wgsl
from operators import normal, random, relax_model


def inputs() -> dict[str, np.ndarray]:
    """Weights of the attention, and the values of a head of size two."""
    weights = random(20).dirichlet(np.ones(16)).astype(np.float32)
    return {"weights": weights.reshape(1, 16), "values": normal(21, 16, 2)}


FAULT = Fault(
    title="a missing bounds guard: clamped writes race on the last element",
    sources=("https://github.com/microsoft/onnxruntime/pull/29593",),
    how="Eight invocations add to a tile of two, as a head is narrower than the tile was made for; WGSL clamps the "
    "indices of six of them to the tile's last element.",
    model=lambda: relax_model(relax.op.matmul, inputs()),
    correct=Case(Wgsl("correct.wgsl")),
    faulty=Case(Edit("if (j < 8u && j < 2u)", "if (j < 8u)"), verdicts=("fail",), words=("1 of 2", "[0, 1]")),
    pattern="scattered",
    says="the first [0, 1]",
)
