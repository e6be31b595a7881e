"""Whether a suite is still what was read of it."""

from __future__ import annotations

from pathlib import Path

from tapml.errors import InputError
from tapml.files import sha256
from tapml.folder import FileMissing, Folder
from tapml.formats import MOST_BYTES
from tapml.suite.imported import FILE as IMPORTED_FILE

_READ = ("suite.json", "program.json", "graph.json", "tests.json", IMPORTED_FILE)
"""All that opening a suite reads; kernels, tensors and results are read later."""


def read_sha256(path: Path) -> str | None:
    """Of all files that opening the suite in `path` reads; None where one of them cannot be read."""
    folder, found = Folder(path), []
    for name in _READ:
        try:
            found.append(sha256(folder.read(name, MOST_BYTES)))
        except FileMissing:
            found.append("")
        except InputError:
            return None
    return sha256(" ".join(found))
