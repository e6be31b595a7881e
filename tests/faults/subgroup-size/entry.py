"""A sum over the subgroup that takes it for a row of 32."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="subgroups are taken to be 32 wide",
    sources=(
        "https://github.com/microsoft/onnxruntime/pull/23637",
        "https://github.com/mlc-ai/web-llm/issues/553",
    ),
    how="subgroupAdd over rows of 32 on a device whose subgroups have 4 invocations. The kernel states `subgroups`, "
    "but no size: with subgroupMinSize 32 among its requirements it would be unsupported here.",
    model=lambda: relax_model(lambda x: relax.op.sum(x, axis=-1), {"x": normal(23, 8, 32)}),
    correct=Case(Wgsl("correct.wgsl", ((8, 1, 1),))),
    faulty=Case(Wgsl("faulty.wgsl", ((8, 1, 1),)), verdicts=("fail",), words=("8 of 8",)),
    pattern="wrong-terms",
    says="the last 28 of 32 terms left out of sum(x)",
    elsewhere={"firefox": (("unsupported",), ("unsupported",))},
)
