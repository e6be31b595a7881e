"""Two passes whose parameters lie in one buffer, which the queue writes before the first pass runs."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

PASSES = ((1, 1, 1), (1, 1, 1))

FAULT = Fault(
    title="writeBuffer lands before deferred passes",
    sources=("https://github.com/tracel-ai/cubecl/pull/814",),
    how="Two dispatches, each for its half of the output by an offset among its parameters; both get the parameters "
    "that were written last. (On a device with the profile early-write tapml's own memory is overwritten like that: "
    "runner_js/src/profiles/profiles.gpu.test.ts.)",
    model=lambda: relax_model(lambda x: relax.op.add(x, x), {"x": normal(28, 128)}),
    correct=Case(Wgsl("kernel.wgsl", PASSES, scalars=((0,), (64,)))),
    faulty=Case(
        Wgsl("kernel.wgsl", PASSES, scalars=((64,), (64,))),
        verdicts=("fail",),
        words=("64 of 128", "64 NaN"),
        first=(0,),
    ),
    pattern="unwritten",
    says="64 of 128 elements were never written",
)
