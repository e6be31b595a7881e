"""Kernels with several variants, and kernels that ask for more than a device has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tvm import relax

import tapml as tml
from conftest import TEXT, Edit, read_json, tapml
from test_api import elementwise


def validated(suite: Path, device: str, results: Path, code: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The device, and the results by kernel."""
    ran = tapml("validate", suite, "--device", device, "--json", results)
    assert ran.code == code, ran.err
    document = read_json(results)
    assert document["summary"]["total"] == 101
    return document["devices"][0], {test["kernel"]: test for test in document["tests"]}


def carve(folder: Path, variants: str) -> Path:
    suite = folder / "fat.suite"
    ran = tapml("carve", "minilm", "--text", TEXT, "--variants", variants, "-o", suite)
    assert ran.code == 0, ran.err
    return suite


def test_a_device_takes_the_best_variant_that_fits(tmp_path: Path) -> None:
    suite = carve(tmp_path, "1024,256")
    ran = {}
    for name in ("chromium", "firefox"):
        device, results = validated(suite, name, tmp_path / f"{name}.json", 0)
        ran[name] = {kernel: test["variant"] for kernel, test in results.items()}
        for kernel, variant in ran[name].items():
            variants = read_json(suite / "kernels" / f"{kernel}.json")["variants"]
            fitting = [
                each["name"]
                for each in variants
                if all(device["limits"][limit] >= least for limit, least in each["requires"]["limits"].items())
            ]
            assert variant == fitting[0]
    # Chromium's software GPU has 256 invocations a workgroup, Firefox's 1024.
    assert "1024" in ran["firefox"].values()
    assert "1024" not in ran["chromium"].values()


def test_an_edit_of_a_variant_counts_only_where_it_runs(tmp_path: Path) -> None:
    suite = carve(tmp_path, "1024,256")
    wgsl = suite / "kernels" / "cast@1024.wgsl"
    wrong: Edit = lambda text: text.replace("f32(", "2.0f * f32(")  # noqa: E731
    assert wrong(wgsl.read_text()) != wgsl.read_text()
    wgsl.write_text(wrong(wgsl.read_text()))
    for name, code in (("chromium", 0), ("firefox", 1)):
        ran = tapml("validate", suite, "--device", name, "--kernel", "cast", "--json", tmp_path / "result.json")
        assert ran.code == code, ran.err


def test_more_than_256_invocations_are_unsupported_where_there_are_256(tmp_path: Path) -> None:
    """A seed of the project: kernels written for desktop GPUs fail on phones, by this very limit."""
    suite = carve(tmp_path, "1024")
    _, results = validated(suite, "chromium", tmp_path / "chromium.json", 0)
    cast = results["cast"]
    assert cast["verdict"] == "unsupported"
    assert "maxComputeInvocationsPerWorkgroup" in cast["message"]
    assert "1024" in cast["message"]
    assert "256" in cast["message"]
    # Not a word against kernels that fit.
    assert results["softmax"]["verdict"] == "pass"
    assert {test["verdict"] for test in validated(suite, "firefox", tmp_path / "f.json", 0)[1].values()} == {"pass"}


def test_a_binding_over_128_mib_is_unsupported_in_firefox() -> None:
    """A seed of the project: a 160 MiB weight bound as one buffer."""
    device = tml.webgpu("firefox")
    library = tml.compile(elementwise(rows=40 << 20, add=relax.op.add), device)
    assert device.info.limits["maxStorageBufferBindingSize"] == 128 << 20
    with pytest.raises(tml.DeviceError) as caught:
        tml.upload(library, device)
    assert caught.value.kind == "unsupported"
    text = str(caught.value)
    assert "add" in text
    assert "maxStorageBufferBindingSize" in text
    assert "160 MiB" in text
    assert "128 MiB" in text
