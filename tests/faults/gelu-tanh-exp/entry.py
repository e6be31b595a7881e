"""Phi-2's GELU with tanh written as (exp(2x) - 1) / (exp(2x) + 1)."""

from tvm import relax

from gallery import Case, Fault, Wgsl
from operators import normal, relax_model

# One prompt whose activations stay small, and one that brings the outliers that language models have.
QUIET = normal(2, 4, 64)
OUTLIERS = QUIET.copy()
OUTLIERS[2, 17], OUTLIERS[3, 40] = 12.5, 14.0

FAULT = Fault(
    title="tanh through exp overflows to NaN for large inputs",
    sources=(
        "https://doi.org/10.1145/3728957",
        "https://github.com/apache/tvm/pull/16438",
        "https://github.com/gpuweb/gpuweb/issues/4458",
    ),
    how="Two prompts: activations of an ordinary one pass, those of another have outliers above 9 and give NaN.",
    model=lambda: relax_model(relax.op.nn.gelu_tanh, {"x": QUIET}, {"x": OUTLIERS}),
    correct=Case(verdicts=("pass", "pass")),
    faulty=Case(Wgsl("faulty.wgsl", ((4, 1, 1),)), verdicts=("pass", "fail"), words=("2 of 256", "NaN")),
    pattern="nan-range",
    says="NaN for x above 2.84565",
)
