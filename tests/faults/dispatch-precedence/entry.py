"""`n + 63 / 64` workgroups instead of `(n + 63) / 64`."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

ELEMENTS = 192

FAULT = Fault(
    title="n + 63 / 64 workgroups: precedence",
    sources=("https://github.com/microsoft/onnxruntime/pull/24020",),
    how="192 workgroups instead of 3 of a kernel that needs no guard at 192 elements: what lies beyond is clamped to "
    "the last element. (With a guard the bug only costs time, as it did there: no test can see that.)",
    model=lambda: relax_model(lambda x: relax.op.flip(x, axis=0), {"x": normal(19, ELEMENTS)}),
    correct=Case(Wgsl("kernel.wgsl", (((ELEMENTS + 63) // 64, 1, 1),))),
    faulty=Case(Wgsl("kernel.wgsl", ((ELEMENTS + 63 // 64, 1, 1),)), verdicts=("fail",), words=("1 of 192", "[191]")),
    pattern="tail",
    says="wrong only at the end: element 191",
    elsewhere={"firefox": (("pass",), ("pass",))},
)
