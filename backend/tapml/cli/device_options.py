"""Arguments of `tapml devices` and `tapml device`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DEFAULT_SERVER = "http://127.0.0.1:8808"
"""Where `tapml serve` listens unless told otherwise."""


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
    parser.set_defaults(run="devices")
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
    parser.set_defaults(run="device")
