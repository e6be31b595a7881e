"""`tapml tune`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from tapml.cli.arguments import Commands, run_arguments
from tapml.cli.decoder_arguments import add_model, positive


def add_tune(commands: Commands, add_importing: Callable[[argparse.ArgumentParser], None]) -> None:
    """`add_importing`: what a model is imported with."""
    parser = commands.add(
        "tune", "tune_command:tune_model", run_arguments(),
        help="measure on a device which kernels of a model are the fastest there",
        description="Time each kernel that there is of MODEL's operators on a device: TVM's, and tapml's own of each "
        "tile, split and number of lanes that its templates have. What was measured is a table, which `tapml carve` "
        "and `tapml build` choose by where it is given to them (--tuned FILE). A kernel that gives something else than "
        "the others, or does not run on the device, has no time. For example: tapml tune minilm --device node-dawn "
        "--json dawn.json; tapml build minilm --tuned dawn.json -o minilm.tapml. Exit codes: 0 measured, 1 nothing "
        "could be, 2 wrong command or input, 130 interrupted (what was measured until then is written).",
    )  # fmt: skip
    add_model(parser, "MODEL", "minilm, a .onnx file, or a .pt2 file (torch.export.save)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the table (- for standard output); see docs/choosing.md"
    )
    parser.add_argument(
        "--kernel", action="append", default=[], metavar="NAME", help="only this operator's; repeat for several"
    )
    parser.add_argument(
        "--turns", type=positive, default=3, metavar="N",
        help="times that each is timed, and three times as often those near the fastest; the least counts (default 3)",
    )  # fmt: skip
    add_importing(parser)
