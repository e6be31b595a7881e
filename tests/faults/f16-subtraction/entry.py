"""A GPU whose float16 subtraction loses a bit of one operand."""

import numpy as np
from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import random, relax_model

VALUES = random(1).integers(1024, 1040, (2, 64))
VALUES[:, 0] = 1035, 1031

FAULT = Fault(
    title="float16 1035 - 1031 gives 5",
    sources=("https://doi.org/10.1145/3728957",),
    how="The kernel rounds its first operand to one bit less, as that GPU did; every odd one is off by one.",
    model=lambda: relax_model(
        relax.op.subtract, {"x": VALUES[0].astype(np.float16), "y": VALUES[1].astype(np.float16)}
    ),
    correct=Case(device="deno"),
    faulty=Case(Wgsl("faulty.wgsl"), device="deno", verdicts=("fail",), words=("worst at [0]: 5, expected 4",)),
    pattern="scattered",
    says="wrong only in 30 of 64 elements",
    elsewhere={"chromium": (("unsupported",), ("unsupported",))},
)
