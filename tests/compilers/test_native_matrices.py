"""Products by subgroup matrices: their texts are right, where a device has them; and others have another kernel."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kernels.__main__ import measured
from benchmarks.kernels.works import Work

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
from tapml.compilers.native.matrices import BLOCKS, FEATURES, Blocks
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


MOST_MEMORY = 32768
"""That a GPU in software gives a workgroup."""


@pytest.mark.slow
def test_all_blocks_at_their_edges(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of more memory have less of the inner axis in it: their text is the same but for that number."""
    blocks: dict[tuple[int, int], Blocks] = {}
    cases: dict[str, Case] = {}
    for number, found in enumerate(BLOCKS):
        fits = found if found.memory <= MOST_MEMORY else dataclasses.replace(found, depth=16 if number == 0 else 32)
        for more in (-1, 0, 1):
            size = rows, columns = fits.height + more, fits.width * (number % 3 + 1) + more
            blocks[size] = fits
            cases[f"{size} along"] = times_turned, [(rows, 64 + more), (columns, 64 + more)]
            cases[f"{size} across"] = matmul, [(2, rows, 32 - more), (2, 32 - more, columns)]
            cases[f"{size} both across"] = turned_left, [(80 + more, rows), (80 + more, columns)]
    blocks_are(monkeypatch, lambda rows, columns, _: blocks[rows, columns])
    assert wrong(carved(cases, tmp_path, "float16"), "deno") == {}
    assert len(software) == len(cases)


def compiled(works: Sequence[Work]) -> set[str]:
    """What Dawn, which has every feature where it has no GPU, says against their texts."""
    options = argparse.Namespace(sweep=True, check=True, turns=0, warm=0, calls=0, microseconds=0)
    found = [line for line in measured(works, options) if "name" in line]
    assert [line["name"] for line in found] == [work.name for work in works]
    candidates = [one for line in found for one in line["candidates"] if one["parameters"].startswith("blocks")]
    assert len(candidates) > len(works) * len(BLOCKS)
    errors = {one["error"] for one in candidates if "error" in one}
    return {error for error in errors if "maximum allowed" not in error}


def test_dawn_compiles_the_texts() -> None:
    works = [
        Work("aligned", matmul, [(64, 128), (128, 256)], "float16"),
        Work("odd", times_turned, [(37, 53), (41, 53)], "float16"),
    ]
    assert compiled(works) == set()


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
