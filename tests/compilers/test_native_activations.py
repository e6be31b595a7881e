"""Rows that are rounded to 8-bit integers, and their products with weights of 8 bits: sums of whole numbers."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from benchmarks.kernels.__main__ import measured
from benchmarks.kernels.works import works

from compilers.quantised_products import Product, carved, with_bias
from compilers.test_native_products import wrong
from tapml.compilers.auto.compile import AutoCompiler
from tapml.compilers.native.dots import FEATURE
from tapml.compilers.native.skinny import INVOCATIONS, Split
from tapml.compilers.native.tiles import TILES, Tile
from tapml.importing.quantise import INT8
from tapml.jobs.job import JobSpecification, run_job
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext


def zeros(rows: np.ndarray) -> None:
    """Every other row."""
    rows[..., ::2, :] = 0


def outliers(rows: np.ndarray) -> None:
    """One element of a row is all that is left of it; a row is as small as can be."""
    rows[..., 3] *= 1e4
    rows[..., 0, :] *= 1e-36


def unknown(rows: np.ndarray) -> None:
    rows[..., 1, 2] = np.nan


case = partial(Product, INT8, rounded=True)


CASES = {
    "two rows": case((2,), 64, 128),
    "three rows": case((3,), 37, 96, with_bias),
    "eight rows": case((8,), 40, 72),
    "nine rows": case((9,), 33, 64),
    "no whole words": case((2,), 35, 45),
    "no whole words by tiles": case((37,), 50, 67),
    "no whole vectors by tiles": case((12,), 64, 100, with_bias),
    "whole vectors without their last number": case((17,), 64, 127, with_bias),
    "batches": case((2, 3), 36, 64),
    "rows of zeros": case((6,), 33, 40, changed=zeros),
    "outliers": case((10,), 33, 40, changed=outliers),
    "far apart": case((11,), 40, 96, spread=6),
}
FEW = {name: CASES[name] for name in ("three rows", "no whole words", "no whole words by tiles", "rows of zeros")}


def variants(suite: Suite) -> Counter[str]:
    """How many kernels have a variant of that name."""
    return Counter(variant["name"] for name in suite.kernels for variant in suite.bundle(name)["variants"])


def verdicts(suite: Suite, device: str = "node-dawn") -> dict[str, set[str]]:
    with Server() as server:
        context = JobContext(suite, [server.state.device(device)], server.state.blobs)
        document = run_job(JobSpecification(kind="validation", devices=[device], save=False, record=False), context)
    found: dict[str, set[str]] = {}
    for test in document["tests"]:
        found.setdefault(test["kernel"], set()).add(test["verdict"])
    return found


def right_by_shifts(cases: dict[str, Product], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Their suite as devices without `dot4I8Packed` run it, which is held to be right."""
    monkeypatch.setattr("tapml.compilers.native.compile.faster", lambda _: [])
    suite = carved(cases, folder)
    assert not any("dot4I8Packed" in file.text for name in suite.kernels for file in suite.kernel_files(name))
    assert wrong(suite, "node-dawn") == {}
    return suite


@pytest.mark.parametrize("cases", [FEW, pytest.param(CASES, marks=pytest.mark.slow)], ids=["few", "all"])
def test_on_dawn(tmp_path: Path, cases: dict[str, Product]) -> None:
    suite = carved(cases, tmp_path)
    assert variants(suite) == {"256": 2 * len(cases), "256+dots": len(cases)}
    assert wrong(suite, "node-dawn") == {}
    launches = [len(suite.bundle(name)["variants"][-1]["launches"]) for name in suite.kernels]
    assert {*launches} == {1}


def test_in_float16(tmp_path: Path) -> None:
    assert wrong(carved(FEW, tmp_path, "float16"), "deno") == {}


def test_devices_without_the_function_take_shifts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert variants(right_by_shifts(FEW, tmp_path, monkeypatch)) == {"256": 2 * len(FEW)}


@pytest.mark.slow
def test_kernels_of_tvm(tmp_path: Path) -> None:
    suite = carved(FEW, tmp_path, compiler="tvm")
    assert verdicts(suite) == {name: {"pass"} for name in suite.kernels}


def test_any_number_of_rows(tmp_path: Path) -> None:
    cases = {"rows": case(("n",), 40, 64, with_bias), "in a batch of one": case((1, "n"), 33, 50)}
    assert wrong(carved(cases, tmp_path, n=37), "node-dawn") == {}


@pytest.mark.slow
def test_all_tiles_at_their_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row, column and word below, at and above what they hold."""
    tiles: dict[tuple[int, int], Tile] = {}
    cases: dict[str, Product] = {}
    for tile in TILES:
        for more in (-1, 0, 1):
            size = tile.height + more, max(1, 64 // tile.width) * tile.width + more
            tiles[size] = tile
            cases[str(size)] = case((size[0],), size[1], 64 + 4 * more + max(0, more))
    monkeypatch.setattr("tapml.compilers.native.matmul.tile_of", lambda rows, columns, *_, **__: tiles[rows, columns])
    assert wrong(carved(cases, tmp_path), "node-dawn") == {}


SHARED_OUT = pytest.mark.parametrize(("lanes", "vectors"), [(8, 1), (8, 4), (64, 2)])


def about_a_turn(lanes: int, vectors: int, rows: Callable[[int], int]) -> tuple[Split, dict[str, Product]]:
    """How words are shared out, and products whose inner axis is about what lanes read in a turn then. `rows`: by how
    much it is more."""
    turn = 16 * lanes * vectors
    cases = {f"{turn + more}": case((rows(more),), 40 + more % 3, turn + more) for more in (-17, -1, 0, 1, 16)}
    return Split(INVOCATIONS // lanes, lanes, vectors), cases


@pytest.mark.slow
@SHARED_OUT
def test_however_words_are_shared_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lanes: int, vectors: int
) -> None:
    split, cases = about_a_turn(lanes, vectors, lambda more: 2 + abs(more) % 7)
    monkeypatch.setattr("tapml.compilers.native.matmul.split_of", lambda *_, **__: split)
    assert wrong(carved(cases, tmp_path), "node-dawn") == {}


def test_nothing_is_promised_for_what_is_no_number(tmp_path: Path) -> None:
    suite = carved({"nan": case((4,), 33, 40, changed=unknown)}, tmp_path)
    assert verdicts(suite)["int8_rows"] == {"unbounded"}


def test_integers_on_either_side_of_a_step_differ_by_one(tmp_path: Path) -> None:
    """A word may be off by one in the byte of a number that rounding may take to either side, the others by nothing."""

    def steps(rows: np.ndarray) -> None:
        rows[...] = np.arange(rows.shape[-1])
        rows[..., 0] = 127
        rows[..., 5] = 6.5

    suite = carved({"steps": case((3,), 33, 32, changed=steps)}, tmp_path)
    (test,) = (test for test in suite.tests if test.kernel == "int8_rows")
    bound = suite.tensors.get(test.tolerances[0].bound)
    assert [*np.unique(bound)] == [0, 256]
    assert (bound[:, 1] == 256).all()


MUTANTS = {
    "the sign of activations": (r"(lv\d*\[.*\]) \^ vec4<u32>\(0x80808080u\)", r"\1", "matmul"),
    "the sign of weights": (r"(_words\[.*\]) \^ vec4<u32>\(0x80808080u\)", r"\1", "matmul"),
    "the scale of rows": (r"f32\(total\) \* (lv\d*)\[row\]", r"f32(total) * \1[0]", "matmul"),
    "a scale of 128 steps": (r"127\.0f;", "128.0f;", "rows"),
    "cut where it should be rounded": (r" \+ 0\.5f\)", ")", "rows"),
    "numbers in another order": (r"\* 256u", "* 65536u", "rows"),
}


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mistakes_are_found(tmp_path: Path, mistake: str) -> None:
    pattern, instead, kernel = MUTANTS[mistake]
    suite = carved({"rows": case((5,), 33, 64)}, tmp_path)
    (name,) = (name for name in suite.kernels if kernel in name)
    changed = 0
    for file in (tmp_path / "products.suite" / "kernels").glob(f"{name}*.wgsl"):
        text, count = re.subn(pattern, instead, file.read_text())
        file.write_text(text)
        changed += count
    assert changed
    found = verdicts(Suite(tmp_path / "products.suite"))
    assert found.pop(name) == {"fail"}
    assert {verdict for others in found.values() for verdict in others} <= {"pass"}


def test_the_compiler_that_chooses_has_both_texts() -> None:
    operators = [work.operator() for work in works() if "q8 activations" in work.name]
    assert len(operators) == 6
    for operator in operators:
        kernel = AutoCompiler().compile([operator], ("256",))[operator.name]
        features = [variant["requires"]["features"] for variant in kernel.document["variants"]]
        assert FEATURE in features[0]
        assert FEATURE not in features[-1]


def test_dawn_compiles_the_texts() -> None:
    """In float16, too: without a GPU it has every feature. TVM's of a row that is rounded within keep all sums in
    workgroup memory, more than every device has."""
    chosen = [work for work in works() if "activations" in work.name or "int8" in work.name]
    options = argparse.Namespace(sweep=None, prepared=False, check=True, turns=0, warm=0, calls=0, microseconds=0)
    found = [line["candidates"] for line in measured(chosen, options) if "name" in line]
    assert len(found) == len(chosen) == 14
    wrong = {(one["compiler"], one["error"]) for candidates in found for one in candidates if "error" in one}
    assert [error for compiler, error in wrong if compiler != "tvm" or "the maximum allowed" not in error] == []
