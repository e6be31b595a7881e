"""Index arithmetic in the tensor's own dtype."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="index arithmetic in float16 is wrong past 2048",
    sources=("https://github.com/microsoft/onnxruntime/issues/28976",),
    how="Upsampling by two to 4096 elements: the source's index is the output's in float16, halved.",
    model=lambda: relax_model(lambda x: relax.op.repeat(x, 2, axis=0), {"x": normal(16, 2048, dtype="float16")}),
    correct=Case(device="deno"),
    faulty=Case(
        Wgsl("faulty.wgsl", ((64, 1, 1),)), device="deno", verdicts=("fail",), words=("512 of 4096",), first=(2051,)
    ),
    pattern="shift",
    says="first wrong element [2051]",
    elsewhere={"chromium": (("unsupported",), ("unsupported",))},
)
