"""Attention of `compilers/native` to many rows without subgroup matrices: on devices, within the bounds of a carve."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilers.attention_programs import attending
from compilers.test_native_products import Case, carved, texts_of, wrong
from tapml.suite import Suite


def case(rows: int, inner: int, keys: int, width: int, heads: int = 2, window: int = 0, *, causal: bool = True) -> Case:
    return attending(inner**-0.5, window, causal=causal), [
        (heads, rows, inner),
        (heads, keys, inner),
        (heads, keys, width),
    ]


SOME: dict[str, Case] = {
    "a prompt": case(70, 64, 70, 64),
    "odd sizes": case(37, 17, 67, 33),
    "a window": case(40, 32, 160, 32, window=9),
    "few rows of a tile": case(9, 40, 33, 40),
}
EDGES: dict[str, Case] = {
    **{f"{rows} rows": case(rows, 32, 97, 16) for rows in (31, 32, 33, 63, 64, 65, 129)},
    **{f"{keys} keys": case(20, 16, keys, 16) for keys in (2, 3, 4, 5, 31, 32, 33, 64, 65)},
    **{f"of {inner}": case(20, inner, 40, 12) for inner in (3, 4, 5, 31, 63, 64, 65, 129, 257)},
    **{f"values of {width}": case(20, 16, 40, width) for width in (5, 9, 31, 64, 65, 130, 257)},
}

SHARED: dict[str, Case] = {
    "four shares": case(64, 16, 256, 16, causal=False),
    "of odd sizes": case(37, 17, 131, 33, causal=False),
    "the last one short": case(32, 8, 65, 16, causal=False),
    "of long values": case(40, 12, 100, 96, heads=1, causal=False),
}

_TILES = "tapml.compilers.native.attending_tiles"


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """One workgroup is enough, however many of its rows are none, and however little there is to do."""
    monkeypatch.setattr(f"{_TILES}._FILLED", 1)
    monkeypatch.setattr(f"{_TILES}._FILLED_UNSHARED", 1)
    monkeypatch.setattr(f"{_TILES}._MOST_ROWS", 100)
    monkeypatch.setattr("tapml.compilers.native.attention.few_rows", lambda *_: False)
    monkeypatch.setattr("tapml.compilers.native.attention.MOST_ROWS", 0)


def tiled(suite: Suite) -> int:
    return sum("  let p_0 = score_part[" in text for text in texts_of(suite))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("rows", [32, 64])
def test_many_rows_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """64, as of rows that see all keys."""
    monkeypatch.setattr("tapml.compilers.native.attending_tiles._FEW_ROWS", rows)
    suite = carved(SOME, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert tiled(suite) == len(SOME)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("most", [2, 16])
def test_keys_that_workgroups_share_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(f"{_TILES}._FILLED", 1000)
    monkeypatch.setattr(f"{_TILES}._NEARLY", 4)
    monkeypatch.setattr(f"{_TILES}._MOST_SPLITS", most)
    suite = carved(SHARED, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert tiled(suite) == len(SHARED)
    assert sum("share the keys of a row" in text for text in texts_of(suite)) == len(SHARED)


def test_where_there_are_few_workgroups_or_rows_a_workgroup_has_fewer(tmp_path: Path) -> None:
    few: dict[str, Case] = {"few": case(64, 8, 8, 16, heads=124), "rows": case(33, 8, 8, 16, heads=250)}
    assert tiled(carved({**few, "enough": case(64, 8, 8, 16, heads=125)}, tmp_path)) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("rows", [32, 64])
def test_many_rows_of_every_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr("tapml.compilers.native.attending_tiles._FEW_ROWS", rows)
    suite = carved(EDGES, tmp_path)
    assert wrong(suite, "deno") == {}
    assert tiled(suite) >= len(EDGES) - 1, "values of five elements leave no memory with 32 rows"


@pytest.mark.slow
@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("rows", [32, 64])
def test_many_rows_of_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr("tapml.compilers.native.attending_tiles._FEW_ROWS", rows)
    suite = carved(SOME, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    assert tiled(suite) == len(SOME)


@pytest.mark.usefixtures("filled")
def test_any_number_of_rows(tmp_path: Path) -> None:
    cases: dict[str, Case] = {"a prompt": attending(0.2, 0), "a window": attending(0.2, 7)}
    shapes = [(2, "n", 32), (2, "n", 32), (2, "n", 32)]
    suite = carved({name: (made, shapes) for name, made in cases.items()}, tmp_path, n=71)
    assert wrong(suite, "node-dawn") == {}
    assert tiled(suite) == len(cases)
