"""Small networks of different architectures, trained for a moment so that what flows through them is no noise.

Positions are learned, not rotary, for WGSL promises nothing of sin and cos beyond pi; masks are finite, for it promises
nothing of infinities.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

VOCABULARY = 128
MASKED = -1e4


class Attention(nn.Module):
    """Causal attention over a cache of keys and values and the new tokens; gives the longer cache, too."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        total = key.shape[2]
        mask = torch.triu(torch.full((length, total), MASKED), total - length + 1)
        scores = torch.softmax(query @ key.transpose(2, 3) * (width // self.heads) ** -0.5 + mask, -1)
        mixed = (scores @ value).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed), key, value


class FeedForward(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))


class Experts(nn.Module):
    """A mixture of SiLU-gated experts: each token goes to the two that the router likes best."""

    def __init__(self, width: int, experts: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 4 * width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) * (2 * width) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        weights, experts = torch.topk(torch.softmax(self.router(tokens), -1), self.chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        gates = (experts[:, :, None] == torch.arange(self.router.out_features)).to(x.dtype)
        shares = (weights[:, :, None] * gates).sum(1)
        gate, value = torch.matmul(tokens[None], self.up).chunk(2, -1)
        found = torch.matmul(functional.silu(gate) * value, self.down)
        return (shares.T[:, :, None] * found).sum(0).view(x.shape)


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Decoder(nn.Module):
    """Like GPT-2: layer norm, learned positions, and a cache [layers, 2, 1, heads, tokens, depth] in and out."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(64, width)
        self.attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.feed = nn.ModuleList(self.block(width) for _ in range(layers))
        self.norms = nn.ModuleList(self.norm(width) for _ in range(2 * layers + 1))

    def block(self, width: int) -> nn.Module:
        return FeedForward(width)

    def norm(self, width: int) -> nn.Module:
        return nn.LayerNorm(width)

    def start(self, ids: Tensor, first: int) -> Tensor:
        where = torch.arange(first, first + ids.shape[1], dtype=torch.int32)
        return cast(Tensor, self.tokens(ids) + self.positions(where))

    def forward(self, ids: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x = self.start(ids, 0 if past is None else past.shape[4])
        cache = []
        for layer, (attention, feed) in enumerate(zip(self.attention, self.feed, strict=True)):
            known = None if past is None else (past[layer, 0], past[layer, 1])
            mixed, key, value = attention(self.norms[2 * layer](x), known)
            cache.append(torch.stack([key, value]))
            x = x + mixed
            x = x + feed(self.norms[2 * layer + 1](x))
        return self.norms[-1](x) @ self.tokens.weight.T, torch.stack(cache)


class Mixture(Decoder):
    """Like Mixtral: RMS norms, and experts for the feed-forward part; no cache."""

    def block(self, width: int) -> nn.Module:
        return Experts(width)

    def norm(self, width: int) -> nn.Module:
        return RmsNorm(width)

    def forward(self, ids: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        logits, _ = super().forward(ids, past)
        return logits, torch.softmax(logits[:, ids.shape[1] - 1], -1)


class TimeMix(nn.Module):
    """RWKV-4's: an exponentially decaying average of values, kept in a state that cannot overflow."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(3, width))
        self.decay = nn.Parameter(torch.linspace(-3, 1, width))
        self.bonus = nn.Parameter(torch.zeros(width))
        self.key, self.value, self.receptance, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, list[Tensor]]:
        """x [1, width], state [4, 1, width]: the last x, numerator, denominator, largest exponent."""
        last, numerator, denominator, largest = state[0], state[1], state[2], state[3]
        mixed = x * self.mix[:, None] + last * (1 - self.mix[:, None])
        key, value = self.key(mixed[0]), self.value(mixed[1])
        gate = torch.sigmoid(self.receptance(mixed[2]))
        top = torch.maximum(largest, key + self.bonus)
        old, new = torch.exp(largest - top), torch.exp(key + self.bonus - top)
        found = (old * numerator + new * value) / (old * denominator + new)
        faded = largest - torch.exp(self.decay)
        top = torch.maximum(faded, key)
        old, new = torch.exp(faded - top), torch.exp(key - top)
        kept = [x, old * numerator + new * value, old * denominator + new, top]
        return self.out(gate * found), kept


class ChannelMix(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(2, width))
        self.key = nn.Linear(width, 4 * width, bias=False)
        self.value = nn.Linear(4 * width, width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, last: Tensor) -> Tensor:
        mixed = x * self.mix[:, None] + last * (1 - self.mix[:, None])
        squared = torch.relu(self.key(mixed[0])) ** 2
        return cast(Tensor, torch.sigmoid(self.receptance(mixed[1])) * self.value(squared))


class Recurrent(nn.Module):
    """Like RWKV-4: one token, and a state [layers, 5, 1, width] in, and out layer by layer."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 2))
        self.time = nn.ModuleList(TimeMix(width) for _ in range(layers))
        self.channel = nn.ModuleList(ChannelMix(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def empty(self, batch: int) -> Tensor:
        state = torch.zeros(len(self.time), 5, batch, self.head.in_features)
        state[:, 3] = -30.0  # of no weight yet
        return state

    def forward(self, ids: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        x = self.norms[-1](self.tokens(ids))
        after = []
        for layer, (time, channel) in enumerate(zip(self.time, self.channel, strict=True)):
            mixed, kept = time(self.norms[2 * layer](x), state[layer, :4])
            x = x + mixed
            normed = self.norms[2 * layer + 1](x)
            x = x + channel(normed, state[layer, 4])
            after.append(torch.stack([*kept, normed]))
        return self.head(self.norms[-2](x)), *after


class Residual(nn.Module):
    """A convolution of each channel by itself, then one across channels: software rendering compiles a full 3x3 one for
    seconds."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, inside, 3, stride, 1, groups=inside, bias=False),
            nn.BatchNorm2d(inside),
            nn.ReLU(),
            nn.Conv2d(inside, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        plain = stride == 1 and inside == outside
        self.way = nn.Identity() if plain else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.way(x))

    def fold(self) -> None:
        """Batch norms into the convolutions before them, as one does for inference."""
        parts = list(self.body.eval())
        first, second = fuse_conv_bn_eval(parts[0], parts[1]), fuse_conv_bn_eval(parts[3], parts[4])
        self.body = nn.Sequential(first, nn.ReLU(), second)


class Convolutional(nn.Module):
    """Like MobileNet: images [n, 1, 16, 16] to four classes; `blocks` of two convolutions each."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        half = blocks // 2
        widths = [8] * half + [16] * (blocks - half)
        befores = [8, *widths[:-1]]
        self.blocks = nn.Sequential(*(Residual(a, b, 1 if a == b else 2) for a, b in zip(befores, widths, strict=True)))
        self.head = nn.Linear(16, 4)

    def fold(self) -> None:
        """All batch norms but the first, which stays an operation of its own."""
        for block in self.blocks:
            cast(Residual, block).fold()

    def forward(self, image: Tensor) -> Tensor:
        return torch.softmax(self.head(self.blocks(self.stem(image)).mean((2, 3))), -1)


class Quantised(nn.Module):
    """A linear layer with weights of four bits: eight to an int32, a scale and a zero point for each group of 32."""

    GROUP = 32

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        groups = linear.weight.detach().view(linear.out_features, -1, self.GROUP)
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scale = (high - low) / 15
        zero = torch.round(-low / scale).clamp(0, 15)
        codes = (torch.round(groups / scale) + zero).clamp(0, 15).to(torch.int64)
        shifted = codes.view(linear.out_features, -1, 8) << (4 * torch.arange(8))
        words = shifted.sum(-1)
        self.register_buffer("words", torch.where(words >= 2**31, words - 2**32, words).to(torch.int32))
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero.to(torch.int32))
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        words, zero, scale = (cast(Tensor, getattr(self, name)) for name in ("words", "zero", "scale"))
        # TVM's importer knows no shifts; a floor division by a power of two becomes one.
        codes = torch.stack([(words // 16**place) & 15 for place in range(8)], -1).view(len(words), -1, self.GROUP)
        weight = ((codes - zero).to(torch.float32) * scale).view(len(words), -1)
        return x @ weight.T if self.bias is None else x @ weight.T + self.bias


def quantise(module: nn.Module) -> nn.Module:
    """Every linear layer of it with weights of four bits, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Quantised(child))
        else:
            quantise(child)
    return module
