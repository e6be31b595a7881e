"""Kernels whose compilation never ends: each is named, its device is made anew, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Edit
from faults import Run
from tapml.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def exploding(kernel: str) -> Edit:
    """Functions that each call the one before twice: compilers put all 2^30 calls into the kernel."""
    functions = "fn g0(x: f32) -> f32 { return x * 1.5; }\n" + "".join(
        f"fn g{n}(x: f32) -> f32 {{ return g{n - 1}(x) + g{n - 1}(x + 1.0); }}\n" for n in range(1, 31)
    )

    def edit(text: str) -> str:
        start = text.index("{", text.index(f"fn {kernel}")) + 1
        name = text.split("var<storage, read_write>")[1].split(":")[0].strip()
        call = f"\n  if ({name}[0] == 12345.0) {{ {name}[1] = g30({name}[0]); }}\n"
        return functions + text[:start] + call + text[start:]

    return edit


def many_entry_points(text: str) -> str:
    """Dawn's parser takes time with the square of their number, on the very thread that speaks to the server."""
    return "".join(f"@compute @workgroup_size(1) fn e{n}() {{ }}\n" for n in range(60_000)) + text


HONEST = ["cast", "take", "layer_norm", "divide"]
"""Quick to compile, also on a busy machine."""


@pytest.mark.parametrize(
    ("device", "hostile"),
    [
        ("node-dawn", {"softmax": exploding("softmax")}),
        pytest.param("node-dawn", {"softmax": many_entry_points}, marks=pytest.mark.slow),
        ("deno", {"softmax": exploding("softmax")}),
        ("chromium", {"softmax": exploding("softmax"), "sum": exploding("sum")}),
        pytest.param("firefox", {"softmax": exploding("softmax")}, marks=pytest.mark.slow),
    ],
    ids=["node-dawn", "node-dawn's own thread", "deno", "chromium", "firefox"],
)
def test_a_compilation_that_never_ends_names_its_kernel_and_the_others_go_on(
    device: str, hostile: dict[str, Edit], server: Server, suite: Path, edit: Callable[[str, Edit], None]
) -> None:
    for kernel, change in hostile.items():
        edit(kernel, change)
    kernels = [*HONEST, *hostile]
    results = Run(server, suite, server.state.device(device), kernels, hang_seconds=4).finish().values()
    for test in results:
        if test["kernel"] in hostile:
            assert test["verdict"] == "error"
            assert f"compiling kernel {test['kernel']} did not end within 4 s" in test["message"]
        else:
            assert (test["verdict"], test["message"]) == ("pass", "")
    again = Run(server, suite, server.state.device(device), HONEST).finish().values()
    assert {(test["verdict"], test["message"]) for test in again} == {("pass", "")}
