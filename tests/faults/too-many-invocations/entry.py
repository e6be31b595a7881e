"""A kernel for desktop GPUs on a device of the least limits."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="more than 256 invocations in a workgroup",
    sources=("https://doi.org/10.1145/3728957", "https://github.com/mlc-ai/mlc-llm/issues/838"),
    how="A workgroup of 512 that states no requirement, on a device of WebGPU's least limits.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(8, 2048)}),
    correct=Case(device="node-dawn+least-limits"),
    faulty=Case(
        Wgsl("faulty.wgsl", ((4, 1, 1),), requires={"features": [], "limits": {}}),
        device="node-dawn+least-limits",
        verdicts=("error",),
        words=("512", "256"),
    ),
    pattern="error",
    says="workgroup_size(512, 1, 1) that exceeds the maximum allowed",
)
