"""Products of a model of transformers whose activations are rounded to 8 bits (activations.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from tapml.importing.activations import LARGEST, LEAST
from tapml.importing.model import Replace

_ROUNDS = ContextVar("tapml_rounds", default=True)


@contextlib.contextmanager
def without_rounding() -> Iterator[None]:
    """Activations stay what they are meanwhile: two ways to compute a model differ by whole steps where they are
    rounded, and by a float32's last places where they are not."""
    before = _ROUNDS.set(False)
    try:
        yield
    finally:
        _ROUNDS.reset(before)


@torch.library.custom_op("tapml::int8_rounded", mutates_args=())  # type: ignore[untyped-decorator]  # torch has no types
def int8_rounded(data: torch.Tensor) -> torch.Tensor:
    """The numbers that 8-bit integers with a scale for each row of `data` [..., inner] stand for."""
    if not _ROUNDS.get():
        return data.clone()
    wide = data.float()
    greatest = wide.abs().amax(-1, keepdim=True).clamp_min(LEAST)
    integers = torch.floor(wide * (LARGEST / greatest) + 0.5)
    return (integers * (greatest / LARGEST)).to(data.dtype)


@int8_rounded.register_fake
def _(data):  # type: ignore[no-untyped-def]  # as above
    return torch.empty_like(data)


def round_activations(model: Any, replaced: Replace) -> None:
    """From now on the model's linear layers round what they are given, where their weights are ones of which `replaced`
    says so. To be asked before weights are replaced."""

    def given(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        data, *others = inputs
        return (int8_rounded(data), *others)

    for module in model.modules():
        if isinstance(module, torch.nn.Linear | Conv1D) and replaced.rounds(module.weight.detach().numpy()):
            module.register_forward_pre_hook(given)
