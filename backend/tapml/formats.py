"""Reading documents that strangers wrote: JSON of bounded depth and size, checked by type, with a format name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tapml.errors import InputError
from tapml.first_error import first_error
from tapml.folder import Folder
from tapml.strict_json import parse_json

MOST_BYTES = 32_000_000
"""Of one document; ten thousand tests take 13 MB."""

_MOST_CONTAINERS = 1_000_000
_MOST_SHOWN = 60
REMEDY = "; copy the suite again, or carve it again"
_ESCAPE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.")

Form = TypeVar("Form")


def read_json(folder: Folder, name: str, *, most: int = MOST_BYTES) -> Any:
    """A document of a suite. Raises InputError where it is missing (FileMissing), no regular file of the suite's folder
    or not what `parse_json` takes.
    """
    data = whole_pairs(folder.read(name, most))
    return parse_json(data, folder.path / name, REMEDY.removeprefix("; "), most_containers=_MOST_CONTAINERS)


def whole_pairs(data: bytes) -> bytes:
    """JSON of our own with U+FFFD, which can be printed, for halves of surrogate pairs: they stand for bytes of a path
    or an argument that are no UTF-8."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if len(escape[0]) == 6 else escape[0], data)


def validated(where: Path | str, form: type[Form] | TypeAdapter[Form], found: Any, remedy: str) -> Form:
    """`found` as a `form`. Raises InputError with `where`, the first field that is wrong, and the fix."""
    adapter = form if isinstance(form, TypeAdapter) else TypeAdapter(form)
    try:
        return adapter.validate_python(found)
    except ValidationError as error:
        raise wrong_field(where, error, remedy) from error


def wrong_field(where: Path | str, error: ValidationError, remedy: str) -> InputError:
    """A sentence of the first thing that is wrong."""
    return InputError(f"{where}: {first_error(error)}{remedy}")


def format_version(path: Path | str, document: Any, newest: str, what: str) -> int:
    """The version in a document's `format`. Raises InputError for another family or a version above `newest`.

    `what` says in words what a document of that family is ("a suite").
    """
    found = document.get("format") if isinstance(document, dict) else None
    shown = repr(found)[:_MOST_SHOWN] if isinstance(found, str | None) else f"a {type(found).__name__}"
    family, _, version = found.partition("/") if isinstance(found, str) else ("", "", "")
    known_family, _, known_version = newest.partition("/")
    if family != known_family or not re.fullmatch(r"[0-9]{1,9}", version):
        raise InputError(f"{path} has the format {shown}, not {newest!r}: it is not {what}")
    if int(version) > int(known_version):
        raise InputError(
            f"{path} was written by a newer tapml (format {found}; this one reads up to {newest}): "
            "update with `pip install --upgrade tapml`"
        )
    return int(version)
