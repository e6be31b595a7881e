"""Other texts of a suite's kernels: tried, or written when nobody else has written meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tapml.errors import InputError, TapmlError
from tapml.files import cannot_write, sha256
from tapml.protocol.base import MAX_WGSL_BYTES
from tapml.suite.suite import Suite


class WrittenMeanwhile(TapmlError):
    """A file is another one than the text was made from."""


def files_of(suite: Suite, kernel: str) -> list[str]:
    """Names in the folder of kernels: its document, and the WGSL of its entry points. Raises InputError."""
    return [f"{kernel}.json", *_wgsl(suite.bundle(kernel))]


def with_files(suite: Suite, kernels: Iterable[str], files: Mapping[str, str]) -> Suite:
    """The suite with other texts of these kernels' files, by name, checked as any suite's are.

    Raises InputError for a file that is none of theirs, and for what makes a kernel that is none.
    """
    tried = Suite(suite.path, {f"kernels/{name}": _encoded(name, text) for name, text in files.items()})
    own = {name for kernel in kernels for name in files_of(tried, kernel)}
    for name in files:
        if name not in own:
            raise InputError(f"{name[:200]!r} is no file of {', '.join(kernels)}: give those that their documents name")
    for kernel in kernels:
        tried.kernel_files(kernel)
    return tried


def write_file(suite: Suite, kernel: str, name: str, text: str, was: str) -> None:
    """Write a file of a kernel. `was`: SHA-256 of the text that the new one was made from.

    Raises InputError for what is no file of the kernel's, for what makes a kernel that is none and where the folder
    cannot be written, WrittenMeanwhile where the file is another one by now.
    """
    with_files(suite, [kernel], {name: text})
    path = f"kernels/{name}"
    if sha256(suite.folder.read(path, MAX_WGSL_BYTES * 2)) != was:
        raise WrittenMeanwhile(
            f"{name} was written by somebody else since you began: compare the two, then save over it or take theirs"
        )
    try:
        suite.folder.write(path, text.encode())
    except OSError as error:
        raise InputError(cannot_write(suite.path / path, error)) from error


def _wgsl(bundle: Mapping[str, Any]) -> list[str]:
    return [str(entry["file"]) for variant in bundle["variants"] for entry in variant["entry_points"]]


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name[:200]!r} has halves of characters (at {error.start}): it is no text") from error
