"""A network of layers that the other architectures have not: only explanations are tested on it (explanations.py)."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class Layers(nn.Module):
    """Pictures [1, 3, 16, 16] and ids [1, 8] to [1, 8, 24] and a picture: strided, dilated and transposed convolutions,
    group and instance norms, average pooling, an LSTM, a GRU, attention over a causal mask with rotated pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 5, 2, 2)
        self.dilated = nn.Conv2d(12, 12, 3, padding=2, dilation=2, groups=3)
        self.groups = nn.GroupNorm(4, 12)
        self.instances = nn.InstanceNorm2d(12, affine=True)
        self.up = nn.ConvTranspose2d(12, 3, 4, 2, 1)
        self.tokens = nn.Embedding(40, 24)
        self.lstm = nn.LSTMCell(24, 20)
        self.gru = nn.GRUCell(20, 24)
        self.query, self.key, self.value = (nn.Linear(24, 24) for _ in range(3))
        self.norm = nn.LayerNorm(24)
        self.gate = nn.Linear(24, 48)

    def forward(self, picture: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.silu(self.groups(self.stem(picture)))
        x = functional.hardswish(self.instances(self.dilated(x))) + x
        seen = functional.avg_pool2d(x, 3, 2, 1).flatten(2).mean(2)
        picture = torch.tanh(self.up(x))
        tokens = self.tokens(ids) + functional.pad(seen, (0, 12))[:, None]
        hidden, cell, state = (torch.zeros(1, size) for size in (20, 20, 24))
        steps = []
        for place in range(ids.shape[1]):
            hidden, cell = self.lstm(tokens[:, place], (hidden, cell))
            state = self.gru(hidden, state)
            steps.append(state)
        mixed = tokens + self.attention(torch.stack(steps, 1))
        left, right = self.gate(self.norm(mixed)).chunk(2, -1)
        return mixed + functional.elu(left) * torch.sigmoid(right), picture

    def attention(self, x: Tensor) -> Tensor:
        length, width = x.shape[1:]
        angle = torch.arange(length)[:, None] * torch.exp(torch.arange(width // 2) * (-math.log(8.0) / (width // 2)))
        cosine, sine = torch.cos(angle / 4), torch.sin(angle / 4)

        def rotated(y: Tensor) -> Tensor:
            a, b = y[..., : width // 2], y[..., width // 2 :]
            return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)

        query, key = rotated(self.query(x)), rotated(self.key(x))
        mask = torch.triu(torch.full((length, length), -1e4), 1)
        scores = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(width) + mask, -1)
        return cast(Tensor, scores @ self.value(x))


def inputs() -> tuple[Tensor, ...]:
    """For the module above, drawn from torch's generator."""
    return torch.randn(1, 3, 16, 16), torch.randint(0, 40, (1, 8), dtype=torch.int32)
