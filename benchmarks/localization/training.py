"""A moment of training, so that weights and activations look like a model's: bytes of a text, and drawn shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

TEXT = Path(__file__).parents[2] / "LICENSE"
_STEPS = 60
_BATCH = 16
_LENGTH = 24


def text_ids() -> Tensor:
    """The bytes of a text that stays as it is."""
    return torch.from_numpy(np.frombuffer(TEXT.read_bytes(), np.uint8).astype(np.int64) & 127)


def _train(model: nn.Module, loss: Callable[[], Tensor]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    model.eval()


def _windows() -> Tensor:
    text = text_ids()
    starts = torch.randint(0, len(text) - _LENGTH - 1, (_BATCH,))
    return torch.stack([text[start : start + _LENGTH + 1] for start in starts])


def train_language(model: nn.Module) -> None:
    """`model(ids)` gives logits first."""

    def loss() -> Tensor:
        windows = _windows()
        logits = model(windows[:, :-1])[0]
        return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

    _train(model, loss)


def train_recurrent(model: nn.Module, empty: Callable[[int], Tensor]) -> None:
    """`model(ids, state)` gives the logits of one token, then the state layer by layer."""

    def loss() -> Tensor:
        windows, state = _windows(), empty(_BATCH)
        found = torch.zeros(())
        for place in range(_LENGTH):
            logits, *layers = model(windows[:, place], state)
            state = torch.stack(layers)
            found = found + functional.cross_entropy(logits, windows[:, place + 1])
        return found / _LENGTH

    _train(model, loss)


def shapes(count: int, size: int) -> tuple[Tensor, Tensor]:
    """Grey pictures of discs, squares, upright and level stripes, with some noise; and which of these they are."""
    across, down = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="xy")
    images, labels = [], torch.randint(0, 4, (count,))
    for label in labels.tolist():
        x, y = (torch.rand(2) * size / 2 + size / 4).tolist()
        radius = float(torch.rand(()) * size / 6 + size / 8)
        drawn = [
            (across - x) ** 2 + (down - y) ** 2 < radius**2,
            ((across - x).abs() < radius) & ((down - y).abs() < radius),
            (across + x) % radius < radius / 2,
            (down + y) % radius < radius / 2,
        ][label]
        images.append(drawn.float()[None] + 0.1 * torch.randn(1, size, size))
    return torch.stack(images), labels


def train_vision(model: nn.Module, size: int) -> None:
    """`model(images)` gives probabilities of the four shapes."""

    def loss() -> Tensor:
        images, labels = shapes(_BATCH, size)
        return functional.nll_loss(torch.log(model(images) + 1e-9), labels)

    _train(model, loss)
