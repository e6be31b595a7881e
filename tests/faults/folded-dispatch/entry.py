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
    how="A device of 4 workgroups a dimension: 12 are folded into three dimensions, of which the kernel reads one.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(17, 3000)}),
    correct=Case(device="node-dawn+few-workgroups"),
    faulty=Case(
        Edit("i32(blockIdx.z * gridDim.x + blockIdx.x)", "i32(blockIdx.x)"),
        device="node-dawn+few-workgroups",
        verdicts=("fail",),
        words=("2232 of 3000", "[768]", "NaN"),
    ),
    pattern="unwritten",
    says="2232 of 3000 elements were never written",
)
