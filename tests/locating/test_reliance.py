"""A kernel that passes on this device and relies on what WGSL does not promise is a finding, never a pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from computing_device import ComputingDevice
from tvm import relax

from tapml.carving.carve import carve
from tapml.importing import ImportedModel, Step
from tapml.locating import Locate
from tapml.reports.locate import verdict_line
from tapml.suite import Suite
from tapml.validation.context import JobContext


@pytest.fixture
def tanh_suite(tmp_path: Path) -> Suite:
    """tanh of small numbers and of one beyond 88.7."""
    x = np.array([[-2.0, 0.5, 3.0, 100.0]], np.float32)
    builder = relax.BlockBuilder()
    variable = relax.Var("x", relax.TensorType(x.shape, "float32"))
    with builder.function("main", [variable]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.tanh(variable))
        builder.emit_func_output(result)
    model = ImportedModel(
        module=builder.finalize(),
        input_names=["x"],
        parameters=[],
        steps=[Step("one large input", {"x": x}, False, None)],
        provenance={"kind": "test", "source": "tests", "sha256": "0" * 64, "title": "tanh", "notes": []},
        outputs=["y"],
        oracle=None,
    )
    return carve(model, tmp_path / "tanh.suite", name="tanh")


def rewrite(suite: Suite, text: str) -> None:
    (path,) = (suite.path / "kernels").glob("*.wgsl")
    path.write_text(text + path.read_text())


def test_the_generated_kernel_relies_on_nothing(tanh_suite: Suite) -> None:
    device = ComputingDevice(tanh_suite)
    assert Locate(JobContext(tanh_suite, [device.device], device.blobs)).run()["summary"]["verdict"] == "clean"


def test_a_kernel_that_calls_tanh_beyond_its_domain_is_unbounded(tanh_suite: Suite) -> None:
    rewrite(tanh_suite, "fn squashed(x: f32) -> f32 { return tanh(x); }\n")
    device = ComputingDevice(tanh_suite)
    document = Locate(JobContext(tanh_suite, [device.device], device.blobs)).run()
    (found,) = document["kernels"]
    assert document["summary"]["unbounded_kernels"] == [found["kernel"]]
    assert document["summary"]["faulty_kernels"] == []
    assert document["summary"]["verdict"] == "unbounded"
    assert verdict_line(document).endswith(f"1 unbounded kernel: {found['kernel']}")
    assert found["verdict"] == "unbounded"
    assert found["reason"].startswith("1 of 4 elements are unbounded: the kernel calls tanh")


def test_a_comment_calls_nothing(tanh_suite: Suite) -> None:
    rewrite(tanh_suite, "// not tanh(x): it has an end\n")
    device = ComputingDevice(tanh_suite)
    assert Locate(JobContext(tanh_suite, [device.device], device.blobs)).run()["summary"]["verdict"] == "clean"
