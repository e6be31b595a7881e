"""A transformers decoder from a config.json, with random weights, or from a folder with weights."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from tapml.errors import InputError
from tapml.files import sha256
from tapml.importing.gguf_file import gguf_in, read_gguf
from tapml.importing.hf_digest import CONFIG, model_digest, weight_files
from tapml.importing.hf_gguf import gguf_config, gguf_tokenizer, put_weights
from tapml.lowering.quiet import reason
from tapml.program.generation import MOST_PADDING
from tapml.text import listed

_TOKENIZER = "tokenizer.json"
_MOST_CONFIG = 4_000_000
_SPREAD = 1.2
"""Of random weights, over what keeps the length of a vector: large enough for the tokens to differ."""


@dataclass(frozen=True)
class Decoder:
    """`model` computes in float32, with its eager attention. `random`: its weights were made up."""

    path: Path
    model: Any
    sha256: str
    random: bool
    tokenizer: str | None
    """Of a tokenizer.json."""
    notes: tuple[str, ...] = ()
    """What people should know of its weights."""

    @property
    def name(self) -> str:
        return type(self.model).__name__

    @property
    def config(self) -> Any:
        return self.model.config.get_text_config()

    def special(self, name: str, vocabulary: int) -> list[int]:
        """Tokens of a meaning of their own (`eos_token_id`, ...) as generation_config.json has them, else config.json;
        those that are in the vocabulary, for configurations name others by default."""
        for config in (getattr(self.model, "generation_config", None), self.config):
            found = getattr(config, name, None)
            if found is not None:
                tokens = found if isinstance(found, list) else [found]
                return [int(token) for token in tokens if 0 <= int(token) < vocabulary]
        return []


def open_decoder(path: Path, seed: int = 0) -> Decoder:
    """A decoder of `path`: a folder as transformers saves it (config.json, *.safetensors, tokenizer.json), a GGUF file
    or a folder with one and no *.safetensors, or a config.json alone, whose weights are random numbers of `seed`.

    Raises InputError for what is none, naming missing and surplus tensors; ToolchainError without gguf for its files.
    """
    weights = weight_files(path) if path.is_dir() else []
    if not weights and (gguf := gguf_in(path)) is not None:
        return _of_gguf(gguf)

    def made(config: Any) -> Any:
        if weights:
            return _with_weights(path, config)
        if path.is_dir():
            raise InputError(f"{path} has no *.safetensors and no *.gguf: give its {CONFIG} for random weights")
        return _with_random_weights(config, seed)

    return replace(decoder_of(path, made, weights), random=not weights)


def decoder_of(path: Path, make: Callable[[Any], Any], weights: Sequence[Path] = ()) -> Decoder:
    """The decoder that `make` makes of the configuration of `path`, as `open_decoder`, with the folder's tokenizer."""
    folder = path if path.is_dir() else path.parent
    file = path / CONFIG if path.is_dir() else path
    with quiet():
        config = _config(file)
        try:
            model = make(config)
        except InputError:
            raise
        except Exception as error:  # whatever transformers and safetensors raise
            raise _not_made(path, error) from error
    tokenizer = folder / _TOKENIZER
    text = _tokenizer(tokenizer, model) if path.is_dir() and tokenizer.is_file() else None
    return Decoder(path, model.eval(), model_digest(file, weights), False, text)


def _of_gguf(path: Path) -> Decoder:
    """With the tokenizer.json beside it, or else the tokenizer that is in it."""
    file = read_gguf(path)
    with quiet():
        try:
            model = with_untouched_weights(gguf_config(file))
            notes = put_weights(model, file)
        except InputError:
            raise
        except Exception as error:  # whatever transformers and gguf raise
            raise _not_made(path, error) from error
        tokenizer = path.parent / _TOKENIZER
        if tokenizer.is_file():
            text: str | None = _tokenizer(tokenizer, model)
        else:
            text, said = gguf_tokenizer(file)
            notes += said
            text = text and _tokenizer(path, model, text)
    return Decoder(path, model.eval(), sha256(sha256(path.read_bytes())), False, text, tuple(notes))


def _not_made(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: transformers cannot make a decoder of it: {reason(error)}")


def _tokenizer(file: Path, model: Any, text: str | None = None) -> str:
    """Its text, or the one given, of `file`. Raises InputError unless it is a tokenizer whose tokens the model has, and
    not many more: as what writes with the model does (generation/asked.py), only before the work."""
    from tokenizers import Tokenizer

    try:
        text = file.read_text("utf-8") if text is None else text
        tokens = Tokenizer.from_str(text).get_vocab(with_added_tokens=True)
    except Exception as error:  # tokenizers raises nothing more special
        raise InputError(f"{file} is no tokenizer that tokenizers reads: {reason(error)}") from error
    words = model.get_input_embeddings().num_embeddings
    token, place = max(tokens.items(), key=lambda pair: pair[1], default=("", -1))
    if place >= words:
        raise InputError(
            f"{file} has token {place} ({token!r}), and {type(model).__name__} an embedding of {words} tokens: it is "
            "another model's tokenizer"
        )
    if len(tokens) * MOST_PADDING < words:
        raise InputError(
            f"{file} has {len(tokens)} tokens, and {type(model).__name__} an embedding of {words}: it is another "
            "model's tokenizer"
        )
    return text


def _config(file: Path) -> Any:
    if not file.is_file():
        raise InputError(f"{file}: there is no such file: give a folder of transformers with one, or a {CONFIG}")
    try:
        found = json.loads(file.read_bytes()[:_MOST_CONFIG])
        if not isinstance(found, dict) or not isinstance(found.get("model_type"), str):
            raise InputError(f"{file} names no model_type: it is no config of transformers")
        if found.get("auto_map"):
            raise InputError(f"{file} wants code of its own to be run (auto_map): tapml takes what transformers has")
        config = transformers.AutoConfig.from_pretrained(str(file), trust_remote_code=False, local_files_only=True)
    except InputError:
        raise
    except Exception as error:  # whatever json and transformers raise
        raise InputError(f"{file} is no config that transformers can read: {reason(error)}") from error
    if getattr(config, "quantization_config", None):
        raise InputError(
            f"{file}: weights in a format of {config.quantization_config.get('quant_method')} are not read"
        )
    return config


def _kind(config: Any) -> Any:
    """The class of transformers' that makes a model of it."""
    if not getattr(config, "is_encoder_decoder", False):
        return transformers.AutoModelForCausalLM
    speech = config.model_type in transformers.models.auto.modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES
    return transformers.AutoModelForSpeechSeq2Seq if speech else transformers.AutoModelForSeq2SeqLM


def _with_weights(folder: Path, config: Any) -> Any:
    model, info = _kind(config).from_pretrained(
        str(folder),
        config=config,
        dtype=torch.float32,
        attn_implementation="eager",
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    missing, surplus = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    other = [
        f"{name} is {list(given)}, and {type(model).__name__} takes {list(wanted)}"
        for name, given, wanted in info["mismatched_keys"]
    ]
    faults = [
        *([f"without {listed(missing, 8)}"] if missing else []),
        *([f"with {listed(surplus, 8)}, which {type(model).__name__} has not"] if surplus else []),
        *other[:8],
    ]
    if faults:
        raise InputError(f"{folder}: its tensors are not those of its {CONFIG}: {'; '.join(faults)}")
    return model


def with_untouched_weights(config: Any) -> Any:
    """Of a size that nobody may have memory for: nothing may read its parameters. Buffers are computed."""
    register = torch.nn.Module.register_parameter

    def without_memory(module: Any, name: str, parameter: Any) -> None:
        if parameter is not None and not parameter.is_meta:
            parameter = torch.nn.Parameter(parameter.to("meta"), requires_grad=False)
        register(module, name, parameter)

    # So that what begins parameters with random numbers has nothing to do.
    torch.nn.Module.register_parameter = without_memory
    try:
        model = _kind(config).from_config(
            config, dtype=torch.float32, attn_implementation="eager", trust_remote_code=False
        )
    finally:
        torch.nn.Module.register_parameter = register
    if left := [name for name, buffer in model.named_buffers() if buffer.is_meta]:
        raise InputError(f"{type(model).__name__} computes {left[0]} of its weights: give them")
    made: dict[Any, Any] = {}  # tied ones once
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if parameter not in made:
                    untouched = torch.empty(parameter.shape, dtype=torch.float32)
                    made[parameter] = torch.nn.Parameter(untouched, requires_grad=False)
                module._parameters[name] = made[parameter]
    return model


def _with_random_weights(config: Any, seed: int) -> Any:
    """So large that tokens differ, and tied to nothing: tied ones make a model that repeats its last token."""
    config.get_text_config().tie_word_embeddings = False
    config.tie_word_embeddings = False
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _kind(config).from_config(
            config, dtype=torch.float32, attn_implementation="eager", trust_remote_code=False
        )
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, _SPREAD * parameter.shape[-1] ** -0.5)
                else:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@contextlib.contextmanager
def asked(model: Any, what: str) -> Iterator[None]:
    """Raises InputError where the model's own code, or PyTorch, fails while it is asked for `what`: a configuration may
    be one that transformers itself cannot run."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever they raise
        why = reason(error)
        raise InputError(
            f"{type(model).__name__} of transformers {transformers.__version__} fails when asked for {what} ({why}): "
            "mend its configuration, or use another architecture",
            reason=why,
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While the block runs, transformers draws no bars and reports nothing: what matters becomes an error here."""
    logger = logging.getLogger("transformers")
    level, bars = logger.level, transformers.utils.logging.is_progress_bar_enabled()
    logger.setLevel(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        if bars:
            transformers.utils.logging.enable_progress_bar()
