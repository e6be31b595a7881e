"""A browser that does not tell what its adapter is."""

from tvm import relax

from gallery import Case, Fault
from operators import normal, relax_model

FAULT = Fault(
    title="an adapter without `info`",
    sources=(
        "https://github.com/microsoft/onnxruntime/issues/26480",
        "https://bugs.webkit.org/show_bug.cgi?id=301878",
    ),
    how="A device whose adapter.info and device.adapterInfo are undefined, as Safari 26.0's. ONNX Runtime reads its "
    "subgroup sizes and ends there; tapml must run, and say that it does not know the adapter.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(27, 256)}),
    correct=Case(),
    faulty=Case(device="node-dawn+no-info"),
)
