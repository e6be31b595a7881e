"""Attention of PyTorch programs: its softmax, and on devices as one kernel where a workgroup has many rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from compilers.test_native_products import failing, texts_of, wrong
from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.importing import ImportedModel, import_model
from tapml.suite import Suite

HEADS, PLACES, SIZE = 64, 100, 12
"""For which workgroups take 32 rows."""


class Attending(nn.Module):
    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)


def imported(folder: Path, model: nn.Module, *given: Tensor) -> ImportedModel:
    program = torch.export.export(model.eval(), given)
    torch.export.save(program, folder / "model.pt2")
    names = program.graph_signature.user_inputs
    np.savez(folder / "x.npz", **{str(name): array.numpy() for name, array in zip(names, given, strict=True)})
    return import_model(str(folder / "model.pt2"), input_files=[folder / "x.npz"])


def heads(*sizes: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(3)
    return [torch.randn(*sizes, generator=random) for _ in range(3)]


def seen(batches: int, places: int) -> Tensor:
    """Where some rows see nothing, and others little."""
    found = torch.rand(batches, 1, places, places, generator=torch.Generator().manual_seed(4)) > 0.3
    found[0, 0, 3] = False
    found[-1, 0, 5:7] = False
    found[-1, 0, :, 9:] = False
    return found


def as_one(suite: Suite) -> bool:
    return any("Attention: each workgroup computes 32 rows" in text for text in texts_of(suite))


@pytest.mark.parametrize("kind", ["bool", "float", "half"])
@pytest.mark.parametrize("compiler", ["tvm", "native"])
def test_rows_that_see_nothing_are_zeros(tmp_path: Path, kind: str, compiler: str) -> None:
    """In one kernel with the rest of the softmax, whoever writes it."""
    mask = seen(2, 20)
    given: Sequence[Tensor] = heads(2, 3, 20, 8)
    if kind == "half":
        given = [tensor.half() for tensor in given]
    lowest = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf).to(given[0].dtype)
    model = imported(tmp_path, Attending(), *given, mask if kind == "bool" else lowest)
    suite = carve(model, tmp_path / "a.suite", name="a", compilers=CHOICES[compiler])
    assert sum("softmax" in name for name in suite.kernels) == 1
    assert not any("logical_not" in name for name in suite.kernels)
    assert failing(suite, "deno" if kind == "half" else "node-dawn") == {}
    (expected,) = model.steps[0].expected or []
    assert not np.asarray(expected)[0, :, 3].any()


@pytest.mark.parametrize("mask", ["none", "bool", "float", "causal"])
def test_many_rows_on_a_device(tmp_path: Path, mask: str) -> None:
    found = seen(2, PLACES)
    given = heads(2, HEADS, PLACES, SIZE)
    given += [found] if mask == "bool" else []
    given += [torch.zeros(found.shape).masked_fill(~found, -torch.inf)] if mask == "float" else []
    model = imported(tmp_path, Attending(mask == "causal"), *given)
    suite = carve(model, tmp_path / "a.suite", name="a", compilers=CHOICES["native"])
    assert as_one(suite)
    assert wrong(suite, "node-dawn") == {}


class Eager(nn.Module):
    """As transformers has it, with a softmax of its own, a soft cap, and the lowest number for what is not seen."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = torch.tanh(q @ k.transpose(-1, -2) * SIZE**-0.5 / 30) * 30 + mask
        return scores.softmax(-1) @ v


def test_masks_of_the_lowest_number(tmp_path: Path) -> None:
    hidden = torch.triu(torch.full((PLACES, PLACES), torch.finfo(torch.float32).min), 1)
    model = imported(tmp_path, Eager(), *heads(2, HEADS, PLACES, SIZE), hidden)
    suite = carve(model, tmp_path / "a.suite", name="a", compilers=CHOICES["native"])
    assert as_one(suite)
    assert wrong(suite, "node-dawn") == {}


def test_neither_many_rows_nor_little_to_do(tmp_path: Path) -> None:
    model = imported(tmp_path, Attending(), *heads(1, 16, 100, SIZE))
    suite = carve(model, tmp_path / "a.suite", name="a", compilers=CHOICES["native"])
    assert [name for name in suite.kernels if "softmax" in name] == ["safe_softmax"]
    assert not as_one(suite)
