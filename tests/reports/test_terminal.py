"""What the terminal tells of a validation."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from helpers import FakeRunner, verdict
from tapml.devices import Blobs, DeviceHub
from tapml.reports.console import Table
from tapml.reports.terminal import show_validation
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

WORST: dict[str, Any] = {"index": [0], "expected": 1e-30, "got": -2e-30, "bound": 6e-30}


LONG = "fused_strided_slice_reshape_permute_dims_matmul_multiply_add_softmax_3"


@pytest.mark.parametrize(
    ("terminal", "width", "shown"),
    [
        (True, 80, "fused_strided_slice_re…d_softmax_3 pass"),
        (True, 120, "fused_strided_slice_reshap…add_softmax_3 pass"),
        (True, 300, f"{LONG} pass"),
        (False, 80, f"{LONG} pass"),
    ],
)
def test_long_names_of_kernels_lack_their_middle_on_a_terminal(terminal: bool, width: int, shown: str) -> None:
    out = io.StringIO()
    table = Table("kernel", "verdict")
    table.add_row(LONG, "pass")
    Console(file=out, width=width, force_terminal=terminal, color_system=None).print(table)
    assert [re.sub(" +", " ", line) for line in out.getvalue().splitlines()] == ["kernel verdict", shown]


@pytest.mark.parametrize(
    ("worst", "said"),
    [
        (None, "-"),
        (WORST, "50 %"),
        ({**WORST, "bound": 1e-30}, "3 ×"),
        ({**WORST, "got": 1.0}, "> 1000 ×"),
        ({**WORST, "got": "NaN"}, "> 1000 ×"),
    ],
)
def test_a_worst_element_is_told_by_its_bound(suite: Suite, worst: dict[str, Any] | None, said: str) -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            found = verdict(test)
            found["outputs"][0] |= {"worst": worst, "max_ulp": 1.77e9}
            runner.progress(message, found)
        runner.finish(message)

    kernel = suite.kernels[0]
    runner = FakeRunner(DeviceHub(), answer)
    document = OperatorRun(JobContext(suite, [runner.device], Blobs()), kernels=[kernel]).run()
    console = Console(file=(shown := io.StringIO()), width=200)
    show_validation(console, document)
    (row,) = (line for line in shown.getvalue().splitlines() if line.startswith(kernel))
    # In front of the absolute error.
    assert re.search(rf"pass +{said} +\d", row)
    assert "e+09" not in row
