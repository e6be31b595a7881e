"""Format names with a version ("tapml.suite/1"), and reading JSON that may be damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tapml.errors import InputError


def read_json(path: Path) -> Any:
    """Raises InputError where the file is missing or no JSON."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; copy the suite again") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}; copy the suite again, or carve it again") from error


def format_version(path: Path, found: Any, newest: str, what: str) -> int:
    """The version in a document's `format`. Raises InputError for another family or a version above `newest`.

    `what` says in words what a document of that family is ("a suite").
    """
    family, _, version = str(found).partition("/")
    known_family, _, known_version = newest.partition("/")
    if family != known_family or not version.isdigit():
        raise InputError(f"{path} has the format {found!r}, not {newest!r}: it is not {what}")
    if int(version) > int(known_version):
        raise InputError(
            f"{path} was written by a newer tapml (format {found}; this one reads up to {newest}): "
            "update with `pip install --upgrade tapml`"
        )
    return int(version)
