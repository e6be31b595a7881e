"""Indexing and arithmetic of exported programs against PyTorch: random expressions, many to a program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapml.errors import InputError
from tapml.importing import import_model
from tapml.importing.torch_resize import _cubic, _linear
from tapml.lowering.lower import lower

pytestmark = pytest.mark.torch

Expression = Callable[..., Any]
"""Of x float32[4, 5, 6], i int64[3] and j int64[2, 3] in -4 to 3, k int64[4, 5, 2] in -4 to 3, b bool[4, 5, 6],
n int32[4, 5, 6]."""


def indices() -> dict[str, Expression]:
    import torch

    return {
        "list": lambda x, i, j, k, b, n: x[..., [-1], :],
        "list of several": lambda x, i, j, k, b, n: x[:, [-1, 0, -5], :],
        "two lists": lambda x, i, j, k, b, n: x[[-1, 0], :, [2, -6]],
        "lists side by side": lambda x, i, j, k, b, n: x[:, [-1, 0], [2, -6]],
        "lists that broadcast": lambda x, i, j, k, b, n: x[[[-1], [0]], [2, -5]],
        "a constant tensor": lambda x, i, j, k, b, n: torch.arange(7)[torch.tensor([-1, 3, -7])] + i.sum(),
        "data": lambda x, i, j, k, b, n: x[i],
        "data, inside": lambda x, i, j, k, b, n: x[:, j],
        "data, twice": lambda x, i, j, k, b, n: x[i, :, i],
        "data, thrice": lambda x, i, j, k, b, n: x[i, i, i],
        "data of several ranks": lambda x, i, j, k, b, n: x[j, i],
        "data behind a slice": lambda x, i, j, k, b, n: x[:, j, i],
        "data and a new axis": lambda x, i, j, k, b, n: x[None, i, ..., i],
        "an int32 index": lambda x, i, j, k, b, n: x[i.int()],
        "index_select": lambda x, i, j, k, b, n: torch.index_select(x, -1, i % 6),
        "gather": lambda x, i, j, k, b, n: torch.gather(x, 2, k % 4),
        "take_along_dim": lambda x, i, j, k, b, n: torch.take_along_dim(x, k % 4, 2),
        "take": lambda x, i, j, k, b, n: torch.take(x, j * 20),
        "embedding": lambda x, i, j, k, b, n: torch.nn.functional.embedding(j % 4, x[:, 0]),
        "select": lambda x, i, j, k, b, n: x.select(1, -5) + x[:, -1] + x.select(-2, 1),
        "slices": lambda x, i, j, k, b, n: x[-3:-1, 1:-1, ::2],
        "an empty slice": lambda x, i, j, k, b, n: x[:, 4:2],
        "put": lambda x, i, j, k, b, n: x.index_put((i,), torch.ones(6)),
        "put inside": lambda x, i, j, k, b, n: _put(x, (slice(None), i[:2]), x[:, :2] * 2),
        "put at pairs": lambda x, i, j, k, b, n: x.index_put((i, torch.tensor([0, 1, 2])), torch.zeros(3, 6)),
        "put in several axes": lambda x, i, j, k, b, n: torch.ops.aten.index_put(
            x, [torch.tensor([0, -1]), None, torch.tensor([-1, 2])], torch.arange(10.0).reshape(2, 5)
        ),
        "accumulated": lambda x, i, j, k, b, n: x.index_put((i,), x[:3], accumulate=True),
        "accumulated inside": lambda x, i, j, k, b, n: torch.ops.aten.index_put(
            x, [None, j], torch.ones(2, 3, 6), True
        ),
        "index_add": lambda x, i, j, k, b, n: x.index_add(1, i % 4, x[:, :3], alpha=2),
        "index_copy": lambda x, i, j, k, b, n: x.index_copy(2, torch.tensor([5, 0]), x[..., :2]),
        "index_fill": lambda x, i, j, k, b, n: x.index_fill(1, torch.tensor([-1, 0]), 7.0),
        "a mask": lambda x, i, j, k, b, n: x.masked_fill(b, -1.5) + x.masked_fill(x > 0, 2),
        "put at a mask": lambda x, i, j, k, b, n: _put(x, b, 3.0),
        "put at a mask of rows": lambda x, i, j, k, b, n: _put(x, b[..., 0], 3.0),
        "scatter": lambda x, i, j, k, b, n: x.scatter(2, k % 4, x[..., :2] * 3),
        "scatter a number": lambda x, i, j, k, b, n: x.scatter(1, torch.tensor([[[0, 4, 2]]]), 2.5),
        "scatter_add": lambda x, i, j, k, b, n: x.scatter_add(2, k % 4, x),
        "scatter_reduce": lambda x, i, j, k, b, n: x.scatter_reduce(2, k % 4, x, "amax"),
        "scatter products": lambda x, i, j, k, b, n: x.scatter_reduce(2, k % 4, x, "prod"),
        "select_scatter": lambda x, i, j, k, b, n: x.select_scatter(x[:, 0] * 2, 1, -1),
        "slice_scatter": lambda x, i, j, k, b, n: x.slice_scatter(x[:, 1:3] * 2, 1, -3, -1),
        "slice_scatter in steps": lambda x, i, j, k, b, n: x.slice_scatter(x[..., :3] * 2, 2, 0, 6, 2),
        "flip and roll": lambda x, i, j, k, b, n: x.flip(0, -1) + x.roll((1, -2), (0, 2)),
        "unbind and stack": lambda x, i, j, k, b, n: torch.stack(x.unbind(-2)[::-1], -1),
        "narrow": lambda x, i, j, k, b, n: x.narrow(2, -3, 2),
        "diagonal": lambda x, i, j, k, b, n: torch.diagonal(x, -1, 1, 2),
        "reflected": lambda x, i, j, k, b, n: torch.nn.functional.pad(x, (2, 1, 3, 4), "reflect"),
        "replicated": lambda x, i, j, k, b, n: torch.nn.functional.pad(x[None], (2, 1, 0, 3, 1, 0), "replicate"),
        "nearest": lambda x, i, j, k, b, n: torch.nn.functional.interpolate(x[None], scale_factor=(0.6, 1.7)),
        "bilinear": lambda x, i, j, k, b, n: _resized(x, "bilinear", scale_factor=1.7),
        "bilinear to the corners": lambda x, i, j, k, b, n: _resized(x, "bilinear", size=(3, 9), align_corners=True),
        "bicubic": lambda x, i, j, k, b, n: _resized(x, "bicubic", scale_factor=(0.7, 2.3)),
        "bicubic to the corners": lambda x, i, j, k, b, n: _resized(x, "bicubic", size=(9, 4), align_corners=True),
        "trilinear": lambda x, i, j, k, b, n: _resized(x[None], "trilinear", scale_factor=1.4),
        "linear": lambda x, i, j, k, b, n: _resized(x[0], "linear", size=9),
        "nearest of a size": lambda x, i, j, k, b, n: torch.nn.functional.interpolate(x[None], (7, 4)),
        "unfold": lambda x, i, j, k, b, n: x.unfold(2, 3, 2),
        "repeat_interleave": lambda x, i, j, k, b, n: x.repeat_interleave(2, 1),
        "tril": lambda x, i, j, k, b, n: x.tril(-1) + x.triu(1),
        "where": lambda x, i, j, k, b, n: torch.where(b, x, n),
        "argmax": lambda x, i, j, k, b, n: x[torch.arange(4), (x[..., 0] - 1).argmax(-1)],
        "one_hot": lambda x, i, j, k, b, n: torch.nn.functional.one_hot(j + 4, 8),
        "topk": lambda x, i, j, k, b, n: x.topk(3, 1).values + x.gather(1, x.topk(3, 1).indices),
        "sort": lambda x, i, j, k, b, n: x.sort(-1, descending=True).values,
    }


def _resized(x: Any, mode: str, **how: Any) -> Any:
    import torch

    return torch.nn.functional.interpolate(x[None], mode=mode, **how)


def _like_itself(x: Any) -> Any:
    return (x != x) + 2 * (x == x) + 4 * (x <= x) + 8 * (x >= x) + 16 * (x < x)


def _put(x: Any, where: Any, value: Any) -> Any:
    x = x.clone()
    x[where] = value
    return x


def arithmetic() -> dict[str, Expression]:
    import torch

    return {
        "alpha": lambda x, i, j, k, b, n: torch.add(x, n, alpha=2) + torch.sub(x, x, alpha=-0.5),
        "a float to integers": lambda x, i, j, k, b, n: n + 0.5,
        "integers by a float": lambda x, i, j, k, b, n: n * 1.5 - i.sum() / 2,
        "integers by integers": lambda x, i, j, k, b, n: n / 4 + n.div(3),
        "rounded down": lambda x, i, j, k, b, n: n // 4 + n.div(3, rounding_mode="floor") + i.sum() % -3,
        "rounded to zero": lambda x, i, j, k, b, n: n.div(3, rounding_mode="trunc") + x.div(0.3, rounding_mode="trunc"),
        "remainders": lambda x, i, j, k, b, n: n % 3 + n.fmod(3) + x % 0.7 + x.fmod(0.7),
        "compared with a float": lambda x, i, j, k, b, n: (n > 0.5) | (n == 1.5) | (n <= 0.5),
        "bools and numbers": lambda x, i, j, k, b, n: b + n + b * x + (b | (n > 0)) + (~b & b.logical_not()),
        "bools added": lambda x, i, j, k, b, n: b + b,
        "bools summed": lambda x, i, j, k, b, n: b.sum() + b.sum(1)[:, None] + b.cumsum(2)[:, 0, 0, None],
        "integers summed": lambda x, i, j, k, b, n: n.sum(0) + n.float().mean((0, 1)) + n.prod(2)[:1].T,
        "summed as float": lambda x, i, j, k, b, n: n.sum(dtype=torch.float32) / 7 + b.sum(1, dtype=torch.float32),
        "counted": lambda x, i, j, k, b, n: b.any(1) ^ b.all(1),
        "functions of integers": lambda x, i, j, k, b, n: n.exp() + n.abs().sqrt() + n.sigmoid() + torch.sin(n),
        "of bools": lambda x, i, j, k, b, n: torch.exp(b),
        "powers": lambda x, i, j, k, b, n: x.abs() ** 0.5 + x**2 + x**3 + 2**x + n.float() ** 2 + n**2,
        "rsub": lambda x, i, j, k, b, n: 1 - n + (1.5 - n) + torch.rsub(x, n, alpha=3),
        "limits": lambda x, i, j, k, b, n: n.clamp(-1, 2) + x.clamp(max=0.5) + x.clamp(min=-0.5) + n.clamp_min(1),
        "places of extremes": lambda x, i, j, k, b, n: torch.cat([x.min(1).indices.flatten(), n.max(0)[1].flatten()]),
        "maxima": lambda x, i, j, k, b, n: (
            torch.maximum(x, n) + x.max(1, keepdim=True).values + x.amin((0, 2))[:, None]
        ),
        "mean and spread": lambda x, i, j, k, b, n: x.var(1) + x.std(1, unbiased=False) + x.norm(dim=1),
        "atan2": lambda x, i, j, k, b, n: torch.atan2(x, n.float() + 0.5),
        "where of numbers": lambda x, i, j, k, b, n: torch.where(b, 1, 0.5) + torch.where(b, n, 1),
        "bits": lambda x, i, j, k, b, n: (n & 3) | (n ^ 5) | ~n,
        "shifts": lambda x, i, j, k, b, n: (n << 2) + (n >> 1),
        "concatenated": lambda x, i, j, k, b, n: torch.cat([x, n, b], 1),
        "casts": lambda x, i, j, k, b, n: x.int() + x.bool() + n.to(torch.float64) + (x.abs() * 50).to(torch.uint8) % 7,
        "a scalar tensor": lambda x, i, j, k, b, n: n * torch.tensor(0.5) + x * torch.tensor(2),
        "float16": lambda x, i, j, k, b, n: (x.half() * 2 + n).float(),
        "logical": lambda x, i, j, k, b, n: torch.logical_and(x, n) ^ torch.logical_or(n, b),
        "isfinite": lambda x, i, j, k, b, n: torch.isnan(x / n) | torch.isinf(x / n),
        "like itself": lambda x, i, j, k, b, n: _like_itself(torch.where(b, x, torch.nan)),
        "signs": lambda x, i, j, k, b, n: n.sign() + x.sign() + x.neg() + n.neg() + x.round() + x.frac(),
        "softmax": lambda x, i, j, k, b, n: x.softmax(1) + x.log_softmax(2) + torch.logsumexp(x, 1, True),
    }


def pooling() -> dict[str, Expression]:
    """Of windows, and strides, that are larger than what they are moved over among them."""
    from torch.nn import functional

    return {
        "average": lambda x, i, j, k, b, n: functional.avg_pool2d(x, 3, 2, 1, True, False),
        "average beyond": lambda x, i, j, k, b, n: functional.avg_pool2d(x, 1000, ceil_mode=True),
        "average beyond, padded": lambda x, i, j, k, b, n: functional.avg_pool2d(x, (9, 4), (2, 3), (4, 2), True),
        "padding left out": lambda x, i, j, k, b, n: functional.avg_pool2d(x, (9, 8), (2, 3), (4, 4), True, False),
        "far strides": lambda x, i, j, k, b, n: functional.avg_pool2d(x, 3, 900, 1, True),
        "average of lines": lambda x, i, j, k, b, n: functional.avg_pool1d(x, 10, 1, 5),
        "maximum beyond": lambda x, i, j, k, b, n: functional.max_pool2d(
            x, (300, 8), (50, 3), (150, 4), ceil_mode=True
        ),
        "maximum dilated": lambda x, i, j, k, b, n: functional.max_pool2d(x, (3, 7), 2, (1, 3), (2, 1), True),
        "volumes": lambda x, i, j, k, b, n: functional.avg_pool3d(x[None], (3, 5, 2), 7, (1, 2, 0), True),
        "adaptive": lambda x, i, j, k, b, n: functional.adaptive_avg_pool2d(x, (7, 4)),
    }


def in_parts() -> dict[str, Expression]:
    """Which PyTorch leaves whole, or which TVM's importer takes for something else."""
    import torch
    from torch.nn import functional

    return {
        "sampled": lambda x, i, j, k, b, n: functional.grid_sample(x[None], x[None, :, :, :2] / 2, align_corners=False),
        "sampled volumes": lambda x, i, j, k, b, n: torch.cat(
            [
                functional.grid_sample(
                    x[None, None], x[None, :, :, :3, None].expand(1, 4, 5, 3, 3) * k[..., :1, None], *how
                )
                for how in itertools.product(("bilinear", "nearest"), ("zeros", "border", "reflection"), (False, True))
            ]
        ),
        "largest of any size": lambda x, i, j, k, b, n: torch.cat(
            [one.flatten() for one in functional.adaptive_max_pool2d(n.float(), (3, 4), return_indices=True)]
        ),
        "largest of any volume": lambda x, i, j, k, b, n: functional.adaptive_max_pool3d(x[None], (3, 2, 6)),
        "largest of volumes": lambda x, i, j, k, b, n: functional.max_pool3d(x[None], 3, 2, 1, ceil_mode=True),
        "of dilated volumes": lambda x, i, j, k, b, n: torch.cat(
            [one.flatten() for one in functional.max_pool3d(x[None], 2, 1, 1, (1, 3, 2), return_indices=True)]
        ),
        "signs": lambda x, i, j, k, b, n: (
            torch.copysign(x, -x.flip(0)) + torch.copysign(n, -0.0) + torch.signbit(-(n.float())) + torch.signbit(n)
        ),
        "without NaN": lambda x, i, j, k, b, n: torch.fmax(torch.where(b, x, torch.nan), x - n) + torch.fmin(n, n * 2),
        "powers of two": lambda x, i, j, k, b, n: torch.exp2(x) + torch.exp2(n),
        "antialiased": lambda x, i, j, k, b, n: _resized(x, "bilinear", size=(3, 4), antialias=True),
        "antialiased cubic": lambda x, i, j, k, b, n: _resized(x, "bicubic", scale_factor=(0.6, 1.4), antialias=True),
        "pooled to any size": lambda x, i, j, k, b, n: functional.adaptive_avg_pool2d(x, (3, 4)),
        "pooled to any volume": lambda x, i, j, k, b, n: functional.adaptive_avg_pool3d(x[None], (3, 2, 6)),
        "places of maxima": lambda x, i, j, k, b, n: functional.max_pool2d(x, 2, return_indices=True)[1],
        "unpooled": lambda x, i, j, k, b, n: functional.max_unpool2d(
            *functional.max_pool2d(x, 2, 2, 0, 1, False, True), 2
        ),
        "divided by": lambda x, i, j, k, b, n: functional.avg_pool2d(x, (3, 2), 2, (1, 0), True, divisor_override=5),
        "bags": lambda x, i, j, k, b, n: functional.embedding_bag(j % 4, x[:, 0], mode="max"),
        "weighted bags": lambda x, i, j, k, b, n: functional.embedding_bag(
            i % 4, x[:, 0], torch.tensor([0, 2, 2]), mode="sum", per_sample_weights=x[0, 0, :3], padding_idx=2
        ),
        "distances": lambda x, i, j, k, b, n: torch.cdist(x, x + 1) + torch.cdist(x, x + 1, p=1),
        "pairs": lambda x, i, j, k, b, n: torch.pdist(x[0]),
        "largest so far": lambda x, i, j, k, b, n: torch.cummax(x.round(), 1).indices + torch.cummin(x, 1).values,
        "log of sums": lambda x, i, j, k, b, n: torch.logcumsumexp(x, 1),
        "middle": lambda x, i, j, k, b, n: x.median(1).values + x.median() + x.kthvalue(2, 1).indices,
        "commonest": lambda x, i, j, k, b, n: torch.cat(n.mode(1)),
        "searched": lambda x, i, j, k, b, n: torch.searchsorted(x.sort(-1).values, x[..., :3], right=True),
        "buckets": lambda x, i, j, k, b, n: torch.bucketize(n, torch.tensor([-3, 0, 2])),
        "histogram": lambda x, i, j, k, b, n: torch.histc(n.float(), 11, -5, 5),
        "masked_scatter": lambda x, i, j, k, b, n: x.masked_scatter(b, x.flip(0) * 2),
        "repeated": lambda x, i, j, k, b, n: x.repeat_interleave(j.flatten()[:4].abs(), 0, output_size=8),
        "means scattered": lambda x, i, j, k, b, n: x.scatter_reduce(2, k % 4, x, "mean", include_self=False),
        "of the same memory": lambda x, i, j, k, b, n: x.as_strided((3, 4), (30, 2), 1),
        "elu's kin": lambda x, i, j, k, b, n: functional.selu(x) + functional.celu(x, 0.5) + functional.rrelu(x),
        "batch norm in training": lambda x, i, j, k, b, n: functional.batch_norm(x, None, None, training=True),
        "groups as they are": lambda x, i, j, k, b, n: (
            functional.group_norm(x, 5) + functional.group_norm(x, 1, x[0, :, 0])
        ),
        "transposed volumes": lambda x, i, j, k, b, n: functional.conv_transpose3d(
            x[None, :, None], torch.ones(4, 3, 2, 1, 3) / 4, x[0, 0], 2, (1, 0, 1), (1, 0, 1), 2, (1, 1, 2)
        ),
        "bilinear forms": lambda x, i, j, k, b, n: functional.bilinear(x[0], x[1], x[:2, :1].expand(2, 6, 6)),
        "spread and mean": lambda x, i, j, k, b, n: (
            torch.var_mean(x, 1)[0] + torch.erfc(x[:, 0]) + torch.hypot(x, x)[:, 0]
        ),
    }


def pairs() -> dict[str, Expression]:
    """Complex tensors between real ones."""
    import torch

    def rotated(x: Any) -> Any:
        angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1, 0.01]))
        turns = torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (3, 2))) * turns).flatten(-2)

    def arithmetic(x: Any) -> Any:
        a, b = torch.complex(x[0], x[1]), torch.complex(x[2], x[3] + 3)
        found = [a * b, a / b, a - 2 * b, 1 / b, a @ b.mT @ a, torch.exp(a), a**2, a * 1j + x[2], (a + x[0]).conj()]
        return torch.view_as_real(torch.stack(found).resolve_conj())

    def spectrogram(x: Any) -> Any:
        return torch.stft(x.reshape(4, 30), 8, 2, window=torch.hann_window(8), return_complex=True)

    return {
        "rotated": lambda x, i, j, k, b, n: rotated(x),
        "arithmetic": lambda x, i, j, k, b, n: arithmetic(x),
        "sizes and angles": lambda x, i, j, k, b, n: torch.complex(x, x + 1).abs() + torch.complex(x, x + 1).angle(),
        "moved": lambda x, i, j, k, b, n: torch.view_as_real(torch.fft.fftshift(torch.fft.fft2(x)).mT[:, 1:].sum(0)),
        "mixed": lambda x, i, j, k, b, n: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2, norm="ortho").real,
        "there and back": lambda x, i, j, k, b, n: torch.fft.irfft2(torch.fft.rfft2(x) * 2, s=(5, 6)),
        "odd and padded": lambda x, i, j, k, b, n: torch.fft.irfft(torch.fft.rfft(x, 9, norm="forward"), 7),
        "windows": lambda x, i, j, k, b, n: spectrogram(x).abs(),
        "and back": lambda x, i, j, k, b, n: torch.istft(spectrogram(x), 8, 2, window=torch.hann_window(8)),
    }


def test_a_few_numbers_make_no_large_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + torch.arange(5000).remainder(7).max()

    torch.export.save(torch.export.export(Model(), (torch.ones(2),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "in.npz", x=np.ones(2, np.float32))
    monkeypatch.setattr("tapml.importing.constants.MOST_BYTES", 30000)
    with pytest.raises(InputError, match=r"the operator relax.arange makes a constant of 5000 elements, 0 MB"):
        import_model(str(tmp_path / "model.pt2"), input_files=[tmp_path / "in.npz"])


def test_layers_that_tvm_lacks_have_kernels(tmp_path: Path) -> None:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up = torch.nn.GroupNorm(2, 4, affine=False), torch.nn.ConvTranspose3d(4, 3, 2, stride=2)

        def forward(self, x: Any) -> Any:
            return self.up(self.norm(x))

    given = torch.ones(1, 4, 2, 3, 2)
    torch.export.save(torch.export.export(Model().eval(), (given,)), tmp_path / "model.pt2")
    np.savez(tmp_path / "in.npz", x=given.numpy())
    model = import_model(str(tmp_path / "model.pt2"), input_files=[tmp_path / "in.npz"])
    assert [found.name for found in lower(model.module, 1).operators if found.external is not None] == []


def test_what_pytorch_leaves_undefined_is_held_against_nothing(tmp_path: Path) -> None:
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.pad(x, (1, 2), mode="circular")

    torch.export.save(torch.export.export(Model(), (torch.ones(1, 2, 5),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "in.npz", x=np.ones((1, 2, 5), np.float32))
    model = import_model(str(tmp_path / "model.pt2"), input_files=[tmp_path / "in.npz"])
    assert model.in_detail is not None
    torch.use_deterministic_algorithms(True)  # whatever is in memory is NaN then
    try:
        values = model.in_detail().steps[0].expected
    finally:
        torch.use_deterministic_algorithms(False)
    assert values is not None
    assert len(values) > 1
    assert all(np.isfinite(array).all() for array in values)


@pytest.mark.parametrize(("extent", "size", "factor"), [(517, 801, None), (10, 13, 1.3), (1, 5, None), (3, 7, None)])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_are_resized_by_pytorchs_own_weights(
    extent: int, size: int, factor: float | None, corners: bool, mode: str
) -> None:
    import torch

    resize = getattr(torch.ops.aten, f"upsample_{mode}2d").default
    wanted = resize(torch.eye(extent)[None, None], [extent, size], corners, None, factor)[0, 0].numpy()
    found = np.zeros((extent, size), np.float32)
    for places, weights in (_linear if mode == "bilinear" else _cubic)(extent, size, factor, corners):
        found[places.astype(int), np.arange(size)] += 1 if weights is None else weights
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "made", [*(pytest.param(made, marks=pytest.mark.slow) for made in (indices, arithmetic, in_parts)), pooling, pairs]
)
def test_expressions_mean_what_pytorch_means(
    made: Callable[[], dict[str, Expression]], tmp_path: Path, evaluate: Callable[..., list[np.ndarray]]
) -> None:
    import torch

    expressions = made()

    class Model(torch.nn.Module):
        def forward(self, x: Any, i: Any, j: Any, k: Any, b: Any, n: Any) -> Any:
            return tuple(expression(x, i, j, k, b, n) for expression in expressions.values())

    random = np.random.default_rng(3)
    given = {
        "x": random.standard_normal((4, 5, 6)).astype(np.float32),
        "i": np.array([-1, 2, -4]),
        "j": np.array([[3, -1, 0], [-4, -2, 1]]),
        "k": random.integers(-4, 4, (4, 5, 2)),
        "b": random.integers(0, 2, (4, 5, 6)).astype(bool),
        "n": random.integers(-5, 6, (4, 5, 6)).astype(np.int32),
    }
    tensors = tuple(torch.from_numpy(array) for array in given.values())
    torch.export.save(torch.export.export(Model(), tensors), tmp_path / "model.pt2")
    np.savez(tmp_path / "in.npz", **given)
    model = import_model(str(tmp_path / "model.pt2"), input_files=[tmp_path / "in.npz"])
    assert model.steps[0].expected is not None, model.oracle_missing
    for name, result, wanted in zip(expressions, evaluate(model), model.steps[0].expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6, err_msg=name)
