"""Products of one row that is rounded to 8-bit integers where it is multiplied, as a token's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from compilers.quantised_products import Product, carved, with_bias
from compilers.test_native_activations import (
    SHARED_OUT,
    about_a_turn,
    case,
    outliers,
    right_by_shifts,
    variants,
    verdicts,
)
from compilers.test_native_products import wrong
from tapml.importing.activations import MOST_OF_ONE_ROW
from tapml.suite import Suite

pytestmark = pytest.mark.usefixtures("rounded_within")


def zeros(rows: np.ndarray) -> None:
    rows[...] = 0


CASES = {
    "whole vectors": case((1,), 64, 128),
    "no whole words": case((1,), 35, 45, with_bias),
    "whole words": case((1, 1), 33, 100, with_bias),
    "a number behind words": case((1,), 37, 33),
    "zeros": case((1,), 33, 64, changed=zeros),
    "outliers": case((1, 1, 1), 40, 72, with_bias, changed=outliers),
    "far apart": case((1,), 40, 96, spread=6),
    "several turns": case((1,), 36, 5000, with_bias),
    "a number behind turns": case((1,), 33, 4097),
    "many columns": case((1,), 9000, 600),
    "the longest": case((1,), 40, MOST_OF_ONE_ROW),
    "nearly the longest": case((1,), 40, MOST_OF_ONE_ROW - 1, with_bias),
}
FEW = {name: CASES[name] for name in ("whole vectors", "no whole words", "zeros", "several turns")}


@pytest.mark.parametrize("cases", [FEW, pytest.param(CASES, marks=pytest.mark.slow)], ids=["few", "all"])
def test_on_dawn(tmp_path: Path, cases: dict[str, Product]) -> None:
    suite = carved(cases, tmp_path)
    assert not any("int8_rows" in name for name in suite.kernels)
    assert variants(suite) == {"256": len(cases), "256+dots": len(cases)}
    found = [variant for name in suite.kernels for variant in suite.bundle(name)["variants"]]
    assert {len(variant["launches"]) for variant in found} == {1}
    assert wrong(suite, "node-dawn") == {}


def test_in_float16(tmp_path: Path) -> None:
    assert wrong(carved(FEW, tmp_path, "float16"), "deno") == {}


def test_devices_without_the_function_take_shifts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert variants(right_by_shifts(FEW, tmp_path, monkeypatch)) == {"256": len(FEW)}


def test_longer_rows_and_several_are_rounded_by_themselves(tmp_path: Path) -> None:
    cases = {"longer": case((1,), 33, MOST_OF_ONE_ROW + 1), "two": case((2,), 33, 64), "any": case(("n",), 34, 64)}
    suite = carved(cases, tmp_path, n=1)
    assert sum("int8_rows" in name for name in suite.kernels) == 3
    assert not any("of_one_row" in name for name in suite.kernels)
    assert wrong(suite, "node-dawn") == {}


def test_tvm_rounds_rows_by_themselves_and_can_do_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schedules know nothing of a row that all workgroups need; where they are asked, they are right."""
    by_itself = carved({"one": CASES["no whole words"]}, tmp_path / "by itself", compiler="tvm")
    assert any("int8_rows" in name for name in by_itself.kernels)
    monkeypatch.setattr("tapml.compilers.native.compile.recognised", lambda *_: None)
    suite = carved({name: CASES[name] for name in ("no whole words", "zeros", "many columns")}, tmp_path)
    assert {suite.bundle(name)["compiler"]["name"] for name in suite.kernels} == {"tvm"}
    assert not any("int8_rows" in name for name in suite.kernels)
    assert verdicts(suite) == {name: {"pass"} for name in suite.kernels}


@pytest.mark.slow
@SHARED_OUT
def test_however_words_are_shared_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lanes: int, vectors: int
) -> None:
    split, cases = about_a_turn(lanes, vectors, lambda _: 1)
    monkeypatch.setattr("tapml.compilers.native.rounded.split_of", lambda *_, **__: split)
    assert wrong(carved(cases, tmp_path), "node-dawn") == {}


MUTANTS = {
    "the sign of weights": (r"(weight\[.*\]) \^ vec4<u32>\(0x80808080u\)", r"\1"),
    "a scale of 128 steps": (r"\(127\.0f / ", "(128.0f / "),
    "a scale of 126 steps behind the sum": (r" / 127\.0f\)", " / 126.0f)"),
    "cut where it should be rounded": (r" \+ 0\.5f\)", ")"),
    "numbers in another order": (r"<< 8u\) \| \(bytes.z << 16u", "<< 16u) | (bytes.z << 8u"),
    "the greatest, not the greatest absolute value": (r"return abs\((.*)\);", r"return \1;"),
    "the greatest of some": (r"(if \(number < )16u", r"\g<1>4u"),
}


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mistakes_are_found(tmp_path: Path, mistake: str) -> None:
    pattern, instead = MUTANTS[mistake]

    def negative(rows: np.ndarray) -> None:
        rows[..., 104] = -6

    suite = carved({"row": case((1,), 33, 320, changed=negative)}, tmp_path)
    (name,) = suite.kernels
    for file in (tmp_path / "products.suite" / "kernels").glob(f"{name}*.wgsl"):
        text, count = re.subn(pattern, instead, file.read_text())
        assert count
        file.write_text(text)
    assert verdicts(Suite(tmp_path / "products.suite")) == {name: {"fail"}}
