"""The three networks of Stable Diffusion 1.4 in float16, without weights, as tapml imports and lowers them."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from torch import nn

from tapml.compilers.choose import compile_operators
from tapml.importing.torch_export import decomposed
from tapml.importing.torch_fixes import converters, known
from tapml.importing.torch_program import ProgramImporter
from tapml.lowering.lower import Lowered, lower
from tapml.program import Graph, ValueKind

DIFFUSERS = Path("build/diffusers")
"""Where `make bench-plan` installs it."""

# The configurations that the model's repository has, https://huggingface.co/CompVis/stable-diffusion-v1-4
# (text_encoder/config.json, unet/config.json, vae/config.json), in what differs from the classes' defaults.
_TEXT_ENCODER = {
    "vocab_size": 49408, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "max_position_embeddings": 77, "hidden_act": "quick_gelu",
}  # fmt: skip
_UNET = {
    "sample_size": 64, "in_channels": 4, "out_channels": 4, "layers_per_block": 2, "cross_attention_dim": 768,
    "block_out_channels": (320, 640, 1280, 1280), "attention_head_dim": 8,
}  # fmt: skip
_VAE = {
    "down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4,
    "block_out_channels": (128, 256, 512, 512), "layers_per_block": 2, "latent_channels": 4, "sample_size": 512,
}  # fmt: skip


class _Called(nn.Module):
    def __init__(self, module: nn.Module, call: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.call(self.module, *inputs)


def _text_encoder(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import CLIPTextConfig, CLIPTextModel

    module = CLIPTextModel(CLIPTextConfig(**_TEXT_ENCODER, attn_implementation="sdpa"))
    return _Called(module, lambda m, ids: m(ids).last_hidden_state), (torch.empty(batch, 77, dtype=torch.int32),)


def _unet(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    from diffusers import UNet2DConditionModel

    half = torch.float16
    inputs = (
        torch.empty(batch, 4, 64, 64, dtype=half),
        torch.empty(batch, dtype=half),
        torch.empty(batch, 77, 768, dtype=half),
    )
    module = UNet2DConditionModel(**_UNET)
    return _Called(module, lambda m, x, time, text: m(x, time, text, return_dict=False)[0]), inputs


def _vae_decoder(batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    from diffusers import AutoencoderKL

    module = AutoencoderKL(**_VAE)
    inputs = (torch.empty(batch, 4, 64, 64, dtype=torch.float16),)
    return _Called(module, lambda m, x: m.decoder(m.post_quant_conv(x))), inputs


NETWORKS: Mapping[str, Callable[[int], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "text encoder": _text_encoder,
    "UNet": _unet,
    "VAE decoder": _vae_decoder,
}


@dataclass(frozen=True)
class Planned:
    """What a plan is made of."""

    graph: Graph
    kernels: Mapping[str, Mapping[str, Any]]


def network(name: str, batch: int, whole_attention: bool = False, halved: bool = False) -> Planned:
    """A network as tapml imports and lowers it, and its kernels for WebGPU.

    `whole_attention`: attention is one operator, that of a kernel by hand which never writes its scores; otherwise it
    is what TVM makes of it. `halved`: the projection of a GEGLU is two, of its gate and of what that multiplies, so
    that the product is part of the second; otherwise it is one twice as wide, and the product is by itself.
    """
    sys.path.insert(0, str(DIFFUSERS))
    with warnings.catch_warnings(), torch.no_grad(), _attention(whole_attention), _geglu(halved):
        warnings.simplefilter("ignore")
        with torch.device("meta"):
            module, inputs = NETWORKS[name](batch)
        exported = torch.export.export(module.half().eval(), inputs, strict=False)
        functions = {"attention": _attention_like} if whole_attention else {}
        functional = decomposed(exported, Path(name), known(functions))
    imported = _Shapes(converters({}), functions).from_exported_program(
        functional,
        keep_params_as_input=True,
        unwrap_unit_return_tuple=True,
        no_bind_return_tuple=False,
        custom_convert_map=None,
    )
    imported["main"] = imported["main"].without_attr("params")
    lowered = lower(imported, len(inputs))
    graph = _with_weights_prepared(lowered, len(inputs))
    return Planned(graph, _kernels(lowered, set(graph.kernels)))


class _Shapes(ProgramImporter):
    """Of weights that there are not."""

    @staticmethod
    def _convert_pytorch_tensor_to_tvm(tensor: torch.Tensor) -> Any:
        return tvm.runtime.empty(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _attention_like(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Of the shape that attention has; importing asks for no more."""
    return np.empty((*query.shape[:-1], value.shape[-1]), query.dtype)


@torch.library.custom_op("tapml_benchmark::attention", mutates_args=())
def _whole_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


@_whole_attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


@contextmanager
def _attention(whole: bool) -> Iterator[None]:
    own = nn.functional.scaled_dot_product_attention
    if whole:
        # A mask is causal, and inside of the kernel.
        nn.functional.scaled_dot_product_attention = lambda q, k, v, *_, **__: _whole_attention(q, k, v)
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = own


@contextmanager
def _geglu(halved: bool) -> Iterator[None]:
    from diffusers.models.activations import GEGLU

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        (value, gate), (a, b) = self.proj.weight.chunk(2), self.proj.bias.chunk(2)
        rows = x.flatten(0, 1)
        factor = nn.functional.gelu(torch.addmm(b, rows, gate.T))
        return (torch.addmm(a, rows, value.T) * factor).unflatten(0, x.shape[:2])

    own = GEGLU.forward
    if halved:
        GEGLU.forward = forward
    try:
        yield
    finally:
        GEGLU.forward = own


def _with_weights_prepared(lowered: Lowered, inputs: int) -> Graph:
    """With what depends on weights alone as a weight, which it is after an import of real ones."""
    graph = lowered.model.at({})
    given = set(graph.inputs[:inputs])
    fixed = {v for v, value in graph.values.items() if value.kind is not ValueKind.INTERMEDIATE and v not in given}
    nodes = []
    for node in graph.nodes:
        if node.inputs and fixed.issuperset(node.inputs):
            fixed.update(node.outputs)
        else:
            nodes.append(node)
    values = {
        name: dataclasses.replace(value, kind=ValueKind.PARAMETER) if name in fixed else value
        for name, value in graph.values.items()
    }
    return Graph(values, nodes, graph.inputs[:inputs], graph.outputs)


def _kernels(lowered: Lowered, used: set[str]) -> dict[str, Mapping[str, Any]]:
    operators = [operator for operator in lowered.operators if operator.name in used]
    compiled = compile_operators([found for found in operators if found.external is None], ("256",))
    documents: dict[str, Mapping[str, Any]] = {name: found.document for name, found in compiled.items()}
    for operator in operators:
        if operator.external is not None:
            documents[operator.name] = _in_one_dispatch(operator.name, len(operator.arguments))
    return documents


def _in_one_dispatch(name: str, arguments: int) -> dict[str, Any]:
    """A kernel that reads its inputs and writes its one output."""
    bindings = [{"binding": n, "access": "read" if n < arguments - 1 else "read_write"} for n in range(arguments)]
    launch = {"entry_point": name, "operands": [{"argument": n} for n in range(arguments)]}
    entry_point = {"name": name, "bindings": bindings}
    return {"kernel": name, "variants": [{"temporaries": [], "entry_points": [entry_point], "launches": [launch]}]}
