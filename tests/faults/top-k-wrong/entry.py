"""A router whose top-k takes the best expert twice."""

import numpy as np
from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model


def router() -> dict[str, np.ndarray]:
    """Logits of 16 tokens for 8 experts, coarse as those of a float16 or quantised router: some are equal."""
    logits = np.round(2 * normal(51, 16, 8)) / 2
    return {"logits": logits.astype(np.float32)}


FAULT = Fault(
    title="a top-k that is wrong, ties or not",
    sources=("https://doi.org/10.1145/3728957",),
    how="The second round does not leave out the expert of the first: equals do not excuse that.",
    model=lambda: relax_model(lambda x: relax.op.topk(x, k=2, axis=1, ret_type="indices", dtype="int32"), router()),
    correct=Case(Wgsl("correct.wgsl")),
    faulty=Case(Wgsl("faulty.wgsl"), verdicts=("fail",), words=("of 32",)),
    pattern="broadcast",
    says="all 2 columns are the same; the reference's are not",
)
