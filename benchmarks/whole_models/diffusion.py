"""The first block of the UNet of Stable Diffusion 1.4: twice a residual block and a transformer over the image and a
text, then a convolution of stride two."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

_HEADS, _GROUPS = 8, 32


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(_GROUPS, channels) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        silu = nn.functional.silu
        hidden = self.convolutions[0](silu(self.norms[0](x))) + self.time(silu(time))[:, :, None, None]
        found: Tensor = x + self.convolutions[1](silu(self.norms[1](hidden)))
        return found


class _Attention(nn.Module):
    def __init__(self, channels: int, words: int) -> None:
        super().__init__()
        self.query = nn.Linear(channels, channels, bias=False)
        self.key, self.value = (nn.Linear(words, channels, bias=False) for _ in range(2))
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        def heads(found: Tensor) -> Tensor:
            return found.reshape(*found.shape[:2], _HEADS, -1).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(words)), heads(self.value(words))
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        found: Tensor = self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))
        return found


class _Transformer(nn.Module):
    def __init__(self, channels: int, words: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, channels)
        self.into, self.out = (nn.Conv2d(channels, channels, 1) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.itself, self.text = _Attention(channels, channels), _Attention(channels, words)
        self.wide, self.narrow = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        image = self.into(self.norm(x))
        points = image.flatten(2).transpose(1, 2)
        normal = self.norms[0](points)
        points = points + self.itself(normal, normal)
        points = points + self.text(self.norms[1](points), text)
        value, gate = self.wide(self.norms[2](points)).chunk(2, -1)
        points = points + self.narrow(value * nn.functional.gelu(gate))
        found: Tensor = x + self.out(points.transpose(1, 2).reshape(image.shape))
        return found


class DownBlock(nn.Module):
    """(x [1, channels, side, side], time [1, 4 * channels], text [1, words, width]) -> [1, channels, side / 2, side /
    2]."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.residuals = nn.ModuleList(_Residual(channels) for _ in range(2))
        self.transformers = nn.ModuleList(_Transformer(channels, width) for _ in range(2))
        self.down = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Any:
        for residual, transformer in zip(self.residuals, self.transformers, strict=True):
            x = transformer(residual(x, time), text)
        return self.down(x)
