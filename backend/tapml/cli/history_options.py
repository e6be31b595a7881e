"""Arguments of `tapml history`, and the one of every command that records runs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

_VARIABLE = "TAPML_DATABASE_URL"


def add_database_option(parser: argparse.ArgumentParser) -> None:
    """`--database-url`; `database_url` reads it."""
    parser.add_argument(
        "--database-url", metavar="URL",
        help="keep the history of all suites in this database, postgresql://USER:PASSWORD@HOST/DATABASE or "
        f"sqlite:///FILE (default: ${_VARIABLE}, or else each suite's results/history.sqlite3)",
    )  # fmt: skip


def database_url(options: argparse.Namespace) -> str | None:
    """The database that was named for all suites, by the option or by the environment."""
    return getattr(options, "database_url", None) or os.environ.get(_VARIABLE) or None


def add_parser(commands: Any) -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "history",
        help="show how a suite's tests fared over time and browser versions",
        description="Trends of SUITE's tests on each sort of device, over all runs of `tapml validate`, `tapml test` "
        "and `tapml serve`: what fails and since when, what is flaky, how long it takes. With --test: its runs.",
    )
    parser.add_argument("suite", type=Path, metavar="SUITE")
    parser.add_argument("--test", metavar="ID", help="the runs of this test, newest first")
    parser.add_argument("--kernel", metavar="NAME", help="only the tests of this kernel")
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N", help="show at most N tests or runs (default 20; 0: all)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON, whole (- for standard output)")
    add_database_option(parser)
    parser.set_defaults(run="history:history")
