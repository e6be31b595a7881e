"""Rotary embeddings whose frequencies change when a sequence outgrows what the model was made for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_GROWING, _FIXED = "dynamic", "default"
"""Their kinds, as transformers calls them; `longrope` chooses by a tensor, which can be exported."""


@contextlib.contextmanager
def fixed_frequencies(model: torch.nn.Module, capacity: int) -> Iterator[None]:
    """While the block runs, modules whose frequencies do not change before `capacity` tokens do not look whether they
    should: a branch on positions cannot be exported. Others are as they were."""
    changed = [
        (module, found)
        for module in model.modules()
        if (found := getattr(module, "rope_type", None)) and capacity <= getattr(module, "original_max_seq_len", 0)
    ]
    for module, found in changed:
        module.rope_type = _settled(found)
    try:
        yield
    finally:
        for module, found in changed:
            module.rope_type = found


def _settled(kind: Any) -> Any:
    """Of all layers, or by the type of layers."""
    if isinstance(kind, Mapping):
        return {name: _settled(found) for name, found in kind.items()}
    return _FIXED if isinstance(kind, str) and _GROWING in kind else kind
