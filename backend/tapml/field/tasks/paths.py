"""Names of files in a task, as they may be in a URL, in a page's storage and on any disk."""

from __future__ import annotations

import re

from tapml.errors import InputError

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+@-]*[A-Za-z0-9_+@-])?")
_SUBJECT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST = 200
_EXCLUSIVE = "exclusive"


def checked_path(name: bytes) -> str:
    """Raises InputError for a name that is refused."""
    shown = ascii(name.decode("utf-8", "backslashreplace")[:_MOST])
    try:
        path = name.decode("ascii")
    except UnicodeDecodeError:
        path = ""
    if len(path) > _MOST or not all(_PART.fullmatch(part) for part in path.split("/")):
        raise InputError(
            f"{shown} is no name for a file of a task: give it at most {_MOST} of A-Z, a-z, 0-9, _, -, +, @ and ., "
            "with no . first or last in a part"
        )
    return path


def subject_of(path: str) -> tuple[str, str] | None:
    """Of an exclusive file, exclusive/SUBJECT/PATH: whose it is, and its path; None of a shared one.

    Raises InputError for a file in `exclusive` that is nobody's.
    """
    first, _, rest = path.partition("/")
    if first.lower() != _EXCLUSIVE:
        return None
    subject, _, inside = rest.partition("/")
    if first != _EXCLUSIVE or not inside or not _SUBJECT.fullmatch(subject):
        raise InputError(f"{path} is nobody's: exclusive files are named exclusive/SUBJECT/NAME")
    return subject, inside


def check_apart(paths: list[str]) -> None:
    """Raises InputError where two are one on some disks."""
    seen: dict[str, str] = {}
    for path in paths:
        if (other := seen.setdefault(path.lower(), path)) != path:
            raise InputError(f"{other} and {path} differ only in capital letters: rename one")
