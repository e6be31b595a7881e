"""Products by subgroup matrices: their texts are right, where a device has them; and others have another kernel."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kernels.__main__ import measured
from benchmarks.kernels.works import Work, attention

from compilers.attention_programs import attending
from compilers.subgroup_matrices import in_software
from compilers.test_native_products import (
    CONVOLUTIONS,
    PRODUCTS,
    Case,
    carved,
    dense,
    matmul,
    scores,
    times_turned,
    turned_left,
    wrong,
)
from tapml.compilers.native import compile as compiling
from tapml.compilers.native.compile import NATIVE
from tapml.compilers.native.matrices import BLOCKS, FEATURES, SIDE, Blocks
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, requirements


@pytest.fixture
def software(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels have subgroup matrices alone, in software. Their names."""
    names: list[str] = []

    def first(fast: CompiledKernel, _: CompiledKernel) -> CompiledKernel:
        files = [WgslFile(file.name, in_software(file.text)) for file in fast.files]
        texts = {file.name: file.text for file in files}
        (variant,) = fast.document["variants"]
        entry_points = [{**one, "generated_sha256": sha256(texts[one["file"]])} for one in variant["entry_points"]]
        requires = requirements([*texts.values()], int(variant["requires"]["limits"]["maxStorageBufferBindingSize"]))
        names.append(fast.document["kernel"])
        made = {**variant, "requires": requires, "entry_points": entry_points}
        return CompiledKernel({**fast.document, "variants": [made]}, files)

    monkeypatch.setattr(compiling, "with_first", first)
    return names


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


@pytest.mark.slow
def test_any_number_of_tokens(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    cases: dict[str, Case] = {
        "dense": (dense, [("n", 64), (64, 70), (70,), ("n", 70)]),
        "scores": (scores, [(1, 4, "n", 32), (1, 4, "n", 32), (1, 1, 1, "n")]),
        "of values": (matmul, [(4, "n", "n"), (4, "n", 24)]),
    }
    assert wrong(carved(cases, tmp_path, "float16", n=37), "deno") == {}
    assert len(software) == len(cases)


MOST_PRODUCTS = 16
"""Of matrices that a GPU in software compiles in seconds."""


def smaller(blocks: Blocks) -> Blocks:
    """Of the same rows and columns, with fewer steps at a time: the text repeats itself less."""
    each = blocks.rows * blocks.columns // SIDE**2
    return dataclasses.replace(blocks, depth=min(blocks.depth, MOST_PRODUCTS // each * SIDE))


@pytest.mark.slow
def test_all_blocks_at_their_edges(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: dict[tuple[int, int], Blocks] = {}
    cases: dict[str, Case] = {}
    for number, found in enumerate(BLOCKS):
        fits = smaller(found)
        for more in (-1, 0, 1):
            size = rows, columns = fits.height + more, fits.width * (number % 3 + 1) + more
            blocks[size] = fits
            along = times_turned, [(rows, 64 + more), (columns, 64 + more)]
            across = matmul, [(2, rows, 32 - more), (2, 32 - more, columns)]
            both_across = turned_left, [(80 + more, rows), (80 + more, columns)]
            cases[str(size)] = (along, across, both_across)[(number + more) % 3]
    blocks_are(monkeypatch, lambda rows, columns, _: blocks[rows, columns])
    assert wrong(carved(cases, tmp_path, "float16"), "deno") == {}
    assert len(software) == len(cases)


def test_dawn_compiles_the_texts() -> None:
    """Without a GPU it has every feature, and the memory that all devices have."""
    works = [
        Work("aligned", matmul, [(64, 128), (128, 256)], "float16"),
        Work("odd", times_turned, [(37, 53), (41, 53)], "float16"),
        *(Work(name, made, shapes, "float16") for name, (made, shapes) in ATTENTION.items()),
    ]
    options = argparse.Namespace(sweep=True, check=True, turns=0, warm=0, calls=0, microseconds=0)
    found = {line["name"]: line["candidates"] for line in measured(works, options) if "name" in line}
    assert found.keys() == {work.name for work in works}
    assert all(sum(one["matrices"] for one in candidates) > 0 for candidates in found.values())
    errors = {one["error"] for candidates in found.values() for one in candidates if "error" in one}
    assert {error for error in errors if "maximum allowed" not in error} == set()


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
