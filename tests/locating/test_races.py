"""Kernels that pass and race: accused where results differ from run to run, named where their text lacks a barrier."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from computing_device import ComputingDevice, Fault

from tapml.locating import Locate
from tapml.locating.locate import clean
from tapml.reports.console import SafeConsole
from tapml.reports.locate import show_locate, verdict_line
from tapml.results.locate import LocateDocument
from tapml.suite import Suite
from tapml.validation.context import JobContext


def located(device: ComputingDevice) -> LocateDocument:
    return Locate(JobContext(device.suite, [device.device], device.blobs)).run()


@pytest.fixture
def softmax(suite: Suite) -> str:
    return next(kernel for kernel in suite.kernels if "softmax" in kernel)


def rewrite(suite: Suite, kernel: str, find: str, text: str) -> None:
    (file,) = suite.kernel_files(kernel)
    changed, count = re.subn(find, text, file.text)
    assert count
    (suite.path / "kernels" / file.name).write_text(changed)


def differing(every: int) -> Fault:
    """The last bit of one element, in every n-th run."""
    run = 0

    def fault(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        nonlocal run
        run += 1
        if run % every == 0:
            right.reshape(-1)[3] = np.nextafter(right.reshape(-1)[3], np.float32(2))
        return right

    return fault


def test_results_that_differ_within_their_bounds_are_a_race(suite: Suite, softmax: str) -> None:
    document = located(ComputingDevice(suite, {softmax: differing(2)}))
    assert document["summary"]["faulty_kernels"] == [softmax]
    (found,) = document["kernels"]
    assert found["verdict"] == "fail"
    assert found["findings"][0]["pattern"] == "race"
    assert "from run to run" in found["reason"]
    assert found["deterministic"] is False
    assert not clean(document)


def test_an_edited_kernel_runs_often_enough_for_a_rare_race(suite: Suite, softmax: str) -> None:
    """One run in seven: two runs of a kernel as it was generated need not show it."""
    rewrite(suite, softmax, r"\A", "// edited\n")
    document = located(ComputingDevice(suite, {softmax: differing(7)}))
    assert document["summary"]["faulty_kernels"] == [softmax]


def test_atomics_may_differ(suite: Suite, softmax: str) -> None:
    rewrite(suite, softmax, r"\A", "var<workgroup> counted : atomic<u32>;\n")
    assert located(ComputingDevice(suite, {softmax: differing(2)}))["kernels"] == []


def test_an_edited_kernel_that_passes_without_a_barrier_is_warned_of(suite: Suite, softmax: str) -> None:
    rewrite(suite, softmax, r"workgroupBarrier\(\);", "")
    document = located(ComputingDevice(suite))
    assert clean(document), "the exit code is that of a pass"
    (found,) = document["missing_barriers"]
    (file,) = suite.kernel_files(softmax)
    assert (found["kernel"], found["file"]) == (softmax, file.name)
    assert document["summary"]["racing_kernels"] == [softmax]
    lines = file.text.split("\n")
    assert found["variable"] in lines[found["written"] - 1]
    assert found["variable"] in lines[found["read"] - 1]
    assert "no workgroupBarrier() is between" in found["text"]
    assert verdict_line(document).endswith(f"; a barrier is missing: {softmax}")
    shown = io.StringIO()
    show_locate(SafeConsole(shown, width=200), document)
    assert f"a barrier is missing: {softmax} (edited), {file.name}:{found['written']}" in shown.getvalue()
    suite.save_result(document)
    assert suite.results("locate") == [document]


def test_another_edit_is_not(suite: Suite, softmax: str) -> None:
    rewrite(suite, softmax, r"\A", "// edited\n")
    document = located(ComputingDevice(suite))
    assert document["edited_kernels"] == [softmax]
    assert document["missing_barriers"] == []
