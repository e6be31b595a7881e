"""Code generation that names a vector's elements as C does."""

from tvm import relax

from gallery import Case, Edit, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="C-style vector access does not compile",
    sources=("https://github.com/apache/tvm/pull/17917",),
    how="A kernel on vectors, with `.s0` for `[0]`, as TVM wrote for QK_local in WebLLM.",
    model=lambda: relax_model(lambda x: relax.op.sum(x, axis=-1), {"x": normal(25, 16, 4)}),
    correct=Case(Wgsl("correct.wgsl")),
    faulty=Case(Edit("(held[0])", "(held.s0)"), verdicts=("error",), words=("s0",)),
    pattern="error",
    says="sum.wgsl:7:24",
)
