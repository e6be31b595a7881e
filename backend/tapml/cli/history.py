"""`tapml history`: what became of a suite's tests."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from tapml.cli.history_options import database_url
from tapml.errors import InputError
from tapml.files import write_json_output
from tapml.history import open_history
from tapml.reports.history import show_timeline, show_trends
from tapml.suite import Suite

FORMAT = "tapml.history/1"


def history(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Trends, what needs a look first; or one test's runs."""
    if options.limit < 0:
        raise InputError("--limit: give the number of lines to show, or 0 for all")
    suite = Suite(options.suite)
    test = suite.test(options.test) if options.test else None
    if options.kernel is not None:
        suite.bundle(options.kernel)  # raises with the list of kernels
        if test is not None and test.kernel != options.kernel:
            raise InputError(f"test {test.id} is of kernel {test.kernel}, not of {options.kernel}")
    kept = open_history(suite, database_url(options))
    document: dict[str, Any] = {"format": FORMAT, "suite": suite.id, "suite_name": suite.name}
    if test is not None:
        document |= {"test": test.id, "kernel": test.kernel, "devices": kept.timeline(test.id)}
    else:
        document |= kept.trends(kernel=options.kernel)
    if write_json_output(options.json, document):
        return 0
    show = show_trends if test is None else show_timeline
    show(console, document, options.limit or None, kept.database.shown)
    return 0
