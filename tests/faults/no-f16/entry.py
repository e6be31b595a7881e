"""A float16 model on a GPU without float16."""

from tvm import relax

from gallery import Case, Fault
from operators import normal, relax_model

FAULT = Fault(
    title="an adapter without shader-f16",
    sources=("https://github.com/mlc-ai/web-llm/issues/254",),
    how="A device that does not have the feature; TVM's kernel says that it needs it.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(26, 256, dtype="float16")}),
    correct=Case(device="deno"),
    faulty=Case(device="deno+no-f16", verdicts=("unsupported",), words=("needs the feature shader-f16",)),
    says="needs the feature shader-f16, which this device lacks",
    elsewhere={"chromium": (("unsupported",), ("unsupported",))},
)
