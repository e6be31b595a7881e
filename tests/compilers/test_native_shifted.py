"""Images of convolutions packed by whole vectors, at every place of a window: compilers/native/shifted.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.kernels.works import Work

from compilers.test_native_products import Case, carved, conv, wrong
from tapml.compilers.native import matmul as products
from tapml.compilers.native.blocks import Blocks, blocks_of
from tapml.compilers.native.compile import generated
from tapml.compilers.native.packed import packing_of
from tapml.compilers.native.skinny import MOST_ROWS
from tapml.compilers.native.tiles import Tile
from tapml.suite import Suite

SHIFTED = " elements of a row an invocation, at each place of a window."


def image(
    window: tuple[int, int], pads: Sequence[int], size: tuple[int, int], batch: int = 1, channels: int = 5, **more: Any
) -> Case:
    """Of a convolution to 12 channels. `pads`: above, on the left, below, on the right."""
    return conv(padding=[*pads], **more), [(batch, channels, *size), (12, channels, *window)]


def drawn(count: int, each: int, seed: int) -> Mapping[str, Case]:
    """Rows of whole vectors of `each`, with zeros of any number on both sides."""
    random = np.random.default_rng(seed)
    found: dict[str, Case] = {}
    while len(found) < count:
        high, wide = (int(random.choice([1, 3, 5, 7])) for _ in range(2))
        width = each * int(random.integers(1, 4))
        apart = int(random.choice([1, 1, 1, 2])) if wide > 1 else 1
        behind = each * int(random.integers(-1, 3))  # by which rows become longer
        both = apart * (wide - 1) + behind
        if width + behind < each or both < 0:
            continue
        left, above = int(random.integers(0, both + 1)), int(random.integers(0, high + 1))
        below = int(random.integers(0, high + 1))
        rows = int(random.integers(max(1, high - above - below), high + 6))
        if (rows + above + below - high + 1) * (width + behind) <= MOST_ROWS:
            continue
        pads = (above, left, below, both - left)
        batch, channels = int(random.integers(1, 3)), int(random.integers(3, 7))
        made = image((high, wide), pads, (rows, width), batch, channels, dilation=[1, apart])
        found[f"{high}x{wide} by {apart} of {batch}x{channels}x{rows}x{width}, pads {pads}"] = made
    return found


def chosen(each: int) -> dict[str, Case]:
    """Each with something of its own, in rows of whole vectors of `each`."""
    return {
        "3x3": image((3, 3), (1, 1, 1, 1), (6, 2 * each)),
        "one vector": image((3, 3), (1, 1, 1, 1), (9, each), batch=2),
        "a window of no height": image((1, 5), (0, 2, 0, 2), (8, 2 * each)),
        "zeros on the left alone": image((3, 3), (2, 2, 0, 0), (7, 2 * each)),
        "zeros on the right alone": image((3, 3), (0, 0, 2, 2), (7, 2 * each)),
        "vectors of zeros": image((3, 3), (3, each + 1, 3, each + 1), (5, each)),
        "shorter rows": image((3, each + 1), (1, 0, 1, 0), (5, 3 * each)),
        "strides of rows": image((3, 3), (1, 1, 1, 1), (9, 2 * each), strides=[2, 1], dilation=[3, 1]),
        "of one dimension": (conv(padding=2), [(2, 6, 3 * each), (12, 6, 5)]),
        "of three": (conv(padding=1), [(1, 3, 3, 4, each), (12, 3, 3, 3, 3)]),
    }


OTHERS: Mapping[str, Case] = {
    "odd rows": image((3, 3), (1, 1, 1, 1), (6, 15)),
    "odd rows that become whole vectors": image((3, 3), (1, 2, 1, 1), (6, 15)),
    "rows of half vectors": image((3, 3), (1, 1, 1, 1), (6, 18)),
    "strides along rows": image((3, 3), (1, 1, 1, 1), (9, 32), strides=[1, 2]),
}


def all_packed(monkeypatch: pytest.MonkeyPatch, packed: str, each: int) -> None:
    """Products of small tiles whose images are packed, in vectors of `each`."""
    pack = products._packed
    monkeypatch.setattr(
        products, "_packed", lambda found, made, indices, *_: pack(found, made, indices, [packed], each)
    )
    monkeypatch.setattr(products, "tile_of", lambda *sizes: Tile(4, 4, 8, 8))


def shifted_in(suite: Suite) -> set[str]:
    """Kernels whose first text is of this template."""
    texts = {name: [file.text for file in suite.kernel_files(name)] for name in suite.kernels}
    return {name for name, (first, *_) in texts.items() if SHIFTED in first}


def test_images_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_packed(monkeypatch, "right", 4)
    names = ("3x3", "zeros on the left alone", "vectors of zeros", "strides of rows")
    suite = carved({name: chosen(4)[name] for name in names}, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert shifted_in(suite) == set(suite.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("packed", ["right", "right narrow"])
@pytest.mark.parametrize(("device", "dtype", "each"), [("node-dawn", "float32", 4), ("deno", "float16", 8)])
def test_every_image_on_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, dtype: str, each: int, packed: str
) -> None:
    all_packed(monkeypatch, packed, each)
    suite = carved({**chosen(each), **drawn(8, each, 1), **OTHERS}, tmp_path, dtype)
    assert wrong(suite, device) == {}
    assert len(shifted_in(suite)) == len(suite.kernels) - len(OTHERS)


@pytest.mark.parametrize("packed", ["right", "right narrow"])
@pytest.mark.parametrize(("dtype", "each"), [("float32", 4), ("float16", 8)])
def test_which_images_are_packed_by_vectors(dtype: str, each: int, packed: str) -> None:
    cases = {**chosen(each), **drawn(25, each, 2), **OTHERS}
    others = set()
    for name, (body, shapes) in cases.items():
        operator = Work(name, body, shapes, dtype).operator()
        template = partial(products.matmul, packed=[packed])
        launches = generated(operator, 256, (template,), matrices=dtype == "float16") or []
        assert len(launches) == 2, name
        others |= set() if SHIFTED in launches[0].text else {name}
    assert others == OTHERS.keys()


def test_packing_by_vectors_takes_less() -> None:
    """An image that a product reads once, but element by element."""
    ways, sizes, tile = {"left": "whole", "right": "ones"}, (1, 128, 128 * 128, 1152), (128, 128)
    assert packing_of(ways, sizes, tile, lambda side: False) == ()
    assert packing_of(ways, sizes, tile, lambda side: True) == ("right",)


@pytest.mark.parametrize(
    ("rows", "columns", "inner", "fastest"),
    [
        (320, 64 * 64, 9 * 320, Blocks(80, 32, 1, 4, 64)),
        (640, 32 * 32, 9 * 640, Blocks(32, 64, 4, 2, 64, 3)),
        (640, 32 * 32, 9 * 320, Blocks(32, 64, 4, 2, 64, 3)),
        (640, 2 * 32 * 32, 9 * 640, Blocks(64, 64, 2, 4, 32, 3)),
        (1280, 8 * 8, 9 * 1280, Blocks(16, 32, 2, 2, 64, 4)),
        (512, 4096, 4096, Blocks(32, 64, 4, 2, 64)),
        (2048, 2048, 2048, Blocks(64, 64, 2, 4, 32)),
    ],
)
def test_blocks_are_those_that_were_fastest_on_an_h200(rows: int, columns: int, inner: int, fastest: Blocks) -> None:
    assert blocks_of(rows, columns, 1, inner, (False, True)) == fastest
