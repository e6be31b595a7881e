"""Attention of `compilers/native` to few rows, as of a token: on devices, within the bounds that a carve derives."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilers.attention_programs import attending
from compilers.test_native_products import Case, carved, failing, texts_of, wrong
from tapml.compilers.choose import compilers_of
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

EIGHTS: dict[str, Case] = {
    "a token": case(1, 64, 300, 64),
    "grouped heads, of lengths that are no powers of two": case(3, 40, 97, 24, heads=3),
    "tokens, a window": case(4, 16, 160, 8, window=9),
}
"""In float16 these lie in whole vectors of eight."""
EDGES_OF_EIGHTS: dict[str, Case] = {
    **{f"{rows} rows": case(rows, 32, 97, 16) for rows in range(1, MOST_ROWS + 2)},
    **{f"{keys} keys": case(1, 16, keys, 16) for keys in (65, 127, 129, 255, 257, 1025, 4097)},
    **{f"of {inner}": case(1, inner, 150, 16) for inner in (8, 24, 64, 72, 120, 128, 136, 256)},
    **{f"values of {width}": case(1, 16, 150, width) for width in (8, 24, 40, 64, 136, 256)},
}
LITTLE: dict[str, Case] = {
    "two rows a workgroup": case(24, 32, 24, 32, heads=2),
    "an odd number of rows": case(13, 12, 13, 20),
}
"""Of more rows than few, but so few that workgroups have two."""


def test_few_rows_on_a_device(tmp_path: Path) -> None:
    assert wrong(carved(SOME, tmp_path), "node-dawn") == {}


@pytest.mark.slow
def test_few_rows_of_every_size(tmp_path: Path) -> None:
    assert wrong(carved(EDGES, tmp_path), "node-dawn") == {}


@pytest.mark.slow
def test_few_rows_of_halves(tmp_path: Path) -> None:
    assert wrong(carved({name: SOME[name] for name in list(SOME)[1:]}, tmp_path, "float16"), "deno") == {}


@pytest.mark.parametrize(
    "of", [pytest.param(EIGHTS, id="some"), pytest.param(EDGES_OF_EIGHTS, id="edges", marks=pytest.mark.slow)]
)
def test_few_rows_of_eight_halves_at_once(tmp_path: Path, of: dict[str, Case]) -> None:
    suite = carved(of, tmp_path, "float16")
    assert all(
        "right8(" in file.read_text() for file in suite.path.glob("kernels/*.wgsl") if "_merge" not in file.read_text()
    )
    assert wrong(suite, "deno") == {}


@pytest.mark.parametrize("inner", [256, 257, 300])
def test_little_to_do_with_keys_that_leave_no_memory_for_two_rows(tmp_path: Path, inner: int) -> None:
    """It is one kernel all the same."""
    suite = carved({"long keys": case(20, inner, 40, 12)}, tmp_path)
    (text,) = texts_of(suite)
    assert "Attention: each workgroup computes " in text
    assert "computes 2 rows" not in text
    assert wrong(suite, "node-dawn") == {}


@pytest.mark.parametrize(("dtype", "device"), [("float32", "node-dawn"), ("float16", "deno")])
def test_little_to_do(tmp_path: Path, dtype: str, device: str) -> None:
    suite = carved(LITTLE, tmp_path, dtype)
    assert all("computes 2 rows" in file.read_text() for file in suite.path.glob("kernels/*.wgsl"))
    assert wrong(suite, device) == {}


def test_a_gpu_has_one_dispatch_and_software_three(tmp_path: Path) -> None:
    """Of the variants that `auto` ships: barriers, which one dispatch has, are dear in software. All are right."""
    suite = carved(LITTLE, tmp_path, compilers=compilers_of("auto"))
    for name in suite.kernels:
        variants = suite.bundle(name)["variants"]
        of_kind = {kind: min(variants, key=lambda one: float(one["expected"][kind])) for kind in ("gpu", "software")}
        assert [len(one["launches"]) for one in of_kind.values()] == [1, 3]
    assert failing(suite, "node-dawn") == {}
