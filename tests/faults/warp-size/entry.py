"""A reduction that leaves out barriers once 32 invocations are left, as one warp needs none."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="a warp of 32 is taken for granted",
    sources=("https://doi.org/10.1145/3728957",),
    how="The last steps of a reduction go without barriers; here 4 or 8 invocations run together, not 32.",
    model=lambda: relax_model(lambda x: relax.op.sum(x, axis=-1), {"x": normal(10, 8, 64)}),
    correct=Case(Wgsl("correct.wgsl", ((8, 1, 1),))),
    faulty=Case(Wgsl("faulty.wgsl", ((8, 1, 1),)), verdicts=("fail",), words=("8 of 8",)),
    pattern="race",
    says="one invocation writes workgroup memory part in line 13, another one reads it in line 14",
)
