"""A queue that says too early that it is done."""

from tvm import relax

from gallery import Case, Fault
from operators import normal, relax_model

FAULT = Fault(
    title="onSubmittedWorkDone resolves too early",
    sources=("https://doi.org/10.1145/3728957",),
    how="A device whose queue is done as soon as it is asked, and whose mapped buffers show what was there before.",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(11, 8, 32)}),
    correct=Case(),
    faulty=Case(device="node-dawn+early-done", verdicts=("fail",), words=("256 of 256", ": 0, expected")),
    pattern="constant",
    says="every element is 0",
    everywhere=True,
)
