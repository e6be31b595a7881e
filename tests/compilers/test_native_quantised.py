"""Products of `compilers/native` with weights that are integers in words."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest
from benchmarks.kernels.__main__ import measured
from benchmarks.kernels.works import Work, _linear

from compilers.quantised_products import (
    KINDS,
    Q4F32,
    Q8,
    UINT4,
    UINT4_OF_16,
    UINT8,
    UINT8_OF_64,
    Product,
    carved,
    with_bias,
)
from compilers.test_native_matrices import SMALL, blocks_are, smaller
from compilers.test_native_products import texts_of, wrong
from tapml.compilers.halves import halved
from tapml.compilers.native.blocks import BLOCKS_OF_PIECES, SIDE, Blocks, blocks_of
from tapml.compilers.native.compile import NATIVE
from tapml.compilers.native.integers import Integers
from tapml.compilers.native.matrices import FEATURES
from tapml.compilers.native.matrix_parts import odd
from tapml.compilers.native.pieces import least_splits
from tapml.compilers.native.skinny_integers import WordSplit, word_split_of
from tapml.compilers.native.stored import read_as_stored
from tapml.importing.quantise import Q4F16
from tapml.locating.barriers import unordered
from tapml.suite import Suite

FEW_ROWS = {
    "one row": Product(Q4F32, (1,), 64, 128),
    "one row of q8": Product(Q8, (1,), 37, 96),
    "no whole words": Product(Q4F32, (1,), 33, 67),
    "no whole words of q8": Product(Q8, (2,), 35, 45),
    "zero points": Product(UINT4, (3,), 41, 100),
    "a zero point a line": Product(UINT8, (8,), 34, 68, with_bias),
    "with what follows": Product(Q4F32, (1,), 64, 160, with_bias),
    "batches": Product(Q4F32, (2, 3), 36, 64),
}


def by_words(suite: Suite) -> int:
    """How many of its kernels read words by themselves, one by one or four at once."""
    return sum("fn right_word(" in text for text in texts_of(suite)) + by_four_words(suite)


def by_four_words(suite: Suite) -> int:
    return sum("fn right_words(" in text for text in texts_of(suite))


def test_few_rows(tmp_path: Path) -> None:
    suite = carved(FEW_ROWS, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert by_words(suite) == len(suite.kernels)


SPLITS = (
    *(WordSplit(1, 8, 1), WordSplit(1, 256, 4), WordSplit(2, 32, 2), WordSplit(2, 64, 1), WordSplit(4, 16, 4)),
    *(WordSplit(4, 16, 4, True), WordSplit(1, 32, 8, True)),
    *(WordSplit(2, 64, 4, True, staged=True), WordSplit(4, 16, 4, True, staged=True)),
    *(WordSplit(2, 16, 2, staged=True), WordSplit(1, 128, 1, staged=True)),
)


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_however_words_are_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: WordSplit) -> None:
    """Of each second kind, about whole words, groups and turns, and about whole workgroups of columns."""
    monkeypatch.setattr("tapml.compilers.native.matmul.word_split_of", lambda *sizes: split)
    turn = min(8 * split.lanes * split.words, 512)
    one = 32 if split.fours else 1  # of the inner axis: lines of whole fours of words are read by these
    columns = 256 // split.lanes * split.columns
    cases = {
        f"{['below', 'at', 'above'][more + 1]} of kind {number}": Product(kind, (rows,), max(33, columns) + more, inner)
        for number, kind in enumerate(KINDS)
        if number % 2 == SPLITS.index(split) % 2
        for more, rows, inner in ((-1, 1, turn - one), (0, 2, turn), (1, 1 + 3 * (number % 2), turn + one))
        if split.fits(rows)
    }
    suite = carved(cases, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert by_words(suite) == len(suite.kernels)
    # Groups of eight, of which there may be some, are no four words.
    assert by_four_words(suite) > len(suite.kernels) // 2 if split.fours else by_four_words(suite) == 0


STAGED = {
    "less than a turn": Product(Q4F32, (1,), 33, 32),
    "below turns": Product(Q4F32, (2,), 65, 992),
    "a turn": Product(Q4F32, (1,), 64, 512, with_bias),
    "above a turn": Product(UINT4, (1,), 37, 544),
    "of q8": Product(Q8, (1,), 33, 272),
    "no whole fours of numbers": Product(Q4F32, (1,), 41, 1021),
    "an odd number of words": Product(Q4F32, (1,), 61, 67),
    "a zero point a line": Product(UINT8, (2,), 34, 109),
    "groups of two words": Product(UINT4_OF_16, (1,), 36, 176),
}


def test_what_words_meet_is_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = WordSplit(4, 16, 4, True, staged=True)
    monkeypatch.setattr("tapml.compilers.native.matmul.word_split_of", lambda *sizes: split)
    suite = carved(STAGED, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    texts = texts_of(suite)
    assert by_words(suite) == len(texts)
    assert all("left_part_0[" in text for text in texts)
    for text in texts:  # locate knows what each of its barriers is for
        lines = text.splitlines()
        at = [number for number, line in enumerate(lines) if line.strip() == "workgroupBarrier();"]
        assert all(unordered("\n".join([*lines[:number], *lines[number + 1 :]])) is not None for number in at)


def test_lanes_are_as_many_as_fill_a_large_device() -> None:
    assert word_split_of(1, 4096, 512, 1) == WordSplit(4, 256, 2)
    for wide in (False, True):
        fours = {"by_fours": True, "wide": wide}
        assert word_split_of(1, 4096, 512, 1, **fours) == WordSplit(4, 64, 4, True, staged=True)
        assert word_split_of(1, 2048, 512, 1, **fours) == WordSplit(2, 64, 4, True, staged=True)
        assert word_split_of(2, 16384, 512, 1, **fours) == WordSplit(4, 16, 4, True, staged=True)
    assert word_split_of(1, 4096, 1024, 1, bits=8, by_fours=True) == WordSplit(4, 128, 4, True)
    # Where so few share what would be staged, float32 meets words one by one.
    for rows, columns, words in ((1, 512, 512), (2, 4096, 512), (8, 128256, 512), (1, 50, 8)):
        found = word_split_of(rows, columns, words, 1, by_fours=True, wide=True)
        assert found == word_split_of(rows, columns, words, 1)
        half = word_split_of(rows, columns, words, 1, by_fours=True)
        assert half.fours
        assert not half.staged
    assert word_split_of(1, 128256, 512, 1).lanes == 16
    assert word_split_of(8, 4096, 512, 1).columns == 2  # more sums than that there is no workgroup memory for
    assert word_split_of(1, 50, 6, 1) == WordSplit(1, 16, 1)


HALVES = {
    "one row": Product(Q4F32, (1,), 33, 67),
    "of q8": Product(Q8, (2,), 36, 64, with_bias),
    "by tiles": Product(Q4F32, (17,), 35, 72),
}


def test_in_float16(tmp_path: Path) -> None:
    assert wrong(carved(HALVES, tmp_path, "float16"), "deno") == {}


FOURS_OF_HALVES = {
    "below a turn": Product(Q4F32, (1,), 67, 480),
    "a turn": Product(Q8, (2,), 64, 256, with_bias),
    "above a turn": Product(Q4F32, (3,), 65, 544),
    "short": Product(UINT8_OF_64, (1,), 33, 64),
    "batches": Product(Q4F32, (2, 2), 36, 64),
    "zero points": Product(UINT4, (1,), 40, 128),
    "words one by one": Product(UINT4_OF_16, (1,), 33, 96),
}


@pytest.mark.parametrize("staged", [False, True])
def test_fours_of_words_in_float16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, staged: bool) -> None:
    split = WordSplit(4, 16, 4, True, staged)
    monkeypatch.setattr("tapml.compilers.native.matmul.word_split_of", lambda *sizes: split)
    monkeypatch.setattr(WordSplit, "fits", lambda *_: True)
    suite = carved(FOURS_OF_HALVES, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    texts = texts_of(suite)
    assert by_words(suite) == len(texts)
    for text in texts:  # two at a time, of eight of which all have one zero point that is known
        by_twos = "fn right_words(" in text and "fn high_four(" in text and "fn right_zero(" not in text
        assert ("fn even_two(" in text) == by_twos


MATRICES = {
    "q4": Product(Q4F32, (33,), 65, 100),
    "q8": Product(Q8, (31,), 64, 64),
    "zero points": Product(UINT4, (32,), 63, 128, with_bias),
    "a zero point a line": Product(UINT8, (2, 17), 66, 45),
}


@pytest.fixture
def pieces(software: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small products of float32 are products of pieces, too, by subgroup matrices alone. Names of kernels."""
    monkeypatch.setattr("tapml.compilers.native.matmul.LEAST_OF_PIECES", 0)
    return software


def test_products_by_subgroup_matrices(tmp_path: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    assert wrong(carved(MATRICES, tmp_path), "deno") == {}
    assert len(pieces) == len(MATRICES)


def test_products_of_float16_by_subgroup_matrices(
    tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    suite = carved(MATRICES, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    assert len(software) == len(MATRICES)
    assert {len(suite.bundle(name)["variants"][0]["launches"]) for name in software} == {1}


def test_products_with_scales_of_float16(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As `halved` says it of scales that are stored so; these are float32, but all of them numbers of float16."""
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    monkeypatch.setattr(
        "tapml.compilers.native.halves.in_halves", lambda name: (name + "_16", f"const {name}_16 = true;")
    )
    suite = carved(
        {"q4": Product(Q4F32, (33,), 65, 100), "of 8": Product(UINT4_OF_16, (31,), 64, 64)}, tmp_path, "float16"
    )
    assert wrong(suite, "deno") == {}
    texts = [path.read_text() for path in suite.path.rglob("*.wgsl")]
    assert sum(bool(re.search(r"if \(\w+_scales_16\)", text)) for text in texts) == len(software) == 2


def test_a_text_is_told_that_scales_are_stored_as_float16() -> None:
    operator = Work("q4", _linear, [(32, 64), (64, 64)], "float16", kind=Q4F16).operator()
    kernel = NATIVE.compile([operator], ("256",))[operator.name]
    assert {"const weight_scales_in_halves = false;" in file.text for file in kernel.files} == {True, False}
    read = halved(kernel, {2})
    assert read is not None
    assert {"const weight_scales_in_halves = true;" in file.text for file in read.files} == {True, False}
    assert not any("const weight_scales_in_halves = false;" in file.text for file in read.files)


TURNED = {
    "q4": Product(Q4F32, (33,), 72, 96),
    "whole tiles": Product(Q4F32, (64,), 64, 128, with_bias),
    "groups of 16": Product(UINT4_OF_16, (31,), 136, 80),
    "a part of a group": Product(Q4F32, (2, 9), 32, 40),
}
BLOCKS_FOR_TURNED = Blocks(16, 32, 2, 2, 64)


def always_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    """As scales are that are stored as float16; these are float32, but all of them numbers of float16."""
    blocks_are(monkeypatch, lambda *sizes: BLOCKS_FOR_TURNED)
    monkeypatch.setattr("tapml.compilers.native.matmul.turning_pays", lambda *sizes: True)
    monkeypatch.setattr(Integers, "has_half_scales", lambda *_: True)


def test_words_are_turned_before_products(tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    always_turned(monkeypatch)
    as_they_lie = {
        "odd columns": Product(Q4F32, (33,), 65, 96),
        "no whole words": Product(Q4F32, (33,), 64, 100),
        "zero points": Product(UINT4, (32,), 64, 128),
        "of 8 bits": Product(Q8, (33,), 64, 64),
    }
    suite = carved(TURNED | as_they_lie, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    launches = [len(suite.bundle(name)["variants"][0]["launches"]) for name in software]
    assert sorted(launches) == [1] * len(as_they_lie) + [2] * len(TURNED)


@pytest.mark.parametrize("splits", [1, 3])
def test_words_are_turned_for_any_number_of_tokens(
    tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch, splits: int
) -> None:
    always_turned(monkeypatch)
    blocks_are(monkeypatch, lambda *sizes: dataclasses.replace(BLOCKS_FOR_TURNED, splits=splits))
    cases = {"q4": Product(Q4F32, (2, "n"), 40, 224, with_bias), "of 16": Product(UINT4_OF_16, ("n",), 72, 208)}
    suite = carved(cases, tmp_path, "float16", n=37)
    assert wrong(suite, "deno") == {}
    assert len(software) == len(cases)
    assert sum("fn swapped(" in text for text in texts_of(suite)) == len(cases)


@pytest.mark.slow
def test_turned_words_at_the_edges_of_blocks(
    tmp_path: Path, software: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    always_turned(monkeypatch)
    blocks: dict[tuple[int, int], Blocks] = {}
    cases: dict[str, Product] = {}
    for number, fitting in enumerate((BLOCKS_FOR_TURNED, Blocks(16, 32, 1, 4, 64))):  # one word an invocation, and two
        for more in (-1, 0, 1):
            size = rows, columns = fitting.height + more, fitting.width * (number % 2 + 1) + 8 * more
            blocks[size] = fitting
            cases[str(size)] = Product((Q4F32, UINT4_OF_16)[number % 2], (rows,), columns, 96 + 32 * more)
    blocks_are(monkeypatch, lambda rows, columns, *_: blocks[rows, columns])
    suite = carved(cases, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    assert sum("fn swapped(" in text for text in texts_of(suite)) == len(cases)


def test_words_are_turned_where_that_pays_and_scales_are_known_to_be_float16() -> None:
    def turns(rows: int, stored: set[int]) -> bool:
        operator = work(Q4F16, rows, "float16", 4096).operator()
        kernel = read_as_stored(NATIVE.compile([operator], ["256"])[operator.name], operator, stored)
        assert kernel is not None
        assert [variant["name"] for variant in kernel.document["variants"]] == ["256+matrices", "256"]
        return any("fn swapped(" in file.text for file in kernel.files)

    assert turns(512, {2})
    assert not turns(512, set())
    assert not turns(128, {2})


FAR_APART = {
    "elements and scales": Product(Q4F32, (20,), 40, 96, spread=6),
    "of lines": Product(Q8, (20,), 40, 96, spread=6),
    "zero points": Product(UINT4, (20,), 40, 96, with_bias, spread=8),
    "short": Product(Q4F32, (32,), 33, 32),
}


@pytest.mark.slow
def test_pieces_lose_no_more_than_a_sum_in_float32(
    tmp_path: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    assert wrong(carved(FAR_APART, tmp_path), "deno") == {}
    assert len(pieces) == len(FAR_APART)


_MOST_PRODUCTS = 16
"""Of matrices in a text, for a GPU in software."""


def in_little_memory(blocks: Blocks) -> Blocks:
    """With half of the steps at a time, or half of the columns, as long as parts of pieces are more than a GPU in
    software has memory for, or products more than it compiles in seconds."""
    while True:
        vectors = 2 * (blocks.height + blocks.width) * odd(blocks.depth // 8)
        memory = 16 * vectors + 2048 * blocks.high * blocks.wide
        products = 3 * (blocks.rows * blocks.columns * blocks.depth) // SIDE**3
        if memory <= 32768 and products <= 1.5 * _MOST_PRODUCTS:
            return blocks
        if blocks.depth > 32:
            blocks = dataclasses.replace(blocks, depth=blocks.depth // 2)
        else:
            blocks = dataclasses.replace(blocks, columns=blocks.columns // 2)


@pytest.mark.slow
@pytest.mark.parametrize("splits", [1, 3])
def test_all_blocks_of_pieces_at_their_edges(
    tmp_path: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch, splits: int
) -> None:
    blocks: dict[tuple[int, int], Blocks] = {}
    cases: dict[str, Product] = {}
    kinds = (Q4F32, Q8, UINT4, UINT4_OF_16, UINT8)
    for number, found in enumerate(BLOCKS_OF_PIECES):
        fitting = dataclasses.replace(in_little_memory(smaller(found, _MOST_PRODUCTS)), splits=splits)
        for more in (-1, 0, 1):
            size = rows, columns = fitting.height + more, fitting.width * (number % 2 + 1) + more
            blocks[size] = fitting
            kind = kinds[(3 * number + more) % len(kinds)]
            cases[str(size)] = Product(kind, (rows,), columns, 64 * splits + 32 * more)
    blocks_are(monkeypatch, lambda rows, columns, *_: blocks[rows, columns])
    assert wrong(carved(cases, tmp_path), "deno") == {}
    assert len(pieces) == len(cases)


def test_long_sums_are_shared_out() -> None:
    """Matrix units cut where a sum in float32 rounds."""
    assert [least_splits(inner, 2) for inner in (32, 4096, 8192, 16384)] == [1, 1, 1, 2]
    assert [least_splits(inner, 3) for inner in (32, 4096, 8192, 28672)] == [1, 1, 2, 3]
    assert blocks_of(512, 4096, 1, 8192, least=2).splits >= 2
    wide = Work("wide", _linear, [(512, 8192), (128, 8192)], "float32", kind=Q4F32).operator()
    fast, _ = NATIVE.compile([wide], ["256"])[wide.name].document["variants"]
    assert len(fast["launches"]) == 5  # scaling, pieces, scales, parts, their sums


@pytest.mark.slow
def test_any_number_of_tokens(tmp_path: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    cases = {
        "q4": Product(Q4F32, (1, "n"), 40, 72, with_bias),
        "q8": Product(Q8, ("n",), 40, 64),
    }
    assert wrong(carved(cases, tmp_path, n=37), "deno") == {}
    assert len(pieces) == len(cases)


def work(kind: object, rows: int, dtype: str, size: int = 2048) -> Work:
    return Work(f"{kind} {rows}", _linear, [(rows, size), (size, size)], dtype, kind=kind)  # type: ignore[arg-type]


def test_what_has_a_variant_of_subgroup_matrices() -> None:
    def variants(kind: object, rows: int, dtype: str, size: int = 2048) -> list[str]:
        operator = work(kind, rows, dtype, size).operator()
        document = NATIVE.compile([operator], ["256"])[operator.name].document
        for variant in document["variants"][:-1]:
            assert {*FEATURES, "shader-f16"} <= {*variant["requires"]["features"]}
        return [variant["name"] for variant in document["variants"]]

    both = ["256+matrices", "256"]
    assert all(variants(kind, 512, "float32") == both for kind in (Q4F16, Q4F32, Q8, UINT4, UINT8))
    assert variants(Q4F16, 512, "float16") == variants(UINT8_OF_64, 512, "float16") == both
    assert variants(UINT8_OF_64, 512, "float32") == ["256"]  # of which two float16 are not enough
    assert variants(Q4F16, 8, "float32") == ["256"]
    assert variants(Q4F16, 64, "float32", 64) == ["256"]  # the dispatches before it take longer


def test_dawn_compiles_the_texts() -> None:
    """Without a GPU it has every feature, and the memory of workgroups that all devices have."""
    kinds = {"float32": (Q4F16, Q8, UINT4), "float16": (Q4F16, Q8, UINT8_OF_64)}
    works = [work(kind, 512, dtype) for dtype, found in kinds.items() for kind in found]
    options = argparse.Namespace(
        sweep=re.compile("^$"), prepared=False, check=True, turns=0, warm=0, calls=0, microseconds=0
    )
    found = [line["candidates"] for line in measured(works, options) if "name" in line]
    assert len(found) == len(works)
    native = [[one for one in candidates if one["compiler"] == "native"] for candidates in found]
    assert all(sum(one["matrices"] for one in candidates) == 1 for candidates in native)
    errors = [one["error"] for candidates in native for one in candidates if "error" in one]
    assert [error for error in errors if "workgroup storage" not in error] == []
