"""A decoder of a GGUF file: configuration, weights and tokenizer as transformers reads them, and nothing left out in
silence."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import transformers
from transformers import modeling_gguf_pytorch_utils as loader

from tapml.errors import InputError
from tapml.importing.gguf_file import GgufFile, required
from tapml.lowering.quiet import reason
from tapml.text import listed

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "phi3", "starcoder2", "stablelm", "bloom", "mamba")
"""Those whose tokens were compared with the model that the file was made of."""

_MOST = 1 << 24
"""Of a number in a configuration."""

_LARGE_GEMMA = 46
_FLOATS = ("F32", "F16", "BF16")
_FREQUENCIES = "rope_freqs.weight"
_OTHERWISE = "give the folder of transformers that it was made of"


def gguf_config(file: GgufFile) -> Any:
    """transformers' own configuration of it. Raises InputError for an architecture that nobody compared, and for what
    the file says of its model that transformers leaves out."""
    path, architecture = file.path, file.architecture
    if architecture not in ARCHITECTURES:
        raise InputError(
            f"{path} is a model of the architecture {architecture}, which is not read from GGUF files "
            f"({', '.join(ARCHITECTURES)} are): {_OTHERWISE}"
        )
    own = {
        key.removeprefix(f"{architecture}."): value
        for key, value in file.metadata.items()
        if key.startswith(f"{architecture}.")
    }
    for key, value in own.items():
        if isinstance(value, int) and not 0 <= value <= _MOST:
            raise InputError(f"{path}: {architecture}.{key} is {value}, which is no size of a model")
    for key in ("embedding_length", "block_count", *(() if architecture == "mamba" else ("attention.head_count",))):
        if not isinstance(own.get(key), int) or not own[key]:
            raise InputError(f"{path} does not say {architecture}.{key}: it is no language model of llama.cpp's")
    if own["block_count"] > len(file.tensors):
        raise InputError(f"{path}: {own['block_count']} layers of {len(file.tensors)} tensors are no model")
    config = transformers.AutoConfig.from_pretrained(
        str(path.parent), gguf_file=path.name, trust_remote_code=False, local_files_only=True
    )
    config.tie_word_embeddings = "output.weight" not in file.tensors
    _say_the_rest(own, config)
    _check_nothing_is_left_out(file, own, config)
    return config


_NAMES = {
    "attention.key_length": ("head_dim",),
    "attention.layer_norm_epsilon": ("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps",),
    "attention.sliding_window": ("sliding_window",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "vocab_size": ("vocab_size",),
}
"""What configurations call values that transformers does not read of every architecture: it computes with those of one
checkpoint then."""


def _read(config: Any) -> Mapping[str, str | None]:
    """What transformers reads of the values of an architecture."""
    found: Mapping[str, str | None] = loader.GGUF_TO_TRANSFORMERS_MAPPING["config"][config.model_type]
    return found


def _head(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // getattr(config, "num_attention_heads", 1))


def _say_the_rest(own: Mapping[str, Any], config: Any) -> None:
    """Put into the configuration what transformers leaves out of it, and what llama.cpp takes where nothing is said."""
    read = _read(config)
    values = dict(own)
    if "attention.head_count" in own:
        values.setdefault("attention.key_length", own["embedding_length"] // max(1, own["attention.head_count"]))
    for key, names in _NAMES.items():
        name = next((name for name in names if hasattr(config, name)), None)
        # A head's length may have been read of another value.
        if name and key in values and read.get(key) is None and name not in {read.get(given) for given in own}:
            setattr(config, name, values[key])
    if hasattr(config, "query_pre_attn_scalar"):
        # No file says it; llama.cpp takes a head's length, and of the model of 46 layers its share of the width.
        large = config.num_hidden_layers == _LARGE_GEMMA
        config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads if large else _head(config)
    rope = getattr(config, "rope_parameters", None)
    if rope:
        rope["rope_theta"] = own.get("rope.freq_base", 10_000.0)
        if "partial_rotary_factor" in rope and "rope.dimension_count" in own:
            rope["partial_rotary_factor"] = own["rope.dimension_count"] / _head(config)


def _check_nothing_is_left_out(file: GgufFile, own: Mapping[str, Any], config: Any) -> None:
    """Raises InputError for a value that is not what the model computes with."""
    read = _read(config)
    rope = getattr(config, "rope_parameters", None) or {}
    heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", None)
    same = {
        **{key: next((getattr(config, name, None) for name in names if hasattr(config, name)), None)
           for key, names in _NAMES.items()},
        "attention.key_length": _head(config),
        "attention.value_length": _head(config),
        "attention.head_count_kv": heads,
        "attention.causal": True,
        "context_length": own.get("context_length"),  # of no use to it
        "rope.dimension_count": int(_head(config) * rope.get("partial_rotary_factor", 1)),
        "rope.freq_base": rope.get("rope_theta"),
        "rope.scaling.type": "none",
        "rope.scaling.factor": 1.0,
        "use_parallel_residual": getattr(config, "use_parallel_residual", None),
        "feed_forward_length": getattr(config, "intermediate_size", 4 * config.hidden_size),
    }  # fmt: skip
    for key, value in own.items():
        computed = same.get(key)
        # Zero is how a converter says that there is none.
        if read.get(key) is not None or value in (0, computed) or _alike(value, computed):
            continue
        with_what = f" ({computed} is what it computes with)" if computed is not None else ""
        raise InputError(
            f"{file.path}: {file.architecture}.{key} is {value}, which transformers leaves out{with_what}: "
            f"{_OTHERWISE}",
            reason=f"transformers leaves out {key}",
        )


def _alike(value: Any, other: Any) -> bool:
    """As float32."""
    return isinstance(value, float) and isinstance(other, float) and math.isclose(value, other, rel_tol=1e-6)


def put_weights(model: Any, file: GgufFile) -> list[str]:
    """Give a model those of the file, in float32, and say what became of them. Raises InputError naming tensors that
    are missing, surplus or of another shape."""
    kind = type(model).__name__
    processor = loader.TENSOR_PROCESSORS.get(file.architecture, loader.TensorProcessor)(config=model.config.to_dict())
    known = loader.get_gguf_hf_weights_map(model, processor)
    surplus = sorted(file.tensors.keys() - known.keys() - {_FREQUENCIES})
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tied = set(model.all_tied_weights_keys) if model.config.tie_word_embeddings else set()
    given = {known[name] for name in file.tensors if name in known}
    back = {source: name for name, source in known.items()}
    missing = sorted(back.get(name, name) for name in wanted.keys() - given - tied)
    other = [
        f"{name} is {list(shape)}, and {kind} takes {list(wanted[known[name]])}"
        for name, (_, shape) in file.tensors.items()
        if name in known and _squeezed(shape) != _squeezed(wanted[known[name]])
    ]
    faults = [
        *([f"without {listed(missing, 8)}"] if missing else []),
        *([f"with {listed(surplus, 8)}, which {kind} has not"] if surplus else []),
        *other[:8],
    ]
    if faults:
        raise InputError(f"{file.path}: its tensors are not those of its configuration: {'; '.join(faults)}")
    factors = _filled(model, file, processor, known)
    notes = [_told(file)]
    if factors is not None:
        _scale_frequencies(model, file, factors)
        notes.append(f"rotary frequencies are divided by {_FREQUENCIES}, which transformers itself leaves out")
    return notes


def _filled(model: Any, file: GgufFile, processor: Any, known: Mapping[str, str]) -> torch.Tensor | None:
    """Read one tensor after the other, into memory of its own; the factors of rotary frequencies are given back."""
    gguf, factors, read = required(), None, {}
    for tensor in gguf.GGUFReader(file.path).tensors:
        numbers = gguf.dequantize(tensor.data, tensor.tensor_type)
        if tensor.name == _FREQUENCIES:
            factors = torch.from_numpy(np.array(numbers, np.float32)).reshape(-1)
            continue
        made = processor.process(weights=numbers, name=tensor.name)
        read[known[tensor.name]] = torch.from_numpy(np.array(made.weights, np.float32))
    model.load_state_dict(read, strict=False, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.tie_weights()
    return factors


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)


def _told(file: GgufFile) -> str:
    counts = Counter(kind for kind, _ in file.tensors.values())
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    said = f"tensors of {file.path.name} by type: {found}"
    if packed := sorted(counts.keys() - set(_FLOATS)):
        said += f"; those of {', '.join(packed)} are dequantized to float32, the numbers that they stand for"
    return said


def _scale_frequencies(model: Any, file: GgufFile, factors: torch.Tensor) -> None:
    rotary = getattr(model.model, "rotary_emb", None)
    if rotary is None or factors.shape != rotary.inv_freq.shape or not bool((factors > 0).all()):
        raise InputError(f"{file.path}: {_FREQUENCIES} is {list(factors.shape)}, no factors of its rotary frequencies")
    for name in ("inv_freq", "original_inv_freq"):
        setattr(rotary, name, getattr(rotary, name) / factors)


def gguf_tokenizer(file: GgufFile) -> tuple[str | None, list[str]]:
    """The text of a tokenizer.json, None where the file has no tokenizer that transformers makes, and what to say of
    it. Raises InputError for a damaged one."""
    from transformers.integrations.gguf import gguf_tokenizer_mapping as tokenizers

    kind, split = (file.metadata.get(f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    if kind is None:
        return None, []
    known = kind in tokenizers.GGUF_TOKENIZER_TYPES
    if known and kind == "gpt2":
        known = split in (None, "gpt-2", *tokenizers.GGUF_PRE_TOKENIZER_SPLITS)
    if not known:
        what = f"{kind}, {split}" if split else kind
        return None, [f"its tokenizer ({what}) is none that transformers makes: put its tokenizer.json beside it"]
    try:
        made = transformers.AutoTokenizer.from_pretrained(
            str(file.path.parent), gguf_file=file.path.name, trust_remote_code=False, local_files_only=True
        )
        document = json.loads(made.backend_tokenizer.to_str())
    except Exception as error:  # whatever transformers and tokenizers raise
        raise InputError(f"{file.path}: transformers cannot make its tokenizer: {reason(error)}") from error
    # transformers adds tokens of its own where the file names none for them, behind those that the model knows.
    count = file.metadata.get("tokenizer.ggml.tokens", 0)
    document["added_tokens"] = [token for token in document["added_tokens"] if token["id"] < count]
    return json.dumps(document, ensure_ascii=False), []
