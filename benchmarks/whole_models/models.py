"""Models of the kinds that browsers run, as ONNX files: of their real shapes, with made-up weights.

Weights are one block of random numbers again and again, so that a site of several models is small when it is packed;
what a kernel takes does not depend on them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.carving_models import classifier
from benchmarks.whole_models.diffusion import DownBlock

_BLOCK = 1 << 16
Inputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Whole:
    """`write` makes the file at the path, in float16 or not, and gives inputs for it. `small`: of sizes that a GPU in
    software takes."""

    name: str
    title: str
    write: Callable[[Path, bool, bool], Inputs]
    halves: bool = True
    """Whether there is one in float16."""


def _encoder(batch: int) -> Callable[[Path, bool, bool], Inputs]:
    def write(path: Path, half: bool, small: bool) -> Inputs:
        import torch
        from transformers import BertConfig, BertModel

        layers, tokens = (1, 8) if small else (6, 16)
        config = BertConfig(
            vocab_size=30522, hidden_size=384, num_hidden_layers=layers, num_attention_heads=12,
            intermediate_size=1536, attn_implementation="eager",
        )  # fmt: skip

        class Encoder(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.bert = BertModel(config, add_pooling_layer=False)

            def forward(self, input_ids: Any) -> Any:
                hidden = self.bert(input_ids=input_ids)[0].mean(1)
                return hidden / hidden.norm(dim=1, keepdim=True)

        ids = np.random.default_rng(1).integers(0, 30522, (batch, tokens))
        return _export(Encoder(), {"input_ids": ids}, path, half)

    return write


def _classifier(path: Path, half: bool, small: bool) -> Inputs:
    assert not half
    size = 64 if small else 224
    classifier(path, size)
    return {"x": _numbers(1, 3, size, size)}


def _diffusion(path: Path, half: bool, small: bool) -> Inputs:
    channels, side, words = (64, 16, 8) if small else (320, 64, 77)
    inputs = {
        "x": _numbers(1, channels, side, side),
        "time": _numbers(1, 4 * channels),
        "text": _numbers(1, words, 768),
    }
    return _export(DownBlock(channels, 768), inputs, path, half)


WHOLE = (
    Whole("minilm-1", "MiniLM, 16 tokens, batch 1", _encoder(1)),
    Whole("minilm-32", "MiniLM, 16 tokens, batch 32", _encoder(32)),
    Whole("classifier", "a classifier of images (as EfficientNet), 224 x 224", _classifier, halves=False),
    Whole("diffusion", "the first block of Stable Diffusion 1.4's UNet, 64 x 64", _diffusion),
)


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _export(module: Any, inputs: Inputs, path: Path, half: bool) -> Inputs:
    """By PyTorch's exporter, for these sizes alone."""
    import torch

    block = torch.randn(_BLOCK, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                count = parameter.numel()
                fan = count // parameter.shape[0]
                repeated = block.repeat(math.ceil(count / _BLOCK))[:count]
                parameter.copy_(repeated.reshape(parameter.shape) / math.sqrt(fan))
    module = module.eval()
    given = {
        name: torch.from_numpy(array.astype(np.float16) if half and array.dtype == np.float32 else array)
        for name, array in inputs.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing, which is what is meant
        torch.onnx.export(
            module.half() if half else module, tuple(given.values()), str(path), input_names=[*given],
            output_names=["result"], dynamo=False, opset_version=17,
        )  # fmt: skip
    return {name: tensor.numpy() for name, tensor in given.items()}
