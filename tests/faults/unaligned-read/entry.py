"""A slice that starts where no vector does, read by vectors."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

FAULT = Fault(
    title="reads of unaligned data",
    sources=("https://doi.org/10.1145/3728957",),
    how="A slice from element 3 on, read as vec4: the address is rounded down to the vector that holds it.",
    model=lambda: relax_model(
        lambda x: relax.op.strided_slice(x, axes=[0], begin=[3], end=[259]), {"x": normal(5, 264)}
    ),
    correct=Case(),
    faulty=Case(Wgsl("faulty.wgsl"), verdicts=("fail",), words=("256 of 256",)),
    pattern="shift",
    says="got is the value of the element 3 earlier",
)
