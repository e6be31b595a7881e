"""Attention of `compilers/native` to few rows, as of a token: on devices, within the bounds that a carve derives."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilers.attention_programs import attending
from compilers.test_native_products import Case, carved, wrong
from tapml.compilers.native.decoding import MOST_ROWS


def case(rows: int, inner: int, keys: int, width: int, heads: int = 1, window: int = 0) -> Case:
    """`rows` of two groups of heads: one token, or several tokens of one head each."""
    shapes = [(2 * heads, rows // heads, inner), (2, keys, inner), (2, keys, width)]
    return attending(inner**-0.5, window), shapes


SOME: dict[str, Case] = {
    "a token": case(1, 128, 300, 128),
    "a token of grouped heads, odd sizes": case(3, 17, 67, 33, heads=3),
    "as many rows as there may be": case(MOST_ROWS, 64, 65, 64),
    "a window": case(2, 8, 160, 4, window=9),
}

EDGES: dict[str, Case] = {
    **{f"{rows} rows": case(rows, 32, 97, 16) for rows in range(1, MOST_ROWS + 2)},
    **{f"{keys} keys": case(1, 16, keys, 16) for keys in (1, 2, 31, 63, 64, 65, 127, 129, 255, 257, 1025)},
    **{f"of {inner}": case(1, inner, 70, 12) for inner in (1, 2, 3, 4, 5, 15, 63, 64, 65, 129, 256, 257)},
    **{f"values of {width}": case(1, 16, 70, width) for width in (1, 2, 3, 5, 31, 64, 65, 130, 257)},
    **{f"{heads} heads of a group": case(heads, 24, 300, 20, heads=heads) for heads in (2, 5, 7)},
}


def test_few_rows_on_a_device(tmp_path: Path) -> None:
    assert wrong(carved(SOME, tmp_path), "node-dawn") == {}


@pytest.mark.slow
def test_few_rows_of_every_size(tmp_path: Path) -> None:
    assert wrong(carved(EDGES, tmp_path), "node-dawn") == {}


@pytest.mark.slow
def test_few_rows_of_halves(tmp_path: Path) -> None:
    assert wrong(carved({name: SOME[name] for name in list(SOME)[1:]}, tmp_path, "float16"), "deno") == {}
