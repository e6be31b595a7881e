"""Two models that recognise digits, trained here on real ones: a small one for devices, a larger one for the cloud."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

SIDE, LEVELS = 8, 16
"""Of an image: pixels a side, and the value of full ink."""

_TRAINED, _VALIDATED = 900, 300
"""Images that models are trained with, and that the threshold is chosen by; the others are held out."""
_HIDDEN, _CHANNELS = 12, 32


# The same numbers each time; and threads that wait for each other are slow where a machine is busy.
torch.set_num_threads(1)


@dataclass(frozen=True)
class Images:
    """`pixels`: (n, 64), float32 from 0 to 16. `labels`: (n,), the digits that people wrote."""

    pixels: np.ndarray
    labels: np.ndarray


def digits() -> tuple[Images, Images, Images]:
    """1,797 digits that people wrote (UCI's optical recognition of handwritten digits, which comes with scikit-learn):
    to train with, to choose by, to measure with."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    parts = np.split(order, [_TRAINED, _TRAINED + _VALIDATED])
    trained, validated, held_out = (Images(found.data[part].astype(np.float32), found.target[part]) for part in parts)
    return trained, validated, held_out


class Classifier(nn.Module):
    """Of pixels, (n, 64), the shares of the ten digits, (n, 10)."""

    def __init__(self, layers: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layers, self.shape = layers, shape

    def logits(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.layers((pixels / LEVELS).reshape(-1, *self.shape))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.logits(pixels), -1)


def small(trained: Images) -> Classifier:
    """One hidden layer: 910 parameters."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(SIDE**2, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 10))
    return _fitted(Classifier(layers, (SIDE**2,)), trained, epochs=60, rate=1e-2, moved=False)


def large(trained: Images) -> Classifier:
    """Three convolutions, trained with images that are moved by up to a pixel."""
    torch.manual_seed(0)
    wide = 2 * _CHANNELS
    layers = nn.Sequential(
        *_convolution(1, _CHANNELS), *_convolution(_CHANNELS, _CHANNELS), nn.MaxPool2d(2),
        *_convolution(_CHANNELS, wide), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(4 * wide, 10),
    )  # fmt: skip
    return _fitted(Classifier(layers, (1, SIDE, SIDE)), trained, epochs=40, rate=2e-3, moved=True)


def _convolution(given: int, made: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(given, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU()


def _fitted(model: Classifier, trained: Images, *, epochs: int, rate: float, moved: bool) -> Classifier:
    pixels, labels = torch.from_numpy(trained.pixels), torch.from_numpy(trained.labels)
    random = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels), generator=random).split(64):
            given = _moved(pixels[batch], random) if moved else pixels[batch]
            loss = nn.functional.cross_entropy(model.logits(given), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def _moved(pixels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """By -1, 0 or 1 pixels each way; what comes in is empty."""
    down, right = (int(steps) for steps in torch.randint(0, 3, (2,), generator=random))
    around = nn.functional.pad(pixels.reshape(-1, SIDE, SIDE), (1, 1, 1, 1))
    return around[:, down : down + SIDE, right : right + SIDE].reshape(-1, SIDE**2)


def shares(model: Classifier, pixels: np.ndarray) -> np.ndarray:
    """(n, 10), float32, by PyTorch on the CPU."""
    with torch.no_grad():
        return model(torch.from_numpy(pixels)).numpy()


def multiplications(model: Classifier) -> int:
    """Of one image."""
    count = 0

    def add(layer: nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal count
        count += output.numel() * layer.weight[0].numel()  # type: ignore[operator]

    hooks = [layer.register_forward_hook(add) for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    shares(model, np.zeros((1, SIDE**2), np.float32))
    for hook in hooks:
        hook.remove()
    return count


def save(model: Classifier, path: Path, example: np.ndarray) -> None:
    """As `tapml build` reads it: a torch.export program, of one image at a time."""
    torch.export.save(torch.export.export(model, (torch.from_numpy(example),)), path)
