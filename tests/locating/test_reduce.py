"""Reduce: what is left of a failing test is small, fails still, and runs anywhere."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from computing_device import ComputingDevice

from tapml.cli import main
from tapml.errors import DeviceError, InputError
from tapml.locating.reduce import Reduce
from tapml.locating.reduced_text import reduce_lines
from tapml.server import Server
from tapml.sharing import export, load_repro
from tapml.sharing.imports import new_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext


def kernel_of(suite: Suite, word: str) -> str:
    return next(kernel for kernel in suite.kernels if word in kernel)


def id_of(suite: Suite, kernel: str) -> str:
    return next(test.id for test in suite.tests if test.kernel == kernel)


def last_term_missing(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
    """As a reduction whose bound is one too low: the last column of x and row of w are not multiplied."""
    x, w, *rest = (array.astype(np.float64) for array in inputs)
    return (x[:, :-1] @ w[:-1] + sum(rest)).astype(np.float32)


def test_a_wrong_sum_is_reduced_to_the_term_it_lacks(suite: Suite, tmp_path: Path) -> None:
    kernel = next(
        name for name in suite.kernels if "matmul" in name and len(suite.bundle(name)["arguments"]) == 3
    )  # fmt: skip
    name = id_of(suite, kernel)
    device = ComputingDevice(suite, {kernel: last_term_missing})
    reduction = Reduce(JobContext(suite, [device.device], device.blobs), name)
    document = reduction.run()
    assert document["format"] == "tapml.reduce/1"
    x, w = document["inputs"]
    assert (x["nonzero"], w["nonzero"]) == (1, 1)
    assert x["elements"][0]["index"][-1] == x["shape"][-1] - 1, "the last term"
    assert w["elements"][0]["index"][0] == w["shape"][0] - 1
    assert x["elements"][0]["value"] == w["elements"][0]["value"] == 1.0
    (output,) = document["outputs"]
    assert output["mismatched"] == 1
    assert output["worst"]["expected"] == 1.0
    assert output["worst"]["got"] == 0.0
    text = "\n".join(reduce_lines(document))
    assert f"zeros but for [{x['elements'][0]['index'][0]}, {x['shape'][-1] - 1}] = 1" in text
    assert "the reference gives 1 and the device 0" in text
    assert "the shape is fixed" in text

    repro = reduction.repro(document)
    assert repro.document.report is not None
    assert repro.document.report.result["mismatched"] == document["outputs"][0]["mismatched"] > 0
    assert repro.document.report.result["message"] == text
    (path,) = export(repro, "html", tmp_path / "small.html")
    again = load_repro(path)
    assert [np.count_nonzero(array) for array in again.inputs] == [1, 1]
    imported = new_suite(again, tmp_path / "again.suite")
    assert len(imported.tests) == 1
    assert imported.tensors.get(imported.tests[0].outputs[0]).max() == 1.0
    assert "reduced" in repro.document.suite.name


def test_what_is_expected_of_new_inputs_comes_from_the_reference(suite: Suite) -> None:
    """A fault in softmax that no value matters for: zeros are enough, for which it gives 1/16."""
    kernel = kernel_of(suite, "softmax")
    device = ComputingDevice(suite, {kernel: lambda inputs, right, before: right / 2})
    reduction = Reduce(JobContext(suite, [device.device], device.blobs), id_of(suite, kernel))
    document = reduction.run()
    assert document["inputs"][0]["nonzero"] == 0
    assert document["outputs"][0]["worst"]["expected"] == pytest.approx(1 / 16)
    assert "all zeros" in "\n".join(reduce_lines(document))
    assert reduction.reduced is not None
    tolerance = reduction.reduced.expected[0].tolerance
    assert 0 < float(reduction.reduced.expected[0].bound.max()) < 1e-3
    assert tolerance.reasons


def test_what_depends_on_one_value_keeps_it(suite: Suite) -> None:
    kernel = kernel_of(suite, "softmax")
    (name,) = [test.id for test in suite.tests if test.kernel == kernel][:1]
    carved = suite.tensors.get(suite.test(name).inputs[0])
    threshold = float(np.sort(carved.reshape(-1))[-2])
    place = np.unravel_index(int(carved.argmax()), carved.shape)

    def overflows(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        rows = (inputs[0] > threshold).any(axis=-1)
        right[rows] = np.nan
        return right

    device = ComputingDevice(suite, {kernel: overflows})
    document = Reduce(JobContext(suite, [device.device], device.blobs, hang_seconds=7.5), name).run()
    assert device.hang_seconds == {7.5}
    (found,) = document["inputs"]
    assert 1 <= found["nonzero"] < found["total"]
    assert document["outputs"][0]["worst"]["got"] == "NaN"
    if found["nonzero"] == 1:
        assert found["elements"][0]["index"] == [int(i) for i in place]


def test_a_passing_test_is_not_reduced(suite: Suite) -> None:
    device = ComputingDevice(suite)
    with pytest.raises(InputError, match="passes on Fake 1: there is nothing to reduce"):
        Reduce(JobContext(suite, [device.device], device.blobs), suite.tests[0].id).run()


def test_a_kernel_that_does_not_run_says_why(suite: Suite) -> None:
    device = ComputingDevice(suite)
    device.failing = {suite.tests[0].kernel: "it does not compile"}
    with pytest.raises(DeviceError, match="it does not compile"):
        Reduce(JobContext(suite, [device.device], device.blobs), suite.tests[0].id).run()


def test_a_running_server_reduces_and_hands_over_what_is_left(suite: Suite, tmp_path: Path) -> None:
    kernel = kernel_of(suite, "softmax")
    with Server([suite.path]) as server:
        ComputingDevice(suite, {kernel: lambda inputs, right, before: right / 2}, server.state)
        arguments = [str(suite.path), id_of(suite, kernel), "--device", server.url]
        assert main(["reduce", *arguments, "-o", str(tmp_path / "small.html"), "--json", str(tmp_path / "r.json")]) == 0
        document = json.loads((tmp_path / "r.json").read_text())
        assert document["format"] == "tapml.reduce/1"
        assert np.count_nonzero(load_repro(tmp_path / "small.html").inputs[0]) == 0
        (job,) = server.state.jobs._jobs
        with urllib.request.urlopen(f"{server.url}/api/jobs/{job}/export?form=markdown") as answer:
            assert "softmax" in answer.read().decode()

        other = id_of(suite, kernel_of(suite, "matmul"))
        assert main(["reduce", str(suite.path), other, "--device", server.url]) == 2, "it passes"
