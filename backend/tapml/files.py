"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.folder import Folder
from tapml.text import json_escaped, nearest

_MOST_BESIDE = 2_000
"""Of a folder's names, those that are looked at."""


def meant_beside(path: Path, suffix: str) -> str:
    """As `meant`, for a path that does not exist: by the names in its folder that end so."""
    try:
        with os.scandir(path.parent) as entries:
            beside = sorted(entry.name for entry in itertools.islice(entries, _MOST_BESIDE))
    except OSError:
        return ""
    # By what differs: what they all end with makes none nearer.
    near = nearest(path.stem, (name.removesuffix(suffix) for name in beside if name.endswith(suffix)))
    return f", did you mean {near}{suffix}?" if near is not None else ""


def check_file(path: Path, of: str = "") -> None:
    """Raise InputError, with the name that is meant, unless a file is at `path`. `of`: what it is, in brackets."""
    if path.is_dir():
        raise InputError(f"{path}{of}: it is a folder: give a file")
    if not path.is_file():
        raise InputError(f"{path}{of}: there is no such file{meant_beside(path, path.suffix)}")


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write `data` to a temporary name beside `path`, then rename over it. Makes the folder where needed.

    Where `path` is a link, the link is replaced. What killed writers left beside it is removed.
    """
    write_pieces(path, [data])


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """As `write_bytes`; also what making the pieces raises leaves nothing behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Folder(path.parent).write_pieces(path.name, pieces)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, document: Any) -> None:
    """As `json_bytes` has it."""
    write_bytes(path, json_bytes(document))


def json_bytes(document: Any) -> bytes:
    """UTF-8 JSON, indented, strict (NaN and infinity are a ValueError: encode them first)."""
    return f"{json_text(document)}\n".encode()


def json_text(document: Any, indent: int | None = 1) -> str:
    """Strict JSON in UTF-8's characters, but for those that a terminal obeys and lone surrogates (what is no UTF-8 in
    an argument or a path): their escapes mean the same. Raises ValueError for NaN and infinity: encode them first."""
    return json_escaped(json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False))


def write_json_output(path: Path | None, document: Any) -> bool:
    """Write where `--json` asks; True where that is standard output ("-"), which then holds nothing else.

    Raises InputError where the file cannot be written.
    """
    if path is None:
        return False
    if str(path) == "-":
        print(json_text(document))
        return True
    try:
        write_json(path, document)
    except OSError as error:
        raise InputError(cannot_write(path, error)) from error
    return False


_ELSEWHERE = "free space there, or choose another place"
_MENDS = {
    errno.ENOSPC: _ELSEWHERE,
    errno.EDQUOT: _ELSEWHERE,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or choose another place",
    errno.EROFS: "choose a place that can be written",
    errno.EACCES: "see to its permissions, or choose another place",
    errno.EPERM: "see to its permissions, or choose another place",
    errno.ENOENT: "see that its folder is still there, or choose another place",
}
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


def is_full(error: OSError) -> bool:
    """Does it say that a place takes no more, whatever is written there?"""
    # Python tries to write to all folders for temporary files before it raises this.
    return error.errno in _FULL or "temporary directory" in str(error.strerror)


def cannot_write(what: object, error: OSError) -> str:
    """One sentence: what cannot be written, why, and the fix."""
    return f"cannot write {what}: {why(error)}"


def why(error: OSError) -> str:
    """What is wrong with the place, and the fix."""
    return f"{error.strerror or error}; {_MENDS.get(error.errno or 0, 'choose another place')}"


def sha256(data: bytes | memoryview | str) -> str:
    """Lower-case hexadecimal SHA-256."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def unique(name: str, taken: Callable[[str], bool], separator: str = "-") -> str:
    """`name`, with the first number from 2 on behind it where it is taken."""
    names = (f"{name}{separator}{number}" if number > 1 else name for number in itertools.count(1))
    return next(candidate for candidate in names if not taken(candidate))


def slug(name: str, otherwise: str) -> str:
    """A name made fit for a file or an id; `otherwise` where nothing of it is left."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or otherwise
