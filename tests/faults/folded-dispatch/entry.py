"""A kernel that knows nothing of the folding of its dispatch."""

from tvm import relax

from gallery import Case, Edit, Fault
from operators import normal, relax_model

FAULT = Fault(
    title="raw workgroup_id.x after the dispatch was folded",
    sources=(
        "https://github.com/microsoft/onnxruntime/pull/23696",
        "https://github.com/microsoft/onnxruntime/issues/28536",
    ),
    how="A grid of 12 workgroups is folded into 3 x 1 x 4, of which the kernel reads one dimension.",
    grid=(3, 1, 4),
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(17, 3000)}),
    correct=Case(),
    faulty=Case(
        Edit("i32(blockIdx.z * gridDim.x + blockIdx.x)", "i32(blockIdx.x)"),
        verdicts=("fail",),
        words=("2232 of 3000", "[768]", "NaN"),
    ),
    pattern="unwritten",
    says="2232 of 3000 elements were never written",
)
