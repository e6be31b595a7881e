"""`tapml locate` and `tapml reduce`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.cli.runs import run_locate
from tapml.errors import InputError
from tapml.files import write_json_output, write_text
from tapml.locating.locate import MOST_RUNS, clean
from tapml.reports.locate import show_locate
from tapml.reports.locate_html import locate_page
from tapml.suite import Suite


def locate(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 0 where nothing is suspected, 1 otherwise."""
    if not 1 <= options.runs <= MOST_RUNS:
        raise InputError(f"--runs {options.runs}: give a number from 1 to {MOST_RUNS}")
    document = run_locate(Suite(options.suite), options.device, options, progress)
    if options.html is not None:
        _write_page(options.html, document)
    if not write_json_output(options.json, document):
        show_locate(console, document)
        _suggest(options.suite, document, progress)
    if document["interrupted"]:
        return 130
    return 0 if clean(document) else 1


def _write_page(path: Path, document: Mapping[str, Any]) -> None:
    try:
        write_text(path, locate_page(document))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def _suggest(suite: Path, document: Mapping[str, Any], progress: Console) -> None:
    first = next((found["test"] for found in document["kernels"] if found["verdict"] == "fail"), None)
    if first is not None:
        text = f"make the clearest test smaller: `tapml reduce {suite} {first} -o small.html`"
        progress.print(text, markup=False, highlight=False)
