"""Output files of commands that find something out: what was found comes first, whatever becomes of a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.errors import InputError, TapmlError
from tapml.files import cannot_write, write_json_output
from tapml.text import indented

_NOT_WRITTEN = 2


class Outputs:
    """Writes files one by one; `exit_code` says at the end which could not be, and that this is no success."""

    def __init__(self, progress: Console) -> None:
        self._progress = progress
        self._problems: list[str] = []

    def write(self, write: Callable[[], object]) -> None:
        """Do what may raise a TapmlError for a file that cannot be written."""
        try:
            write()
        except TapmlError as error:
            self._problems.append(str(error))

    def report(self, path: Path | None, document: Mapping[str, Any], show: Callable[[], None]) -> None:
        """Show it, then write it where `--json` asks; standard output ("-") holds the document alone."""
        if str(path) != "-":
            show()
        self.write(lambda: write_json_output(path, document))

    def exit_code(self, found: int) -> int:
        """`found`, unless that is success and a file is missing."""
        for problem in self._problems:
            self._progress.print(f"tapml: {indented(problem, '  ')}", style="red")
        return found or (_NOT_WRITTEN if self._problems else 0)


def check_writable(path: Path | None) -> None:
    """Before the work is done: make the file's folder, and try. Raises InputError."""
    if path is None or str(path) == "-":
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(cannot_write(path, error)) from error
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
