"""TVM 0.27 lets one workgroup too many run where a folded grid is padded."""

from tvm import relax

from gallery import Case, Edit, Fault
from operators import normal, relax_model

STEPS = 24

FAULT = Fault(
    title="TVM 0.27's surplus workgroup when a folded grid is padded",
    sources=("https://github.com/apache/tvm/pull/14674",),
    how="A softmax of 5 rows, whose 5 workgroups are folded into 3 x 1 x 2, and TVM's own guard "
    "lets the sixth run. What it writes is clamped to the last element, where it races with the fifth: 24 prompts.",
    model=lambda: relax_model(
        lambda x: relax.op.nn.softmax(x, axis=-1), *({"x": normal(500 + step, 5, 100)} for step in range(STEPS))
    ),
    grid=(3, 1, 2),
    correct=Case(
        verdicts=("pass",) * STEPS,
    ),
    faulty=Case(
        Edit(">= podArgs.packGridDimX", "> podArgs.packGridDimX"),
        verdicts=("fail",) * STEPS,
        race=True,
        words=("1 of 500", "[4, 99]"),
    ),
    pattern="race",
    says="from run to run",
    elsewhere={"firefox": (("pass",) * STEPS, ("pass",) * STEPS)},
)
