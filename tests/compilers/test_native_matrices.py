"""Products by subgroup matrices: their texts are right, where a device has them; and others have another kernel."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kernels.__main__ import measured
from benchmarks.kernels.works import Work, attention

from compilers.attention_programs import attending
from compilers.test_native_products import (
    CONVOLUTIONS,
    PRODUCTS,
    Case,
    carved,
    conv,
    dense,
    matmul,
    scores,
    times_turned,
    turned_left,
    wrong,
)
from tapml.compilers.native.blocks import BLOCKS, SIDE, Blocks, fits
from tapml.compilers.native.compile import NATIVE
from tapml.compilers.native.matrices import FEATURES
from tapml.compilers.native.matrix_parts import odd


def blocks_are(monkeypatch: pytest.MonkeyPatch, chosen: Any) -> None:
    monkeypatch.setattr("tapml.compilers.native.matmul.blocks_of", chosen)


ATTENTION: dict[str, Case] = {
    "every key": (attention, [(2, 70, 64), (2, 45, 64), (2, 45, 64)]),
    "odd sizes": (attention, [(1, 33, 19), (1, 65, 19), (1, 65, 19)]),
    "grouped heads, causal": (attending(0.2), [(4, 17, 24), (2, 37, 24), (2, 37, 40)]),
    "scores far apart": (attending(2.0), [(2, 40, 32), (1, 97, 32), (1, 97, 16)]),
    "scores far apart, weights of float16": (attending(2.0, halved=True), [(1, 65, 33), (1, 65, 33), (1, 65, 31)]),
    "a window": (attending(0.3, window=9), [(1, 64, 16), (1, 160, 16), (1, 160, 48)]),
    "soft cap": (attending(1.0, softcap=2.5), [(1, 32, 48), (1, 33, 48), (1, 33, 8)]),
}


def test_attention_is_right(tmp_path: Path, software: list[str]) -> None:
    cases = {name: ATTENTION[name] for name in ("scores far apart", "grouped heads, causal")}
    assert wrong(carved(cases, tmp_path, "float16"), "deno") == {}
    assert len(software) == len(cases)


@pytest.mark.slow
def test_every_attention_is_right(tmp_path: Path, software: list[str]) -> None:
    assert wrong(carved(ATTENTION, tmp_path, "float16"), "deno") == {}
    assert len(software) == len(ATTENTION)


SMALL = Blocks(16, 32, 2, 2, 32)


def test_products_are_right(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    cases = {name: PRODUCTS[name] for name in ("of primes", "both across", "dense")}
    assert wrong(carved(cases, tmp_path, "float16"), "deno") == {}
    assert len(software) == len(cases)


@pytest.mark.slow
def test_every_product_is_right(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    assert wrong(carved({**PRODUCTS, **CONVOLUTIONS}, tmp_path, "float16"), "deno") == {}
    assert len(software) > len(CONVOLUTIONS)


def all_packed(monkeypatch: pytest.MonkeyPatch, packed: Sequence[str] = ("left", "right")) -> None:
    monkeypatch.setattr("tapml.compilers.native.matmul.packing_of", lambda *given: packed)


@pytest.mark.slow
@pytest.mark.parametrize(("splits", "packed"), [(1, ("left", "right")), (3, ("left narrow", "right narrow"))])
def test_packed_factors_are_right(
    tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch, splits: int, packed: Sequence[str]
) -> None:
    blocks_are(monkeypatch, lambda *sizes: dataclasses.replace(SMALL, splits=splits))
    all_packed(monkeypatch)
    cases = {
        **PRODUCTS,
        **CONVOLUTIONS,
        "of even rows": (conv(padding=1, strides=[2, 1]), [(2, 9, 9, 8), (20, 9, 3, 3)]),
    }
    suite = carved(cases, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    assert len(software) > len(CONVOLUTIONS)
    assert sum(len(suite.bundle(name)["variants"][0]["launches"]) > 1 for name in software) > len(CONVOLUTIONS)


@pytest.mark.slow
def test_any_number_of_tokens(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    cases: dict[str, Case] = {
        "dense": (dense, [("n", 64), (64, 70), (70,), ("n", 70)]),
        "scores": (scores, [(1, 4, "n", 32), (1, 4, "n", 32), (1, 1, 1, "n")]),
        "of values": (matmul, [(4, "n", "n"), (4, "n", 24)]),
    }
    assert wrong(carved(cases, tmp_path / "as it is", "float16", n=37), "deno") == {}
    assert len(software) == len(cases)
    all_packed(monkeypatch)
    assert wrong(carved(cases, tmp_path / "packed", "float16", n=37), "deno") == {}
    assert len(software) == 2 * len(cases)


MOST_PRODUCTS = 4
"""Of matrices that a GPU in software compiles in seconds: where the last step stands behind the loop, a text has them
twice."""


def smaller(blocks: Blocks, most: int = MOST_PRODUCTS) -> Blocks:
    """Of the same rows and columns, with fewer steps at a time: the text repeats itself less. Where that is not
    enough, with fewer columns. `most`: products of matrices."""
    if blocks.rows * blocks.columns > most * SIDE**2:
        blocks = dataclasses.replace(blocks, columns=SIDE)
    each = blocks.rows * blocks.columns // SIDE**2
    steps = max(1, most // each)
    depth = min(blocks.depth, 2 ** (steps.bit_length() - 1) * SIDE)
    while not all(fits(lines, depth, blocks.invocations, False) for lines in (blocks.height, blocks.width)):
        depth *= 2
    if each * depth > most * SIDE and blocks.columns > SIDE:
        return smaller(dataclasses.replace(blocks, columns=SIDE), most)
    if blocks.rows > SIDE and 16 * (blocks.height + blocks.width) * odd(depth // 8) > 21504:
        return smaller(dataclasses.replace(blocks, rows=SIDE), most)  # in the memory of a GPU in software
    return dataclasses.replace(blocks, depth=depth)


@pytest.mark.slow
def test_all_blocks_at_their_edges(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: dict[tuple[int, int], Blocks] = {}
    cases: dict[str, Case] = {}
    for number, fitting in enumerate(dict.fromkeys(map(smaller, BLOCKS))):
        for more in (-1, 0, 1):
            size = rows, columns = fitting.height + more, fitting.width * (number % 3 + 1) + more
            blocks[size] = fitting
            along = times_turned, [(rows, 64 + more), (columns, 64 + more)]
            across = matmul, [(2, rows, 32 - more), (2, 32 - more, columns)]
            both_across = turned_left, [(80 + more, rows), (80 + more, columns)]
            ways = [along, across, both_across]
            if not fits(fitting.height, fitting.depth, fitting.invocations, True):
                ways.pop()
            cases[str(size)] = ways[(number + more) % len(ways)]
    blocks_are(monkeypatch, lambda rows, columns, *_: blocks[rows, columns])
    assert wrong(carved(cases, tmp_path, "float16"), "deno") == {}
    assert len(software) == len(cases)


def compiled_by_dawn(works: Sequence[Work], sweep: str | None) -> dict[str, list[dict[str, Any]]]:
    """The candidates of each work, all of which it takes but for those beyond a limit. Without a GPU it has every
    feature, and the memory that all devices have."""
    options = argparse.Namespace(
        sweep=None if sweep is None else re.compile(sweep),
        **{"prepared": True, "check": True, "turns": 0, "warm": 0, "calls": 0, "microseconds": 0},
    )
    found = {line["name"]: line["candidates"] for line in measured(works, options) if "name" in line}
    assert found.keys() == {work.name for work in works}
    assert all(sum(one["matrices"] for one in candidates) > 0 for candidates in found.values())
    errors = {one["error"] for candidates in found.values() for one in candidates if "error" in one}
    assert {error for error in errors if "maximum allowed" not in error} == set()
    return found


@pytest.mark.parametrize(
    "sweep", ["^blocks (64x64x32|16x32x64) ", pytest.param("", marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_dawn_compiles_the_texts_of_products(sweep: str) -> None:
    works = [
        Work("aligned", matmul, [(64, 128), (128, 256)], "float16"),
        Work("odd", times_turned, [(37, 53), (41, 53)], "float16"),
        Work("odd weight", matmul, [(512, 128), (128, 255)], "float16", 1),
    ]
    found = compiled_by_dawn(works, sweep)
    once = {name for name, candidates in found.items() if any("once" in one["parameters"] for one in candidates)}
    assert once == {"odd weight"}


def test_dawn_compiles_the_texts_of_attention() -> None:
    """Which no parameters change."""
    works = [Work(name, made, shapes, "float16") for name, (made, shapes) in ATTENTION.items()]
    compiled_by_dawn(works, None)


def operator(dtype: str, *shapes: tuple[int, ...]) -> Any:
    return Work("product", matmul, shapes, dtype).operator()


def test_a_device_without_matrices_has_the_other_kernel() -> None:
    product = operator("float16", (64, 64), (64, 64))
    kernel = NATIVE.compile([product], ["256"])[product.name]
    fast, other = kernel.document["variants"]
    assert (fast["name"], other["name"]) == ("256+matrices", "256")
    assert set(FEATURES) < set(fast["requires"]["features"])
    assert other["requires"]["features"] == ["shader-f16"]
    assert fast["requires"]["limits"]["subgroupMinSize"] == fast["requires"]["limits"]["subgroupMaxSize"] == 32
    assert [file.name for file in kernel.files] == [f"{product.name}@matrices.wgsl", f"{product.name}.wgsl"]


def test_a_device_takes_the_other_kernel(tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "product": (matmul, [(20, 33), (33, 21)]),
        "attention": (attending(0.5, halved=True), [(1, 35, 17), (1, 40, 17), (1, 40, 13)]),
    }
    suite = carved(cases, tmp_path, "float16")
    assert all(len(suite.bundle(name)["variants"]) == 2 for name in suite.kernels)
    assert wrong(suite, "deno") == {}


@pytest.mark.parametrize(
    ("dtype", "shapes"),
    [
        ("float32", ((64, 64), (64, 64))),  # whose numbers no float16 is
        ("float16", ((4, 64), (64, 64))),  # rows that a matrix would mostly be empty of
        ("float16", ((64, 8), (8, 64))),
    ],
)
def test_what_matrices_are_not_for(dtype: str, shapes: Sequence[tuple[int, ...]]) -> None:
    product = operator(dtype, *shapes)
    (variant,) = NATIVE.compile([product], ["256"])[product.name].document["variants"]
    assert variant["name"] == "256"
