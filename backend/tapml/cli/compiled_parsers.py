"""`tapml build`, `tapml run` and `tapml generate`: their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from tapml.cli.arguments import ACTIVATIONS, JSON, QUANTISED, Commands, add_inputs, count, run_arguments
from tapml.cli.decoder_arguments import add_model, ids, positive
from tapml.generation.drafts import NGRAM

_DEVICE = """what to run on: cpu (this machine, the default), a name that `tapml devices` lists, such as chromium or \
node-dawn, open (wait for someone to open the device page in any browser), or http://HOST:PORT of a running \
`tapml serve` that has the model, with #NAME for one of its devices"""

_WRITING = """what to write on: cpu (this machine, the default), a name that `tapml devices` lists as one that can be \
started here, such as chromium or node-dawn, or open (wait for someone to open the device page in any browser)"""

_VALIDATED = """validate the kernels before, on a device as `tapml validate` has it, such as chromium (default: none; \
what the suite's results say is in the model all the same)"""


def add_compiled(commands: Commands, add_carving: Callable[[argparse.ArgumentParser], None]) -> None:
    """The three commands. `add_carving`: what `tapml carve` is told of the model."""
    parser = commands.add(
        "build", "build_kinds:build", run_arguments(several=True, device=_VALIDATED),
        help="make a compiled model: what a web page loads and runs",
        description="Write what a page loads: kernels for all devices, weights, the host program with its memory plan, "
        "and on which devices which kernels passed, as SUITE's results say. A model that is no suite is carved first, "
        "with the options of `tapml carve`. What is written is verified before it is put in its place. Exit code 1 "
        "where the reference is in doubt and --keep-disagreeing built it all the same, and where a kernel failed on a "
        "device that was named.",
    )  # fmt: skip
    add_model(parser, "MODEL|SUITE", "a suite, or minilm, a .onnx file, a .pt2 file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL.tapml", help="what to write")
    parser.add_argument("--single", action="store_true", help="write one file in place of a folder")
    parser.add_argument(
        "--range", action="append", default=[], metavar="NAME=LEAST:MOST",
        help="sizes that the model has to take, where they are fewer than the suite's: its memory is planned for the "
        "most; repeat for several",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a compiled model that exists")
    parser.add_argument("--name", help="the model's name (default: the suite's, or the output's)")
    parser.add_argument(
        "--no-weights", action="store_true",
        help="with --hf: of the config.json alone, which may be of a model too large for this machine, write a folder "
        "with the program of prefill and decode and their kernels (WGSL), and say what weights and cache would take; "
        "nothing is run or compared",
    )  # fmt: skip
    parser.add_argument(
        "--no-cache", action="store_true",
        help="with --no-weights: make it anew; else what was made of the same configuration and options is kept",
    )  # fmt: skip
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write what was built as JSON (- for standard output)"
    )
    add_carving(parser)
    parser = commands.add(
        "run", "run_command:run_model", run_arguments(device=_DEVICE), JSON,
        help="run a compiled model on this machine or a device",
        description="Call a function of a compiled model, on this machine (--device cpu) or on a device as a page "
        "does, and write its outputs. Several --inputs are calls one after the other: each begins with the states that "
        "the former left.",
    )  # fmt: skip
    parser.add_argument("model", type=Path, metavar="MODEL.tapml", help="what `tapml build` wrote")
    parser.add_argument("--function", metavar="NAME", help="which of its functions (default main, or the only one)")
    parser.add_argument(
        "--text", action="append", default=[], metavar="TEXT", help="make the inputs of texts; repeat for a batch"
    )
    add_inputs(parser, "calls", "make inputs up")
    parser.add_argument(
        "--repeat", type=count, default=0, metavar="N", help="make the last call N times again, for its time alone"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE.npz",
        help="write the outputs; those of a call before the last have @ and its number behind their names. A FILE.npy "
        "has the one output of the last call",
    )  # fmt: skip
    capturing = parser.add_argument_group("captures (docs/capture.md)")
    capturing.add_argument(
        "--capture", type=Path, metavar="FILE",
        help="write what operators of the last call were given and gave on the device, for `tapml import`",
    )  # fmt: skip
    capturing.add_argument(
        "--nodes", nargs="+", metavar="NODE", help="only these kernels, or nodes of the model's program (n004)"
    )
    capturing.add_argument(
        "--sample", type=float, metavar="SHARE", help="only this share of their calls, above 0 and at most 1"
    )
    capturing.add_argument(
        "--max-bytes", type=count, metavar="N", help="what the copies may take of GPU memory (default 2^26, 67 MB)"
    )
    capturing.add_argument("--weights", action="store_true", help="with the bytes of weights, not only their digests")
    _add_generate(commands)
    _add_zoo(commands)


def _add_zoo(commands: Commands) -> None:
    parser = commands.add(
        "zoo", "zoo_command:zoo", run_arguments(several=True),
        help="import, carve, validate and run tiny language models of many architectures, against transformers",
        description="Each of some forty configurations of transformers is imported with random weights, carved, "
        "built, validated on the devices (default: node-dawn), and generates 64 tokens on this machine and on the "
        "devices; the table says how many are transformers' own. It takes about half a minute each.",
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="REGEX", help="configurations whose name it is found in")
    parser.add_argument(
        "--compiler", choices=("auto", "native", "tvm"), default="tvm",
        help="who makes the kernels, as of `tapml carve` (default tvm)",
    )  # fmt: skip
    parser.add_argument("--records", type=Path, metavar="FILE", help="keep what became of each, a JSON line each")
    parser.add_argument(
        "--resume", action="store_true", help="leave out what --records has of this code and compiler, device by device"
    )
    parser.add_argument(
        "--suites", type=Path, metavar="FOLDER",
        help="keep what is carved and built there, and take what is there of this code and compiler",
    )  # fmt: skip
    parser.add_argument(
        "--any-code", action="store_true",
        help="with --resume and --suites take what other code made and ran, too; the table says which",
    )  # fmt: skip


def _add_generate(commands: Commands) -> None:
    parser = commands.add(
        "generate", "generate_command:generate", run_arguments(device=_WRITING), JSON,
        help="let a language model write, on this machine or on a device",
        description="Continue a prompt, token by token, on this machine (--device cpu) or on a device as a page does, "
        "and print the text as it comes; how many tokens a second it was goes to standard error.",
    )  # fmt: skip
    parser.add_argument(
        "model", metavar="MODEL.tapml|SUITE|tiny",
        help="what `tapml build` wrote, a suite, or tiny, the language model that comes with tapml",
    )  # fmt: skip
    parser.add_argument(
        "--quantise", choices=QUANTISED, metavar="MODE",
        help="of a model that comes with tapml: with weights as integers (q4f16, q4f32, q8 or q844: docs/quantise.md)",
    )  # fmt: skip
    parser.add_argument(
        "--activations", choices=ACTIVATIONS, metavar="int8",
        help="with --quantise: with products of integers, of activations rounded to 8 bits, too",
    )  # fmt: skip
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--prompt", action="append", metavar="TEXT", help="what is continued; repeatable: several texts at once"
    )
    given.add_argument("--prompt-ids", type=ids, metavar="N,N,...", help="the same as tokens")
    parser.add_argument(
        "--encoder", type=Path, metavar="MODEL.tapml",
        help="of a model that attends to what an encoder leaves: that encoder, built with --encoder. The prompt is the "
        "decoder's then (default: the token that begins a text)",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--source", metavar="TEXT", help="what the encoder is given")
    source.add_argument("--source-ids", type=ids, metavar="N,N,...", help="the same as tokens")
    source.add_argument("--source-file", type=Path, metavar="FILE.npy", help="the same as an array, of features say")
    parser.add_argument(
        "--tokens", type=positive, metavar="N", help="how many at most (default: as many as the model has room for)"
    )
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="a text that ends it; repeatable")
    parser.add_argument(
        "--stop-ids", type=ids, default=[], metavar="N,N,...", help="tokens that end it, besides the model's own"
    )
    parser.add_argument(
        "--speculate", nargs="?", const=NGRAM, metavar="DRAFT",
        help="guess tokens, and verify them by one call of a model that was built with --speculate: the text is the "
        "same, in fewer calls. By a smaller model of the same vocabulary (MODEL.tapml or a suite), or by what stood "
        f"behind the last ones before ({NGRAM}, which is the default)",
    )  # fmt: skip
    parser.add_argument(
        "--drafts", type=positive, metavar="N",
        help="with --speculate: how many at a time (default 4, or as many as a call takes)",
    )  # fmt: skip
    sampling = parser.add_argument_group("how a token is chosen, in this order (docs/runtime.md)")
    sampling.add_argument(
        "--repetition-penalty", type=float, default=1.0, metavar="X",
        help="logits of tokens that are in the text are divided by it, multiplied where they are below 0 (default 1)",
    )  # fmt: skip
    sampling.add_argument("--greedy", action="store_true", help="the most likely token, without any of the following")
    sampling.add_argument("--temperature", type=float, metavar="X", help="logits are divided by it (default 1)")
    sampling.add_argument("--top-k", type=int, metavar="N", help="one of the N most likely (default: of all)")
    sampling.add_argument(
        "--top-p", type=float, metavar="P", help="one of the fewest that are as likely as P together (default 1)"
    )
    sampling.add_argument("--seed", type=int, metavar="N", help="the same gives the same text (default 0)")
