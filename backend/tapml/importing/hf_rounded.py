"""Products of a model of transformers whose activations are rounded to 8 bits (activations.py)."""

from __future__ import annotations

from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from tapml.importing.model import Replace
from tapml.importing.torch_rounded import int8_rounded


def round_activations(model: Any, replaced: Replace) -> None:
    """From now on the model's linear layers round what they are given, where their weights are ones of which `replaced`
    says so. To be asked before weights are replaced."""

    def given(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        data, *others = inputs
        return (int8_rounded(data), *others)

    for module in model.modules():
        if isinstance(module, torch.nn.Linear | Conv1D) and replaced.rounds(module.weight.detach().numpy()):
            module.register_forward_pre_hook(given)
