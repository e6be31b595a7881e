"""Arguments of `tapml devices` and `tapml device`, and those of every command that runs on devices."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

DEFAULT_SERVER = "http://127.0.0.1:8808"
"""Where `tapml serve` listens unless told otherwise."""


_DEVICE = """what to run on, such as chromium (the default) or node-dawn: a name that `tapml devices` lists, open \
(wait for someone to open the device page in any browser), or the address of a running `tapml serve`, with #NAME for \
one of its devices"""


def add_run_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """`--device` and what belongs to it."""
    parser.add_argument(
        "--device", action="append", metavar="DEVICE", help=_DEVICE + ("; repeat for several" if several else "")
    )
    parser.add_argument(
        "--hang-seconds", type=_seconds, default=30.0, metavar="S",
        help="a kernel that does not end, or is not compiled, within S seconds is an error (default 30)",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", help="with --device open: address to listen on (default 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="with --device open: port to listen on (default: any free one)"
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and 0 < value <= 86_400):
        raise argparse.ArgumentTypeError(f"{text}: give seconds, more than 0 and at most 86400")
    return value


def add_parsers(commands: Any) -> None:
    """The two commands' arguments."""
    parser = commands.add_parser(
        "devices",
        help="list connected devices and those that can be started here",
        description="List what is connected to a running `tapml serve`, and what can be started on this machine, with "
        "adapter, features and limits (each is started once to ask it; --no-probe does not).",
    )
    parser.add_argument("--server", metavar="URL", help=f"a running `tapml serve` (default {DEFAULT_SERVER})")
    parser.add_argument("--no-probe", action="store_true", help="start nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON (- for standard output)")
    parser.set_defaults(run="devices:devices")
    parser = commands.add_parser(
        "device",
        help="attach a device to a running server: node-dawn, deno, chromium, firefox, safari",
        description="Start NAME on this machine as a device of a running `tapml serve`. node-dawn and deno need no "
        "browser and start in under two seconds.",
    )
    parser.add_argument("name", metavar="NAME", help="node-dawn, deno, chromium, firefox, webkit or safari")
    parser.add_argument(
        "--server", metavar="URL", default=DEFAULT_SERVER,
        help=f"the server's address, with its token where it has one (default {DEFAULT_SERVER})",
    )  # fmt: skip
    parser.set_defaults(run="devices:device")
