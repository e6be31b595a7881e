"""Products of rows that are rounded to 8-bit integers with weights of 4 bits: sums of whole numbers of each group."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from compilers.quantised_products import Product, carved, with_bias
from compilers.test_native_activations import SHARED_OUT, outliers, right_by_shifts, variants, verdicts, zeros
from compilers.test_native_products import wrong
from tapml.compilers.native.skinny import INVOCATIONS, Split
from tapml.compilers.native.tiles import TILES, Tile
from tapml.importing.activations import MOST_OF_ONE_ROW
from tapml.importing.quantise import Q4F32
from tapml.suite import Suite

pytestmark = pytest.mark.usefixtures("rounded_within")


case = partial(Product, Q4F32, rounded=True)


MANY = {
    "two rows": case((2,), 64, 128),
    "three rows": case((3,), 37, 96, with_bias),
    "eight rows": case((8,), 40, 72),
    "nine rows": case((9,), 33, 64),
    "no whole words": case((2,), 35, 45),
    "no whole words by tiles": case((37,), 50, 67),
    "no whole groups by tiles": case((12,), 64, 112, with_bias),
    "whole groups without their last number": case((17,), 64, 127, with_bias),
    "a number behind groups": case((5,), 33, 257),
    "batches": case((2, 3), 36, 64),
    "rows of zeros": case((6,), 33, 40, changed=zeros),
    "outliers": case((10,), 33, 40, changed=outliers),
    "far apart": case((11,), 40, 96, spread=6),
}
ONE = {
    "one row": case((1,), 64, 128),
    "one row without whole words": case((1,), 35, 45, with_bias),
    "one row of whole words": case((1, 1), 33, 100, with_bias),
    "a number behind one group": case((1,), 37, 33),
    "one row of outliers": case((1, 1, 1), 40, 72, with_bias, changed=outliers),
    "several turns": case((1,), 36, 5000, with_bias),
    "a number behind turns": case((1,), 33, 8193),
    "many columns": case((1,), 9000, 600),
    "the longest": case((1,), 40, MOST_OF_ONE_ROW),
}
CASES = MANY | ONE
FEW = {
    name: CASES[name]
    for name in (
        "three rows",
        "no whole words",
        "no whole words by tiles",
        "one row without whole words",
        "several turns",
    )
}
OF_ONE = sum(name in ONE for name in FEW)


@pytest.mark.parametrize("cases", [FEW, pytest.param(CASES, marks=pytest.mark.slow)], ids=["few", "all"])
def test_on_dawn(tmp_path: Path, cases: dict[str, Product]) -> None:
    suite = carved(cases, tmp_path)
    rows = sum(name in MANY for name in cases)
    assert sum("int8_rows" in name for name in suite.kernels) == rows
    assert variants(suite) == {"256": rows + len(cases), "256+dots": len(cases)}
    found = [variant for name in suite.kernels for variant in suite.bundle(name)["variants"]]
    assert {len(variant["launches"]) for variant in found} == {1}
    assert wrong(suite, "node-dawn") == {}


def test_in_float16(tmp_path: Path) -> None:
    assert wrong(carved(FEW, tmp_path, "float16"), "deno") == {}


def test_devices_without_the_function_take_shifts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert variants(right_by_shifts(FEW, tmp_path, monkeypatch)) == {"256": 2 * len(FEW) - OF_ONE}


def test_any_number_of_rows(tmp_path: Path) -> None:
    cases = {"rows": case(("n",), 40, 64, with_bias), "in a batch of one": case((1, "n"), 33, 50)}
    assert wrong(carved(cases, tmp_path, n=37), "node-dawn") == {}


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["tvm", "auto"])
def test_kernels_of_tvm_and_of_the_compiler_that_chooses(tmp_path: Path, compiler: str) -> None:
    """TVM's keep the sums of groups in registers: in memory these would be many times as many as results. A product
    with one group is TVM's alone."""
    cases = FEW | {"one group": case((10,), 40, 32)}
    suite = carved(cases, tmp_path, compiler=compiler)
    assert verdicts(suite) == {name: {"pass"} for name in suite.kernels}
    products = [name for name in suite.kernels if "q4_matmul" in name]
    assert len(products) == len(cases)
    found = [variant for name in products for variant in suite.bundle(name)["variants"] if "one_row" not in name]
    assert not any(variant["temporaries"] for variant in found)


@pytest.mark.slow
def test_all_tiles_at_their_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row, column and number below, at and above what they hold, of a step's two groups."""
    tiles: dict[tuple[int, int], Tile] = {}
    cases: dict[str, Product] = {}
    for tile in TILES:
        for more in (-1, 0, 1):
            size = tile.height + more, max(1, 64 // tile.width) * tile.width + more
            tiles[size] = tile
            cases[str(size)] = case((size[0],), size[1], 64 * (2 + more) + more)
    monkeypatch.setattr("tapml.compilers.native.matmul.tile_of", lambda rows, columns, *_, **__: tiles[rows, columns])
    assert wrong(carved(cases, tmp_path), "node-dawn") == {}


@pytest.mark.slow
@SHARED_OUT
@pytest.mark.parametrize("module", ["matmul", "rounded"])
def test_however_groups_are_shared_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, lanes: int, vectors: int
) -> None:
    turn = 32 * lanes * vectors
    rows = 1 if module == "rounded" else 3
    cases = {f"{turn + more}": case((rows,), 40 + more % 3, turn + more) for more in (-33, -1, 0, 1, 32)}
    split = Split(INVOCATIONS // lanes, lanes, vectors)
    monkeypatch.setattr(f"tapml.compilers.native.{module}.split_of_groups", lambda _: split)
    suite = carved(cases, tmp_path)
    text = next(file.text for name in suite.kernels if "q4" in name for file in suite.kernel_files(name))
    assert f"{lanes} invocations share" in text
    assert wrong(suite, "node-dawn") == {}


MUTANTS = {
    "the sign of activations": ("rows", r"(lv\d*\[.*\]) \^ vec4<u32>\(0x80808080u\)", r"\1"),
    "what stands for 0": ("rows", "0x7070707u", "0x8080808u"),
    "the order of numbers": ("rows", r"(bytes_of\(first & 0xffffu\)), (bytes_of\(first >> 16u\))", r"\2, \1"),
    "the scale of another group": ("rows", r"(_scales\[column \* \d+ \+ )group_of\]", r"\g<1>0]"),
    "a step's second group by the first one's scale": ("rows", r"scale_part\[(16|32|64) \+ x\]", "scale_part[x]"),
    "the scale of rows": ("rows", r"total \* (lv\d*)\[row\]", r"total * \1[0]"),
    "half a group": ("row", r"accumulated\((accumulated\(.*low_0\)), .*, high_0\)", r"(\1)"),
    "cut where it should be rounded": ("row", r" \+ 0\.5f\)", ")"),
}


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mistakes_are_found(tmp_path: Path, mistake: str) -> None:
    which, pattern, instead = MUTANTS[mistake]
    suite = carved({which: case((12 if which == "rows" else 1,), 33, 320, spread=1)}, tmp_path)
    (name,) = (name for name in suite.kernels if "matmul" in name)
    changed = 0
    for file in (tmp_path / "products.suite" / "kernels").glob(f"{name}*.wgsl"):
        text, count = re.subn(pattern, instead, file.read_text())
        file.write_text(text)
        changed += count
    assert changed
    found = verdicts(Suite(tmp_path / "products.suite"))
    assert found.pop(name) == {"fail"}
    assert {verdict for others in found.values() for verdict in others} <= {"pass"}
