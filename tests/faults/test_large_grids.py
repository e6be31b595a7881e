"""A grid of more workgroups along x than a dispatch may have is folded by the kernel's document."""

from __future__ import annotations

from pathlib import Path

from tvm import relax

from gallery import validated
from operators import normal, relax_model
from tapml.carving.carve import carve
from tapml.server import Server

ROWS = 65_537


def test_each_row_of_a_large_softmax_is_right(tmp_path: Path) -> None:
    """A workgroup a row, in two planes of 32,769: one place too many, which the kernel's guard leaves out."""
    model = relax_model(lambda x: relax.op.nn.softmax(x, axis=-1), {"x": normal(7, ROWS, 2)})
    suite = carve(model, tmp_path / "large.suite", name="large")
    (launch,) = suite.bundle("softmax")["variants"][-1]["launches"]
    assert launch["grid"] == [32_769, 1, 2]
    assert launch["uniforms"] == [{"name": "packGridDimX", "dtype": "uint32", "value": ROWS}]
    with Server() as server:
        (right,) = validated(server, suite, "deno")["softmax"]
        # The second plane is left out, so that the test can fail.
        path = suite.path / "kernels/softmax.wgsl"
        path.write_text(path.read_text().replace("(blockIdx.z * gridDim.x + blockIdx.x >=", "(blockIdx.z > 0 || 0 >="))
        (wrong,) = validated(server, suite, "deno")["softmax"]
    assert (right["verdict"], right["total"]) == ("pass", ROWS * 2)
    assert (wrong["verdict"], wrong["mismatched"]) == ("fail", 2 * (ROWS - 32_769))
