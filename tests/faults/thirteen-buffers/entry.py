"""A fused operator of twelve inputs."""

from tvm import te

from gallery import Case, Fault
from operators import normal, te_model


def total(*inputs: te.Tensor) -> te.Tensor:
    return te.compute(inputs[0].shape, lambda i: sum((x[i] for x in inputs[1:]), inputs[0][i]), name="total")


FAULT = Fault(
    title="13 storage buffers where 10 are allowed",
    sources=("https://github.com/gpuweb/gpuweb/issues/4235",),
    how="A sum of twelve inputs, fused into one kernel, on a device of ten storage buffers.",
    model=lambda: te_model("total", total, {f"x{n}": normal(30 + n, 64) for n in range(12)}),
    correct=Case(device="deno"),
    faulty=Case(
        device="deno+ten-buffers",
        verdicts=("unsupported",),
        words=("maxStorageBuffersPerShaderStage 13", "allows 10"),
    ),
    says="needs maxStorageBuffersPerShaderStage 13, this device allows 10",
    elsewhere={"chromium": (("unsupported",), ("unsupported",))},
)
