"""Arguments of `tapml locate` and `tapml reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tapml.cli.device_options import add_run_options

_LOCATE = """\
Name the faulty kernels of SUITE on a device, most certain first, with the reason in words: every carved test is
validated, the clearest failing ones run again (is it a race?) and their mismatches are searched for patterns. Where
every operator passes, the whole model runs on the device; where that fails, the fewest nodes are found whose return
to the reference brings it back. Exit codes: 0 clean, 1 something is suspected, 2 wrong command or input,
130 interrupted.
"""

_REDUCE = """\
Shrink a failing test while it still fails: simpler input values, fewer of them, fewer workgroups. What is expected of
the changed inputs comes from the reference. Prints what remained; -o writes it as a file that runs anywhere.
Exit codes: 0 reduced, 1 the device reports an error instead of a result, 2 wrong command or input, or a test that
passes, 130 interrupted.
"""


def add_parsers(commands: Any) -> None:
    """The two commands' arguments."""
    parser = commands.add_parser(
        "locate", help="name the faulty kernels, with the reason in words", description=_LOCATE
    )
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
    add_run_options(parser)
    parser.add_argument(
        "--kernel", action="append", metavar="NAME", help="only this kernel's tests; repeat for several"
    )
    parser.add_argument(
        "--runs", type=int, default=3, metavar="N", help="how often a failing test runs again (default 3)"
    )
    parser.add_argument(
        "--no-model", action="store_true", help="do not run the whole model where every operator passes"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the document (- for standard output)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page with heat maps")
    parser.set_defaults(run="locate_command:locate")
    parser = commands.add_parser("reduce", help="shrink a failing test while it still fails", description=_REDUCE)
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
    parser.add_argument("test", metavar="TEST_ID", help="such as n012.s0")
    add_run_options(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="write the reduced test: .html, .safetensors, .py, .md, or .suite for a suite of its own",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the document (- for standard output)")
    parser.set_defaults(run="locate_command:reduce")
