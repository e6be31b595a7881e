"""Code generation that shifts by a signed number."""

from tvm import relax

from gallery import Case, Edit, Fault
from operators import normal, relax_model

FAULT = Fault(
    title="a shift amount of the wrong type does not compile",
    sources=("https://github.com/apache/tvm/pull/14850",),
    how="TVM's own kernel, with the shift that older versions of TVM wrote.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(24, 3000)}),
    correct=Case(),
    faulty=Case(Edit(">>3u)", ">> 3i)"), verdicts=("error",), words=("i32",)),
    pattern="error",
    says="add.wgsl:18:24",
)
