"""GGUF files of models of transformers, as llama.cpp's converter writes them: its names, and what it turns round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Kind = gguf.GGMLQuantizationType


def _interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a head in pairs, as ggml's rotary embedding wants them."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def _blocks_together(array: np.ndarray, heads: int) -> np.ndarray:
    """Bloom's queries of all heads, then keys, then values."""
    parts = array.reshape(heads, 3, -1, *array.shape[1:])
    return parts.swapaxes(0, 1).reshape(array.shape)


def _turned(model: Any, name: str, array: np.ndarray) -> np.ndarray:
    config, kind = model.config, model.config.model_type
    if kind == "llama" and ".attn_q." in name:
        return _interleaved(array, config.num_attention_heads)
    if kind == "llama" and ".attn_k." in name:
        return _interleaved(array, config.num_key_value_heads)
    if kind == "gemma2" and name.endswith("norm.weight"):
        return array + 1
    if kind == "bloom" and "attn_qkv" in name:
        return _blocks_together(array, config.n_head)
    if kind == "mamba" and name.endswith("ssm_a"):
        return -np.exp(array)
    return array.squeeze(1) if kind == "mamba" and "ssm_conv1d.weight" in name else array


def tensors_of(model: Any) -> dict[str, np.ndarray]:
    """In float32, by the names of GGUF files."""
    kind = model.config.model_type
    architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(architecture, model.config.num_hidden_layers)
    found = {}
    for own, tensor in model.state_dict().items():
        if own == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        # Bloom's are those of its inner model.
        given = next(each for each in (own, own.partition(".")[2]) if names.get_name(each, (".weight", ".bias")))
        stem, _, suffix = given.rpartition(".")
        name = names.get_name(given) or f"{names.get_name(stem)}.{suffix}"
        found[name] = np.ascontiguousarray(_turned(model, name, tensor.numpy()), np.float32)
    return found


def values_of(model: Any) -> dict[str, Any]:
    """What the file says of the model, by keys behind its architecture's name."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    found = {
        "block_count": config.num_hidden_layers,
        "context_length": getattr(config, "max_position_embeddings", 128),
        "embedding_length": config.hidden_size,
        "feed_forward_length": getattr(config, "intermediate_size", 4 * config.hidden_size),
        "attention.head_count": getattr(config, "num_attention_heads", 0),
        "vocab_size": config.vocab_size,
    }
    for name, key in (
        ("conv_kernel", "conv_kernel"),
        ("state_size", "state_size"),
        ("time_step_rank", "time_step_rank"),
    ):
        if hasattr(config, name):
            found[f"ssm.{key}"] = getattr(config, name)
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(config, name, None):
            found[name] = float(getattr(config, name))
    if getattr(config, "sliding_window", None):
        found["attention.sliding_window"] = config.sliding_window
    for name in ("rms_norm_eps", "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"):
        if hasattr(config, name):
            rms = name == "rms_norm_eps" or config.model_type == "mamba"
            found[f"attention.layer_norm_{'rms_' if rms else ''}epsilon"] = float(getattr(config, name))
    if getattr(config, "num_key_value_heads", None):
        found["attention.head_count_kv"] = config.num_key_value_heads
    if rope:
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        found["rope.freq_base"] = float(rope["rope_theta"])
        found["attention.key_length"] = found["attention.value_length"] = head
        found["rope.dimension_count"] = int(head * rope.get("partial_rotary_factor", 1))
    return found


def write(
    path: Path,
    model: Any,
    kind: Kind = Kind.F32,
    *,
    values: Mapping[str, Any] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
    raw: Mapping[str, Kind] | None = None,
    tokenizer: Callable[[gguf.GGUFWriter], None] = lambda _: None,
) -> Path:
    """Matrices of `kind`, all else in float32; `values` are said besides or instead, and of those of `tensors` that
    are blocks `raw` has the type."""
    architecture = model.config.model_type
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {**values_of(model), **(values or {})}.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add[type(value)](f"{architecture}.{key}", value)
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
        token = getattr(model.config, f"{name}_token_id", None)
        if token is not None:
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", token)
    tokenizer(writer)
    for name, array in (tensors_of(model) if tensors is None else tensors).items():
        if array.dtype == np.float64:
            writer.add_tensor(name, array)
        elif raw and name in raw:
            writer.add_tensor(name, array, raw_dtype=raw[name])
        elif array.ndim == 1 or kind is Kind.F32:
            writer.add_tensor(name, array)
        elif kind is Kind.F16:
            writer.add_tensor(name, array.astype(np.float16))
        else:
            writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
