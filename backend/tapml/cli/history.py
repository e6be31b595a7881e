"""`tapml history`: what became of a suite's tests."""

from __future__ import annotations

import argparse

from rich.console import Console

from tapml.cli.arguments import database_url
from tapml.cli.suites import opened
from tapml.errors import InputError
from tapml.files import write_json_output
from tapml.history import open_history
from tapml.reports.history import show_timeline, show_trends
from tapml.results.history import HistoryHeader, SuiteHistoryDocument, TestHistoryDocument


def history(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Trends, what needs a look first; or one test's runs."""
    if options.limit < 0:
        raise InputError("--limit: give the number of lines to show, or 0 for all")
    suite = opened(options.suite, progress)
    test = suite.test(options.test) if options.test else None
    if options.kernel is not None:
        suite.bundle(options.kernel)  # raises with the list of kernels
        if test is not None and test.kernel != options.kernel:
            raise InputError(f"test {test.id} is of kernel {test.kernel}, not of {options.kernel}")
    kept = open_history(suite, database_url(options))
    place = kept.database.shown
    head: HistoryHeader = {
        "format": "tapml.history/1",
        "suite": suite.id,
        "suite_name": suite.name,
        "doubts": suite.doubts,
    }
    if test is not None:
        timeline: TestHistoryDocument = {
            **head,
            "test": test.id,
            "kernel": test.kernel,
            "devices": kept.timeline(test.id),
        }
        if not write_json_output(options.json, timeline):
            show_timeline(console, timeline, options.limit or None, place)
        return 0
    trends: SuiteHistoryDocument = {**head, **kept.trends(kernel=options.kernel)}
    if not write_json_output(options.json, trends):
        show_trends(console, trends, options.limit or None, place)
    return 0
