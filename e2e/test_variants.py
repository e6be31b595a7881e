"""Kernels with several variants, and kernels that ask for more than a device has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tvm import relax

import tapml as tml
from conftest import Edit, carve_minilm, copied, read_json, rewrite
from gallery import suspect
from operators import BYSTANDER, normal, relax_model
from tapml.carving.carve import carve
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun
from test_api import elementwise
from workers import made_once

FEW = ("cast", "softmax", "layer_norm")


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM with kernels for large GPUs beside those for all; nobody may change it."""
    return made_once(tmp_path_factory, "fat.suite", lambda path: carve_minilm(path, "--variants", "1024,256"))


def validated(server: Server, suite: Path, device: str, *kernels: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The device's limits, and the results."""
    found = server.state.device(device)
    run = OperatorRun(JobContext(Suite(suite), [found], server.state.blobs), kernels=kernels)
    return dict(found.hello.limits), run.run()["tests"]


# All kernels where that is quick, on the same two implementations of WebGPU.
@pytest.mark.parametrize(
    ("device", "kernels"), [("node-dawn", ()), ("deno", ()), ("chromium", FEW), ("firefox", FEW)], ids=str
)
def test_a_device_takes_the_best_variant_that_fits(
    fat: Path, shared_server: Server, device: str, kernels: tuple[str, ...]
) -> None:
    limits, results = validated(shared_server, fat, device, *kernels)
    assert {test["verdict"] for test in results} == {"pass"}
    assert len(results) == 101 or kernels
    for test in results:
        variants = read_json(fat / "kernels" / f"{test['kernel']}.json")["variants"]
        fitting = [
            each["name"]
            for each in variants
            if all(limits[limit] >= least for limit, least in each["requires"]["limits"].items())
        ]
        assert test["variant"] == fitting[0]
    # Dawn's software GPU has 256 invocations a workgroup, Mesa's 1024.
    assert ("1024" in {test["variant"] for test in results}) == (device in ("firefox", "deno"))


def test_an_edit_of_a_variant_counts_only_where_it_runs(fat: Path, shared_server: Server, tmp_path: Path) -> None:
    suite = copied(fat, tmp_path / "fat.suite")
    wrong: Edit = lambda text: text.replace("f32(", "2.0f * f32(")  # noqa: E731
    rewrite(suite, "cast@1024", wrong)
    for name, verdict in (("chromium", "pass"), ("firefox", "fail")):
        _, results = validated(shared_server, suite, name, "cast")
        assert {test["verdict"] for test in results} == {verdict}


def test_more_than_256_invocations_are_unsupported_where_there_are_256(shared_server: Server, tmp_path: Path) -> None:
    """A seed of the project: kernels written for desktop GPUs fail on phones, by this very limit."""
    model = relax_model(relax.op.nn.softmax, {"x": normal(1, 6, 16)})
    carved = carve(model, tmp_path / "wide.suite", name="wide", variants=("1024",))
    suite = carved.path
    _, results = validated(shared_server, suite, "chromium")
    by_kernel = {test["kernel"]: test for test in results}
    wide = by_kernel[BYSTANDER]
    assert wide["verdict"] == "unsupported"
    assert "maxComputeInvocationsPerWorkgroup" in wide["message"]
    assert "1024" in wide["message"]
    assert "256" in wide["message"]
    # Not a word against kernels that fit.
    assert by_kernel[suspect(carved)]["verdict"] == "pass"
    assert {test["verdict"] for test in validated(shared_server, suite, "firefox")[1]} == {"pass"}


@pytest.mark.slow
def test_a_binding_over_2_to_the_27_bytes_is_unsupported_in_firefox() -> None:
    """A seed of the project: a weight of 160 * 2^20 bytes bound as one buffer."""
    device = tml.webgpu("firefox")
    library = tml.compile(elementwise(rows=40 << 20, add=relax.op.add), device)
    assert device.info.limits["maxStorageBufferBindingSize"] == 128 << 20
    with pytest.raises(tml.DeviceError) as caught:
        tml.upload(library, device)
    assert caught.value.kind == "unsupported"
    text = str(caught.value)
    assert "add" in text
    assert "maxStorageBufferBindingSize" in text
    assert "167.8 MB" in text
    assert "134.2 MB" in text
