"""Arguments of `tapml export`, `tapml import` and `tapml share`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tapml.cli.device_options import DEFAULT_SERVER


def add_parsers(commands: Any) -> None:
    """The three commands' arguments."""
    _export(commands)
    _import(commands)
    _share(commands)


def _export(commands: Any) -> None:
    parser = commands.add_parser(
        "export",
        help="one test as a file that runs anywhere: HTML, Python, WGSL, safetensors, Markdown",
        description="Write one carved test with kernel, tensors, tolerances and its latest result. The HTML file needs "
        "no network and no tapml: it runs in any browser with WebGPU, and is what to attach to a bug. "
        "Without a form: --html KERNEL-TEST.html.",
    )
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
    parser.add_argument("test", metavar="TEST_ID", help="as `tapml show SUITE` and results name it, such as n012.s0")
    forms = (
        ("--html", "FILE", "one HTML file that runs the test"),
        ("--wgsl", "FOLDER", "a folder: WGSL to edit, tensors as .npy, the bug report as README.md"),
        ("--python", "FILE.py", "a script against tapml's library, and its data beside it (FILE.safetensors)"),
        ("--safetensors", "FILE", "tensors with all the rest in their metadata"),
        ("--markdown", "FILE", "the text of a bug report (- for standard output)"),
    )
    for option, metavar, text in forms:
        parser.add_argument(option, type=Path, metavar=metavar, help=text)
    _device(parser)
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.set_defaults(run="sharing:export")


def _import(commands: Any) -> None:
    parser = commands.add_parser(
        "import",
        help="somebody's exported test as a suite, or into one",
        description="Open what `tapml export` wrote (.html, .safetensors, the folder of --wgsl, the script of "
        "--python): as a suite of its own, or beside the tests of another suite.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("-o", "--output", type=Path, metavar="SUITE", help="suite to make (default: FILE's name.suite)")
    place.add_argument("--into", type=Path, metavar="SUITE", help="suite to add it to")
    parser.add_argument("--force", action="store_true", help="with -o: replace a suite that exists")
    parser.set_defaults(run="sharing:import_")


def _share(commands: Any) -> None:
    parser = commands.add_parser(
        "share",
        help="one test as a link that re-runs in anyone's browser",
        description="Make a link to one test: whoever opens it runs the test and sees what you got. It works while "
        "`tapml serve SUITE` runs, shows nothing but this test, and dies with --days or --revoke. Without TEST_ID: "
        "list the suite's links.",
    )
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
    parser.add_argument("test", metavar="TEST_ID", nargs="?", help="such as n012.s0")
    _device(parser)
    parser.add_argument("--days", type=float, help="how long the link lives (default 90)")
    parser.add_argument("--forever", action="store_true", help="until it is revoked")
    parser.add_argument("--revoke", metavar="NAME", help="end a link: the link itself, or its name in the list")
    parser.add_argument(
        "--server", metavar="URL", default=DEFAULT_SERVER,
        help=f"address under which others reach `tapml serve` (default {DEFAULT_SERVER})",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON (- for standard output)")
    parser.set_defaults(run="sharing:share")


def _device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", metavar="NAME", help="whose latest result goes along, such as chromium (default: the worst one)"
    )
