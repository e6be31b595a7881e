"""What `tapml carve --external` takes: Python files with functions, folders with kernels."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tapml.errors import InputError

_MODULE = "tapml_external"


def external(paths: Sequence[Path]) -> tuple[dict[str, Callable[..., Any]], list[Path]]:
    """The functions of the files, by name, and the folders.

    The files are run: they are the user's own. Raises InputError for what is neither, and what cannot be run.
    """
    functions: dict[str, Callable[..., Any]] = {}
    folders = []
    for path in paths:
        if path.is_dir():
            folders.append(path)
        elif path.suffix == ".py" and path.is_file():
            functions |= _functions(path)
        else:
            raise InputError(f"--external {path}: give a .py file with functions, or a folder with kernels")
    return functions, folders


def _functions(path: Path) -> dict[str, Callable[..., Any]]:
    try:
        found = runpy.run_path(str(path), run_name=_MODULE)
    except Exception as error:  # whatever its author raises
        raise InputError(f"--external {path} cannot be run: {type(error).__name__}: {error}") from error
    own = {name: value for name, value in found.items() if getattr(value, "__module__", "") == _MODULE}
    functions = {name: value for name, value in own.items() if callable(value) and not name.startswith("_")}
    if not functions:
        raise InputError(f"--external {path} has no function: define one with the name of each operator it computes")
    return functions
