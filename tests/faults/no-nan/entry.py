"""An operator that relies on NaN, of which WGSL may assume that there is none."""

import numpy as np
from tvm import te, tirx

from gallery import Case, Fault, Wgsl
from operators import normal, te_model


def without_nan(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda i: tirx.Select(tirx.isnan(x[i]), tirx.const(0.0, "float32"), x[i]), name="out")


FINITE = normal(29, 64)
BROKEN = FINITE.copy()
BROKEN[[5, 40]] = np.nan

FAULT = Fault(
    title="isNaN, min and max under WGSL's licence to assume that there is no NaN",
    sources=("https://github.com/gpuweb/gpuweb/issues/2270",),
    how="nan_to_num as TVM generates it, `x != x`: Dawn's compiler knows that this is never true. With finite inputs "
    "it passes, with NaN among them it does not. Looking at the bits is what every device must do right.",
    model=lambda: te_model("without_nan", without_nan, {"x": FINITE}, {"x": BROKEN}),
    correct=Case(Wgsl("correct.wgsl"), verdicts=("pass", "pass")),
    faulty=Case(Wgsl("faulty.wgsl"), verdicts=("pass", "fail"), words=("2 of 64", "2 NaN")),
    pattern="nan-range",
    says="NaN in 2 of 64 elements",
)
