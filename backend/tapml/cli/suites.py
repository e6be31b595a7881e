"""Opening the suites that a command is given."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tapml.compiled.files import is_compiled
from tapml.errors import InputError
from tapml.reports.terminal import warn_doubts
from tapml.suite import Suite


def opened(path: Path, progress: Console) -> Suite:
    """Says at once where its reference is not to be believed. Raises InputError where `path` is no suite."""
    if is_compiled(path):
        raise InputError(
            f"{path} is a compiled model, and no suite: give the suite that it was built from; to have one, carve the "
            "model with the same inputs and options, `tapml carve MODEL ... -o MODEL.suite`, and build of that suite"
        )
    suite = Suite(path)
    warn_doubts(progress, suite.path, suite.doubts)
    return suite


def means_compiled(path: Path) -> bool:
    """Is a compiled model meant? By what is there, and where that is neither that nor a suite, by its name."""
    return is_compiled(path) or (path.suffix == ".tapml" and not (path / "suite.json").exists())
