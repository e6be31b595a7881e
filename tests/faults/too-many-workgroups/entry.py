"""A workgroup for each row of a large batch, along one dimension."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="more than 65535 workgroups in one dimension",
    sources=("https://github.com/ggml-org/llama.cpp/pull/19965",),
    how="65600 workgroups along y, which nothing folds.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(18, 65600)}),
    correct=Case(Wgsl("correct.wgsl", ((8200, 8, 1),))),
    faulty=Case(Wgsl("faulty.wgsl", ((1, 65600, 1),)), verdicts=("unsupported",), words=("65600", "65535")),
    says="dispatches [1,65600,1] workgroups, this device allows maxComputeWorkgroupsPerDimension 65535",
)
