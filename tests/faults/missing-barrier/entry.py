"""A tile that is read before all of it is there."""

from tvm import relax

from gallery import Case, Edit, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="a missing workgroupBarrier",
    sources=("https://github.com/microsoft/onnxruntime/pull/23663",),
    how="A row is loaded into workgroup memory and read by other invocations without a barrier between.",
    model=lambda: relax_model(lambda x: relax.op.flip(x, axis=1), {"x": normal(22, 8, 128)}),
    correct=Case(Wgsl("correct.wgsl", ((8, 1, 1),))),
    faulty=Case(Edit("  workgroupBarrier();\n", ""), verdicts=("fail",), words=("of 1024",)),
    pattern="constant",
    says="every element is 0",
)
