"""Convolutions by fewer multiplications: compilers/native/winograd.py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kernels.works import Work
from tvm import relax

from compilers.test_native_products import Case, carved, conv, conv_of_a_block, wrong
from tapml.compilers.native import matmul as products
from tapml.compilers.native.blocks import Blocks
from tapml.compilers.native.compile import generated
from tapml.compilers.native.winograd import WINOGRAD
from tapml.suite import Suite

op = relax.op

SQUARES = ": the sixteen numbers of a square of the image an invocation."


def gated(builder: Any, x: Any, w: Any, bias: Any) -> Any:
    """What follows reads the sum twice."""
    sums = builder.emit(op.add(builder.emit(op.nn.conv2d(x, w, padding=1)), bias))
    return op.multiply(sums, builder.emit(op.nn.relu(sums)))


def of_a_size(image: float, weights: float = 1.0) -> Any:
    """Of numbers as far from 0: sums of four of an image may be none of float16, where what the windows give is one."""

    def made(builder: Any, x: Any, w: Any) -> Any:
        large = builder.emit(op.multiply(builder.emit(op.sign(x)), relax.const(image, x.ty.dtype)))
        small = builder.emit(op.multiply(w, relax.const(weights, x.ty.dtype)))
        return op.nn.conv2d(large, small, padding=1)

    return made


def last(**attributes: Any) -> Any:
    """Channels last."""
    return conv(data_layout="NHWC", kernel_layout="HWIO", **attributes)


WINDOWS: Mapping[str, Case] = {
    "even sizes": (conv(padding=1), [(1, 9, 12, 16), (11, 9, 3, 3)]),
    "odd sizes": (conv(padding=1), [(1, 17, 9, 7), (13, 17, 3, 3)]),
    "no zeros around it": (conv(), [(1, 16, 10, 13), (12, 16, 3, 3)]),
    "other zeros on each side": (conv(padding=[2, 0, 1, 3]), [(1, 10, 8, 9), (12, 10, 3, 3)]),
    "one row of squares": (conv(padding=1), [(1, 40, 2, 21), (10, 40, 3, 3)]),
    "batches": (conv(padding=1), [(3, 12, 6, 7), (10, 12, 3, 3)]),
    "groups": (conv(padding=1, groups=2), [(2, 20, 8, 7), (24, 10, 3, 3)]),
    "channels last": (last(padding=1), [(2, 9, 8, 12), (3, 3, 12, 20)]),
    "channels last, odd": (last(padding=1), [(1, 7, 9, 11), (3, 3, 11, 13)]),
    "a block": (conv_of_a_block, [(1, 12, 7, 8), (10, 12, 3, 3), (1, 10, 1, 1), (1, 10, 7, 8)]),
    "gated": (gated, [(1, 12, 9, 8), (12, 12, 3, 3), (1, 12, 1, 1)]),
}

OTHERS: Mapping[str, Case] = {
    "two apart": (conv(padding=1, strides=2), [(1, 12, 18, 18), (10, 12, 3, 3)]),
    "two apart along rows": (conv(padding=1, strides=[1, 2]), [(1, 12, 18, 18), (10, 12, 3, 3)]),
    "one element along an axis": (conv(padding=1), [(1, 12, 1, 33), (10, 12, 3, 3)]),
    "few channels": (conv(padding=1), [(1, 7, 9, 9), (10, 7, 3, 3)]),
    "dilated": (conv(padding=2, dilation=2), [(1, 12, 9, 9), (10, 12, 3, 3)]),
    "5x5": (conv(padding=2), [(1, 12, 9, 9), (10, 12, 5, 5)]),
    "3x1": (conv(padding=[1, 0]), [(1, 12, 9, 9), (10, 12, 3, 1)]),
    "of one dimension": (conv(padding=1), [(1, 12, 30), (10, 12, 3)]),
    "of three": (conv(padding=1), [(1, 4, 3, 5, 6), (10, 4, 3, 3, 3)]),
}


def by_windows(suite: Suite) -> set[str]:
    """Kernels that have a text of this template."""
    return {name for name in suite.kernels if any(SQUARES in file.text for file in suite.kernel_files(name))}


def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small a convolution is."""
    monkeypatch.setattr(products, "pays", lambda *_, **__: True)


def test_windows_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(monkeypatch)
    names = ("odd sizes", "other zeros on each side", "channels last", "a block", "gated")
    suite = carved({name: WINDOWS[name] for name in names}, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert by_windows(suite) == {name for name in suite.kernels if "conv2d" in name}


@pytest.mark.slow
@pytest.mark.parametrize(("device", "dtype"), [("node-dawn", "float32"), ("deno", "float32"), ("deno", "float16")])
def test_all_windows_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, dtype: str) -> None:
    wanted(monkeypatch)
    suite = carved(WINDOWS, tmp_path, dtype)
    assert wrong(suite, device) == {}
    assert by_windows(suite) == {name for name in suite.kernels if "conv2d" in name}


OF_MATRICES: Mapping[str, Case] = {
    **{name: WINDOWS[name] for name in ("odd sizes", "no zeros around it", "one row of squares")},
    "large": (of_a_size(30000.0, 2**-8), [(1, 16, 8, 8), (20, 16, 3, 3)]),
    "small": (of_a_size(0.01), [(1, 16, 8, 8), (20, 16, 3, 3)]),
    "channels last of many": (last(padding=1), [(1, 6, 10, 24), (3, 3, 24, 20)]),
    "a block of many": (conv_of_a_block, [(1, 18, 7, 8), (20, 18, 3, 3), (1, 20, 1, 1), (1, 20, 7, 8)]),
}
"""With as many channels as subgroup matrices are for."""


@pytest.mark.slow
def test_windows_by_subgroup_matrices(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted(monkeypatch)
    monkeypatch.setattr("tapml.compilers.native.matmul.blocks_of", lambda *sizes: Blocks(16, 32, 2, 2, 32))
    suite = carved(OF_MATRICES, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    assert set(software) == {name for name in suite.kernels if "conv2d" in name} == by_windows(suite)


def launches_of(case: Case, dtype: str = "float32", *, matrices: bool = False, template: Any = None) -> list[str]:
    body, shapes = case
    operator = Work("a convolution", body, shapes, dtype).operator()
    found = generated(operator, 256, (template or products.matmul,), matrices=matrices) or []
    return [launch.text for launch in found]


@pytest.mark.parametrize("name", [*WINDOWS, *OTHERS])
def test_which_convolutions_it_is_for(name: str) -> None:
    template = partial(products.matmul, chosen=WINOGRAD)
    texts = launches_of((WINDOWS | OTHERS)[name], template=template)
    assert texts
    assert any(SQUARES in text for text in texts) == (name in WINDOWS)


@pytest.mark.parametrize(
    ("sizes", "dtype", "pays"),
    [
        ((320, 320, 64), "float32", (True, False)),
        ((320, 320, 64), "float16", (True, True)),
        ((64, 64, 112), "float32", (True, False)),
        ((64, 64, 112), "float16", (True, False)),  # subgroup matrices are faster than what is written between
        ((1280, 1280, 16), "float16", (True, False)),  # too many weights
        ((16, 16, 224), "float32", (False, False)),
        ((256, 256, 14), "float32", (False, False)),
    ],
)
def test_where_it_pays(sizes: tuple[int, int, int], dtype: str, pays: tuple[bool, bool]) -> None:
    """As 25 convolutions on an H200 have it. The second one: by subgroup matrices."""
    channels, others, size = sizes
    case = conv(padding=1), [(1, channels, size, size), (others, channels, 3, 3)]
    for matrices in (False, True):
        texts = launches_of(case, dtype, matrices=matrices)
        assert any(SQUARES in text for text in texts) == pays[matrices]


def test_what_is_between_is_float16_by_subgroup_matrices_alone() -> None:
    case = conv(padding=1), [(1, 320, 64, 64), (320, 320, 3, 3)]
    for matrices, kind in ((False, "f32"), (True, "f16")):
        weights, image, multiplied, output = launches_of(case, "float16", matrices=matrices)
        assert f"weights_of_conv2d_kernel : array<{kind}>" in weights
        assert f"image_of_conv2d_kernel : array<{kind}>" in image
        assert ("subgroup_matrix" in multiplied) == matrices
        assert "array<vec4<f16>>" in output
    # It reads nothing but weights: a model that is loaded runs it once.
    assert "x0" not in weights
