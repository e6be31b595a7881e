"""An operator that relies on NaN, of which WGSL may assume that there is none."""

import numpy as np
from tvm import te, tirx

from gallery import Case, Fault
from operators import normal, te_model


def without_nan(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda i: tirx.Select(tirx.isnan(x[i]), tirx.const(0.0, "float32"), x[i]), name="out")


FINITE = normal(29, 64)
BROKEN = FINITE.copy()
BROKEN[[5, 40]] = np.nan

FAULT = Fault(
    title="isNaN, min and max under WGSL's licence to assume that there is no NaN",
    sources=("https://github.com/gpuweb/gpuweb/issues/2270",),
    how="nan_to_num as TVM generates it: with finite inputs it passes; with NaN among them what it gives is up to the "
    "device, whatever this one gives.",
    model=lambda: te_model("without_nan", without_nan, {"x": FINITE}, {"x": BROKEN}),
    correct=Case(verdicts=("pass", "unbounded")),
    faulty=Case(verdicts=("pass", "unbounded"), words=("2 of 64 elements are unbounded",)),
    patterns=("unbounded",),
)
