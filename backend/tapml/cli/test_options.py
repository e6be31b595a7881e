"""Arguments of `tapml test`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tapml.cli.device_options import add_run_options
from tapml.cli.history_options import add_database_option

_DESCRIPTION = """\
Every carved test of all SUITEs on all devices, with reports for people and for CI. Exit codes: 0 good, 1 something
fails (with --baseline: got worse) or a device cannot be started or has no WebGPU (the others are tested all the same),
2 wrong command or input, 130 interrupted. Reports tell what ran.
"""


def add_parser(commands: Any) -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "test", help="run suites for CI: JUnit, HTML, shards, retries, expected failures", description=_DESCRIPTION
    )
    parser.add_argument("suites", nargs="+", type=Path, metavar="SUITE", help="folders that `tapml carve` wrote")
    add_run_options(parser, several=True)
    parser.add_argument(
        "--kernel", action="append", metavar="NAME", help="only this kernel's tests; repeat for several"
    )
    parser.add_argument("--shard", metavar="I/N", help="only part I of N, to split a run over several machines")
    parser.add_argument(
        "--retries", type=_count, default=0, metavar="N",
        help="run what fails up to N times again; what passes then is flaky, which does not fail the run",
    )  # fmt: skip
    parser.add_argument("--fail-on-flaky", action="store_true", help="flaky tests fail the run")
    reports = parser.add_argument_group("reports")
    reports.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    reports.add_argument("--html", type=Path, metavar="FILE", help="write one page with everything in it")
    reports.add_argument("--json", type=Path, metavar="FILE", help="write the document (- for standard output)")
    reports.add_argument(
        "--annotations", action="store_true",
        help="print annotations as GitHub Actions reads them (by itself where GITHUB_ACTIONS is true)",
    )  # fmt: skip
    baseline = parser.add_argument_group("expected failures")
    baseline.add_argument("--baseline", type=Path, metavar="FILE", help="fail only on what is worse than FILE expects")
    baseline.add_argument(
        "--update-baseline", action="store_true", help="write what failed into the baseline and exit with 0"
    )
    baseline.add_argument("--reason", metavar="TEXT", help="with --update-baseline: the reason of new entries")
    baseline.add_argument(
        "--expires", metavar="DATE",
        help="with --update-baseline: the last day of new entries, or never (default: in 90 days)",
    )  # fmt: skip
    add_database_option(parser)
    parser.set_defaults(run="test_command:test")


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value
