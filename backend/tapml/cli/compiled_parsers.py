"""`tapml build`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from tapml.cli.arguments import Commands


def add_compiled(commands: Commands, add_carving: Callable[[argparse.ArgumentParser], None]) -> None:
    """The command. `add_carving`: what `tapml carve` is told of the model."""
    parser = commands.add(
        "build", "build_command:build_model",
        help="make a compiled model: what a web page loads and runs",
        description="Write what a page loads: kernels for all devices, weights, the host program with its memory plan, "
        "and on which devices which kernels passed, as SUITE's results say. A model that is no suite is carved first, "
        "with the options of `tapml carve`. What is written is verified before it is put in its place. Exit code 1 "
        "where the reference is in doubt and --keep-disagreeing built it all the same.",
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL|SUITE", help="a suite, or minilm, a .onnx file, a .pt2 file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL.tapml", help="what to write")
    parser.add_argument("--single", action="store_true", help="write one file in place of a folder")
    parser.add_argument("--force", action="store_true", help="replace a compiled model that exists")
    parser.add_argument("--name", help="the model's name (default: the suite's, or the output's)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write what was built as JSON (- for standard output)"
    )
    add_carving(parser)
