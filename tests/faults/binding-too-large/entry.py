"""A weight that is bound as one buffer."""

from tvm import relax

from gallery import Case, Fault
from operators import normal, relax_model

FAULT = Fault(
    title="a binding of more than 134 MB",
    sources=("https://doi.org/10.1145/3728957", "https://github.com/apache/tvm/pull/16108"),
    how="A device that allows bindings of 4.1 kB and a tensor of 8.2 kB: the same relation with less memory.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(9, 2048)}),
    correct=Case(),
    faulty=Case(
        device="node-dawn+small-bindings",
        verdicts=("unsupported",),
        words=("maxStorageBufferBindingSize 8.2 kB", "allows 4.1 kB"),
    ),
    says="needs maxStorageBufferBindingSize 8.2 kB, this device allows 4.1 kB",
)
