"""TVM 0.27 lets one workgroup too many run where a folded grid is padded."""

from tvm import relax

from gallery import Case, Edit, Fault
from operators import normal, relax_model

FAULT = Fault(
    title="TVM 0.27's surplus workgroup when a folded grid is padded",
    sources=("https://github.com/apache/tvm/blob/v0.27.0/src/target/source/codegen_webgpu.cc",),
    how="A softmax of 5 rows on a device of 4 workgroups a dimension: 5 are folded into 3 x 2, and TVM's own guard, "
    "`> packGridDimX`, lets the sixth run. What it writes is clamped to the last element.",
    model=lambda: relax_model(lambda x: relax.op.nn.softmax(x, axis=-1), {"x": normal(50, 5, 100)}),
    correct=Case(Edit("> podArgs.packGridDimX", ">= podArgs.packGridDimX"), device="node-dawn+few-workgroups"),
    faulty=Case(
        Edit(">= podArgs.packGridDimX", "> podArgs.packGridDimX"),
        device="node-dawn+few-workgroups",
        verdicts=("fail",),
        words=("1 of 500", "[4, 99]"),
    ),
    patterns=("tail",),
)
