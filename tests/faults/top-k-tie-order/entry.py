"""A router whose top-k takes the other of two equal experts."""

import numpy as np
from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model


def router() -> dict[str, np.ndarray]:
    """Logits of 16 tokens for 8 experts, coarse as those of a float16 or quantised router: some are equal."""
    logits = np.round(2 * normal(51, 16, 8)) / 2
    return {"logits": logits.astype(np.float32)}


FAULT = Fault(
    title="a top-k with another tie order (the mixture-of-experts case): no bug, and not accused",
    sources=("https://doi.org/10.1145/3728957",),
    how="A kernel that takes the last of equal experts where the reference takes "
    "the first: a pass, with the elements that changed places counted.",
    model=lambda: relax_model(lambda x: relax.op.topk(x, k=2, axis=1, ret_type="indices", dtype="int32"), router()),
    correct=Case(Wgsl("correct.wgsl")),
    faulty=Case(Wgsl("faulty.wgsl")),
    tied=9,
)
