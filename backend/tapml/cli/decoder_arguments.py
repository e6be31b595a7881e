"""What a decoder of transformers is carved with."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tapml.cli.arguments import check_activations, named_inputs
from tapml.errors import InputError
from tapml.files import check_file
from tapml.models import MINILM, model_file
from tapml.npy import read_npy

DECODER = (
    *("prompt", "prompt_ids", "steps", "capacity", "chunk", "speculate", "batch", "draws"),
    *("source_ids", "source_file", "encoder", "quantise_text"),
)
"""Options that are about a decoder only."""

_CHUNK, _STEPS = 32, 3


def add_model(parser: argparse.ArgumentParser, metavar: str, help: str) -> None:
    """MODEL, or --hf with what belongs to it."""
    parser.add_argument("model", nargs="?", metavar=metavar, help=help)
    group = parser.add_argument_group("decoders of transformers (docs/generation.md)")
    group.add_argument(
        "--hf", type=Path, metavar="FOLDER|GGUF|CONFIG",
        help="in place of MODEL: a folder of transformers (config.json, *.safetensors, tokenizer.json), a GGUF file, "
        "or a config.json alone, of which the weights are made up from --seed",
    )  # fmt: skip
    group.add_argument("--prompt", metavar="TEXT", help="what the model continues, where the folder has a tokenizer")
    group.add_argument("--prompt-ids", type=ids, metavar="N,N,...", help="the same as tokens")
    group.add_argument(
        "--steps", type=positive, metavar="N",
        help=f"tokens after the prompt that are carved, a step each (default {_STEPS})",
    )  # fmt: skip
    group.add_argument(
        "--capacity", type=positive, metavar="N",
        help="tokens that fit in the cache (default: what the model takes, at most 1024)",
    )  # fmt: skip
    group.add_argument(
        "--speculate", type=positive, metavar="N",
        help="carve a last step of a token and N that follow it, with the logits of each: the model can verify drafts",
    )  # fmt: skip
    group.add_argument(
        "--batch", type=several, metavar="N",
        help="calls take tokens of several sequences at once, with room for N of them that are as long as can be: the "
        "model writes several texts together",
    )  # fmt: skip
    group.add_argument(
        "--draws", action="store_true", default=None,
        help="carve a function that draws tokens, too: a page reads no logits back to sample, and has calls ahead",
    )  # fmt: skip
    group.add_argument(
        "--encoder", action="store_true", default=None,
        help="of a model with an encoder, the encoder: its outputs are inputs of the decoder, which is carved without",
    )  # fmt: skip
    group.add_argument("--source-ids", type=ids, metavar="N,N,...", help="what an encoder is given, as tokens")
    group.add_argument("--source-file", type=Path, metavar="FILE.npy", help="the same as an array (Whisper's features)")
    group.add_argument(
        "--quantise-text", type=Path, metavar="FILE",
        help="with --quantise: the text that its cost is measured on (default: the prompt with what follows)",
    )  # fmt: skip
    group.add_argument("--chunk", type=positive, metavar="N", help=f"most tokens that a call takes (default {_CHUNK})")


def check_model(options: argparse.Namespace) -> None:
    """Raise InputError unless there is one model, and options that belong to it."""
    if (options.model is None) == (options.hf is None):
        raise InputError(
            "give one model: MODEL, or --hf with a folder or a config.json of transformers, or a GGUF file"
        )
    given = [name for name in DECODER if getattr(options, name) is not None]
    if options.hf is None and given:
        raise InputError(f"--{given[0].replace('_', '-')} is for decoders of transformers: give one with --hf")
    if options.hf is not None and (options.text or options.one_by_one or options.inputs or options.input):
        raise InputError("a decoder takes a prompt: give --prompt or --prompt-ids in place of inputs")
    if options.prompt is not None and options.prompt_ids is not None:
        raise InputError("give --prompt or --prompt-ids, not both")
    check_activations(options)
    if options.quantise_text is not None and options.quantise is None:
        raise InputError("--quantise-text is what quantising is measured on: give --quantise, too, or leave it out")
    if options.source_ids is not None and options.source_file is not None:
        raise InputError("give --source-ids or --source-file, not both")


def check_files(options: argparse.Namespace) -> None:
    """Raise InputError where the model, or a file of inputs, is not there: what reads them takes seconds to load."""
    if options.hf is not None:
        if not options.hf.exists():
            raise InputError(
                f"{options.hf}: there is no such file: give a folder of transformers, a config.json, or a GGUF file"
            )
    elif options.model != MINILM:
        model_file(options.model)
    for path in options.inputs:
        check_file(path)
    for name, path in named_inputs(options.input).items():
        check_file(path, f" (for input {name})")
    for path in filter(None, (options.source_file, options.quantise_text)):
        check_file(path)


def decoder_options(options: argparse.Namespace) -> dict[str, Any]:
    """As `importing.import_decoder` takes them."""
    return {
        "prompt": options.prompt_ids if options.prompt is None else options.prompt,
        "steps": options.steps or _STEPS,
        "capacity": options.capacity,
        "chunk": options.chunk or _CHUNK,
        "speculate": options.speculate or 0,
        "batch": options.batch or 0,
        "draws": bool(options.draws),
        "seed": options.seed,
        "source": options.source_ids if options.source_file is None else _array(options.source_file),
        "encoder": bool(options.encoder),
        "quantise": options.quantise,
        "activations": options.activations,
        "quantise_text": None if options.quantise_text is None else _text(options.quantise_text),
    }


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no text in UTF-8: {error}") from error


def _array(path: Path) -> Any:
    try:
        return read_npy(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no array that numpy saved: {error}") from error


def ids(text: str) -> list[int]:
    """An argument that is a list of tokens."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: give whole numbers with commas, such as 3,17,42") from None


def several(text: str) -> int:
    """An argument that is a number of things, and more than one."""
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"{text}: give 2 or more")
    return value


def positive(text: str) -> int:
    """An argument that is a number of things, and not none."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return value
