"""What convolutional, recurrent and diffusion models are built of, written out by hand, tiny."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """ResNet's: three convolutions with batch norms, and a strided shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.one = nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4)
        self.second, self.two = nn.Conv2d(4, 4, 3, 2, 1, groups=2, bias=False), nn.BatchNorm2d(4)
        self.third, self.three = nn.Conv2d(4, 16, 1, bias=False), nn.BatchNorm2d(16)
        self.shortcut = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.two(self.second(functional.relu(self.one(self.first(x))))))
        return functional.relu(self.three(self.third(y)) + self.shortcut(x))


class InvertedResidual(nn.Module):
    """MobileNetV3's and EfficientNet's: expand, depthwise, squeeze and excite, project."""

    def __init__(self, gate: Callable[[Tensor], Tensor], activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16))
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 5, 1, 2, groups=16), nn.BatchNorm2d(16))
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.project = nn.Sequential(nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8))
        self.gate, self.activation = gate, activation

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.depthwise(self.activation(self.expand(x))))
        scale = self.excite(functional.relu(self.squeeze(functional.adaptive_avg_pool2d(y, 1))))
        return x + self.project(y * self.gate(scale))


class Inception(nn.Module):
    """Branches side by side, one of them pooled, with local response normalisation's kin."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.five = (
            nn.Conv2d(8, 4, 1),
            nn.Sequential(nn.Conv2d(8, 4, 1), nn.Conv2d(4, 4, (1, 5), padding=(0, 2))),
        )
        self.pooled = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        averaged = functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        largest = functional.max_pool2d(x, 3, 2, ceil_mode=True)
        y = torch.cat([self.one(x), self.five(x), self.pooled(averaged)], 1)
        return functional.leaky_relu(functional.max_pool2d(y, 3, 2, ceil_mode=True), 0.1) + largest.mean()


class Unet(nn.Module):
    """Down and up again, with skips, by every way to go up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(4, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)])
        self.up = nn.ConvTranspose2d(8, 8, 4, 2, 1)
        self.merge, self.last = nn.Conv2d(16, 16, 3, padding="same"), nn.Conv2d(4, 4, 3, 1, 1, padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        high = functional.silu(self.down[0](x))
        low = functional.elu(self.down[1](high))
        y = self.merge(torch.cat([self.up(low), high], 1))
        y = functional.pixel_shuffle(y, 2) + functional.interpolate(x, scale_factor=1.0, mode="nearest")
        return self.last(y) + functional.interpolate(low[:, :4], size=(16, 16), mode="bilinear", align_corners=False)


class Detector(nn.Module):
    """YOLO's neck and head: pyramid pooling, upsampling, boxes from distributions over distances."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce, self.head = nn.Conv2d(8, 4, 1), nn.Conv2d(16, 4 * 8 + 3, 1)
        self.register_buffer("places", torch.arange(8.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.reduce(x)
        pools = [y]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        found = self.head(functional.interpolate(torch.cat(pools, 1), scale_factor=2.0, mode="nearest"))
        distances, classes = found.flatten(2).split((32, 3), 1)
        distances = distances.unflatten(1, (4, 8)).softmax(2).mul(self.places[None, None, :, None]).sum(2)
        rows = torch.arange(16, dtype=torch.float32) + 0.5
        anchors = torch.stack(torch.meshgrid(rows, rows, indexing="xy"), 0).flatten(1)
        low, high = distances.chunk(2, 1)
        return torch.cat([anchors - low, anchors + high], 1) * 8, classes.sigmoid().topk(5, -1).values


class Diffusion(nn.Module):
    """A step of a diffusion UNet: sinusoidal time, group norms, self- and cross-attention, gated units."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 8))
        self.norm, self.conv, self.out = nn.GroupNorm(4, 8), nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(8, 8, 1)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.cross = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
        self.layer, self.gate, self.back = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(16, 8)

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        frequencies = torch.exp(-torch.arange(8) * 9.2 / 8)
        angles = step[:, None].float() * frequencies
        y = x + self.time(torch.cat([angles.sin(), angles.cos()], -1))[:, :, None, None]
        y = self.conv(functional.silu(self.norm(y)))
        tokens = self.layer(y.flatten(2).transpose(1, 2))
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        tokens = tokens + self.cross(tokens, text, text, need_weights=False)[0]
        value, gate = self.gate(tokens).chunk(2, -1)
        tokens = tokens + self.back(value * functional.gelu(gate))
        return x + self.out(tokens.transpose(1, 2).unflatten(2, x.shape[2:]))


class Recogniser(nn.Module):
    """A line of text: convolutions, a bidirectional LSTM over columns, log probabilities for CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, (4, 2), 1), nn.InstanceNorm2d(8, affine=True), nn.PReLU(8))
        self.columns = nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.letters = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.features(x).permute(0, 3, 1, 2).flatten(2)
        return functional.log_softmax(self.letters(self.columns(y)[0]), -1)


class Waves(nn.Module):
    """Sound: weight-normed dilated convolutions with gates, a GRU, and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 8, 7, padding=3))
        self.dilated = nn.ModuleList([nn.Conv1d(8, 16, 3, padding=2**n, dilation=2**n) for n in range(3)])
        self.memory, self.up = nn.GRU(8, 8), nn.ConvTranspose1d(8, 2, 4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        for layer in self.dilated:
            value, gate = layer(y).chunk(2, 1)
            y = y + value.tanh() * gate.sigmoid()
        y = self.memory(y.permute(2, 0, 1)[::4])[0].permute(1, 2, 0)
        return functional.glu(self.up(functional.softplus(y)), 1)


class Windows(nn.Module):
    """Swin's shifted windows with a table of relative positions."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.table = nn.Linear(8, 24), nn.Parameter(torch.randn(49, 2))
        rows = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (rows[:, :, None] - rows[:, None, :] + 3).permute(1, 2, 0)
        self.register_buffer("index", apart[..., 0] * 7 + apart[..., 1])

    def forward(self, x: Tensor) -> Tensor:
        y = (
            x.roll((-2, -2), (1, 2))
            .unflatten(1, (2, 4))
            .unflatten(3, (2, 4))
            .transpose(2, 3)
            .flatten(0, 2)
            .flatten(1, 2)
        )
        q, k, v = self.qkv(y).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(16, 16, -1).permute(2, 0, 1)
        scores = (q * 0.5) @ k.transpose(-2, -1) + bias
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Cache(nn.Module):
    """One step of decoding: rotary positions, a cache that is written in place, grouped heads, the last logits."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.key, self.query = nn.Embedding(20, 8), nn.Linear(8, 4), nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 6, 4))

    def forward(self, ids: Tensor, place: Tensor) -> Tensor:
        x = self.table(ids)
        self.keys.index_copy_(1, place, self._rotated(self.key(x), place))
        query = self.query(x).unflatten(-1, (2, 4)).transpose(1, 2)
        seen = torch.arange(6)[None] <= place[:, None]
        scores = (query @ self.keys[:, None].expand(-1, 2, -1, -1).transpose(-1, -2)).masked_fill(~seen, float("-inf"))
        found = (scores.softmax(-1) @ self.keys[:, None]).transpose(1, 2).flatten(2)
        return (found @ self.table.weight.T)[:, [-1], :]

    def _rotated(self, x: Tensor, place: Tensor) -> Tensor:
        angle = place[None, :, None] * torch.tensor([1.0, 0.01])
        even, odd = x[..., ::2], x[..., 1::2]
        turned = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
        return torch.stack(turned, -1).flatten(-2)


class Spectrogram(nn.Module):
    """Speech as a recogniser takes it: a short-time Fourier transform, its power, bands, logarithms; and back."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.bands = nn.Linear(9, 5, bias=False)
        self.mask = nn.Conv1d(9, 9, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        power = found.abs().square()
        heard = torch.istft(found * self.mask(power).sigmoid(), 16, 4, window=self.window)
        return self.bands(power.transpose(1, 2)).abs().clamp(min=1e-5).log(), heard


class Turned(nn.Module):
    """Rotary positions as products of complex numbers, as Llama was published with."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(16.0), 0.1 ** torch.arange(4.0))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.unflatten(-1, (4, 2)))
        return torch.view_as_real(pairs * self.turns[None, : x.shape[1], None]).flatten(3)


class StateSpace(nn.Module):
    """S4D: a long convolution, whose kernel is a sum of complex exponentials, by Fourier transforms."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.parts = nn.Parameter(torch.rand(4) - 2), nn.Parameter(torch.randn(4, 3, 2))
        self.decay, self.turn = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[-1]
        rates = torch.complex(-self.decay.exp(), self.turn)
        moved = rates * self.step.exp()[:, None]
        weights = torch.view_as_complex(self.parts) * (moved.exp() - 1) / rates
        kernel = 2 * (weights[..., None] * (moved[..., None] * torch.arange(length)).exp()).sum(1).real
        spectra = torch.fft.rfft(x, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
        return torch.fft.irfft(spectra, n=2 * length)[..., :length]


class Warped(nn.Module):
    """Optical flow: an image moved by a field, at places between its elements, and made small without aliases."""

    def forward(self, x: Tensor, flow: Tensor) -> Tensor:
        rows = torch.linspace(-1, 1, 8)
        grid = torch.stack(torch.meshgrid(rows, rows, indexing="xy"), -1)[None] + flow
        y = functional.grid_sample(x, grid, padding_mode="border", align_corners=True)
        small = functional.interpolate(y, size=(5, 3), mode="bilinear", antialias=True)
        return small + functional.adaptive_avg_pool2d(y, (5, 3))


BLOCKS: Mapping[str, Callable[[], tuple[nn.Module, dict[str, Tensor]]]] = {
    "resnet": lambda: (Bottleneck(), {"x": torch.randn(2, 8, 9, 9)}),
    "mobilenetv3": lambda: (
        InvertedResidual(functional.hardsigmoid, functional.hardswish),
        {"x": torch.randn(1, 8, 10, 10)},
    ),
    "efficientnet": lambda: (InvertedResidual(torch.sigmoid, functional.silu), {"x": torch.randn(1, 8, 10, 10)}),
    "inception": lambda: (Inception(), {"x": torch.randn(1, 8, 10, 10)}),
    "unet": lambda: (Unet(), {"x": torch.randn(1, 4, 16, 16)}),
    "yolo": lambda: (Detector(), {"x": torch.randn(1, 8, 8, 8)}),
    "diffusion": lambda: (
        Diffusion(),
        {"x": torch.randn(1, 8, 4, 4), "step": torch.tensor([250]), "text": torch.randn(1, 5, 6)},
    ),
    "crnn": lambda: (Recogniser(), {"x": torch.randn(1, 1, 8, 12)}),
    "wavenet": lambda: (Waves(), {"x": torch.randn(1, 1, 32)}),
    "shifted windows": lambda: (Windows(), {"x": torch.randn(1, 8, 8, 8)}),
    "spectrogram": lambda: (Spectrogram(), {"x": torch.randn(1, 64)}),
    "complex rotary": lambda: (Turned(), {"x": torch.randn(2, 5, 2, 8)}),
    "state space": lambda: (StateSpace(), {"x": torch.randn(2, 4, 8)}),
    "optical flow": lambda: (Warped(), {"x": torch.randn(1, 3, 8, 8), "flow": torch.randn(1, 8, 8, 2) / 4}),
    "decoder step": lambda: (Cache(), {"ids": torch.tensor([[3, 7]]), "place": torch.tensor([2, 3])}),
}
