"""Opening the suites that a command is given."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tapml.reports.terminal import warn_doubts
from tapml.suite import Suite


def opened(path: Path, progress: Console) -> Suite:
    """Says at once where its reference is not to be believed. Raises InputError where `path` is no suite."""
    suite = Suite(path)
    warn_doubts(progress, suite.path, suite.doubts)
    return suite
