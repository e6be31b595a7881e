"""The kernel that chooses the most likely token: of ties the first, of what is no number that it is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tapml as tml
from tapml.compilers.cache.most_likely import BLOCK, LANES
from tapml.compilers.choose import compile_operators
from tapml.importing.kernel_calls import call
from tapml.importing.most_likely import most_likely
from tapml.lowering.by_hand import by_hand
from tapml.lowering.lower import lower

INFINITY, NAN = float("inf"), float("nan")
WORDS = {"a few": 5, "as many as lanes": LANES, "a block": BLOCK, "a block and one": BLOCK + 1, "many": 3 * BLOCK - 77}


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    found = tml.webgpu("node-dawn")
    yield found
    found.close()


def choosing(rows: int, words: int) -> Any:
    """A module whose main is one call of the operator."""
    builder = relax.BlockBuilder()
    given = relax.Var("logits", relax.TensorType((rows, words), "float32"))
    with builder.function("main", [given]):
        with builder.dataflow():
            attributes = by_hand("most_likely")
            made = call(builder, most_likely, [given], name="most_likely", alone=True, attributes=attributes)
            out = builder.emit_output(made)
        builder.emit_func_output(out)
    return builder.finalize()


def rows_of(words: int) -> np.ndarray:
    """Of all kinds, float32 [rows, words]."""
    random = np.random.default_rng(words)
    plain = random.normal(size=(6, words)).astype(np.float32)
    plain[1] = -np.abs(plain[1]) - 1
    plain[2, [words // 2, words - 1]] = 9  # a tie: the first
    plain[3] = np.where(np.arange(words) % 2, 0.0, -0.0)  # equal, whatever their bits
    plain[4] = -np.float32(1e-41)  # smaller than a device's arithmetic may keep
    plain[4, words - 2] = np.float32(1e-41)
    plain[5] = 7
    special = []
    for places in ({0: NAN}, {words - 1: NAN, words // 2: INFINITY}, {words - 1: INFINITY}, {words // 2: -NAN}):
        row = plain[0].copy()
        for place, value in places.items():
            row[place] = value
        special.append(row)
    lowest = np.full(words, -INFINITY, np.float32)
    nearly = lowest.copy()
    nearly[words - 1] = -3e38
    return np.stack([*plain, *special, lowest, nearly]).astype(np.float32)


def expected(row: np.ndarray) -> int:
    best = int(np.argmax(row))  # of equal ones the first; of NaN the first
    return best if np.isfinite(row[best]) else -1 - best


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_ties_and_what_is_no_number(words: int, device: Any) -> None:
    rows = rows_of(words)
    wanted = [expected(row) for row in rows]
    assert min(wanted) < 0 <= max(wanted)
    module = choosing(len(rows), words)
    for target in (tml.cpu(), device):
        with tml.upload(tml.compile(module, target=target), target) as library:
            got = tml.allocate((len(rows),), "int32", target)
            library["main"](tml.tensor(rows, target), got)
            assert got.numpy().tolist() == wanted, target


@pytest.mark.torch
def test_its_meaning_is_that_of_pytorch() -> None:
    import torch

    from tapml.importing.hf_choice import most_likely as by_torch

    for words in (5, 300):
        rows = rows_of(words)
        assert by_torch(torch.from_numpy(rows)).tolist() == [expected(row) for row in rows]


@pytest.mark.parametrize(("words", "grids"), [(BLOCK, [[1, 3, 1]]), (BLOCK + 1, [[2, 3, 1], [1, 3, 1]])])
def test_a_large_vocabulary_is_looked_through_by_blocks(words: int, grids: list[list[int]]) -> None:
    (operator,) = lower(choosing(3, words), 4).operators
    (variant,) = compile_operators([operator], ("256",))[operator.name].document["variants"]
    assert [launch["grid"] for launch in variant["launches"]] == grids
