"""One piece of workgroup memory for floats and for integers that both still live."""

import numpy as np
from tvm import te

from gallery import Case, Fault, Wgsl
from operators import normal, random, te_model


def reversed_product(x: te.Tensor, count: te.Tensor) -> te.Tensor:
    return te.compute((64,), lambda i: x[63 - i] * count[63 - i].astype("float32"), name="product")


FAULT = Fault(
    title="workgroup memory reused for two dtypes",
    sources=("https://doi.org/10.1145/3728957",),
    how="Floats and integers are staged in one array; the integers come before the floats have been read.",
    model=lambda: te_model(
        "reversed_product",
        reversed_product,
        {"x": normal(6, 64), "count": random(7).integers(1, 50, 64).astype(np.int32)},
    ),
    correct=Case(Wgsl("correct.wgsl")),
    faulty=Case(Wgsl("faulty.wgsl"), verdicts=("fail",), words=("64 of 64",)),
    pattern="constant",
    says="every element is 0",
)
