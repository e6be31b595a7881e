"""A weight that is bound as one buffer."""

from gallery import Case, Fault
from operators import normal, relax_model
from tvm import relax

FAULT = Fault(
    title="a binding of more than 128 MiB",
    sources=("https://arxiv.org/abs/2404.09151", "https://github.com/gpuweb/gpuweb/issues/1371"),
    how="A device that allows bindings of 4 KiB and a tensor of 8 KiB: the same relation with less memory.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(9, 2048)}),
    correct=Case(),
    faulty=Case(
        device="node-dawn+small-bindings",
        verdicts=("unsupported",),
        words=("maxStorageBufferBindingSize 8 KiB", "allows 4 KiB"),
    ),
    says="needs maxStorageBufferBindingSize 8 KiB, this device allows 4 KiB",
)
