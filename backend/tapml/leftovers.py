"""Temporary files and folders that a killed process cannot leave for good.

While a writer works it holds a lock (flock) on its temporary entry, which the system lets go with the process, however
that ends. Whoever writes to the same place next removes those that nobody holds. Names alone prove nothing, and no
lock is waited for: what is another process's, or no entry of ours, stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

_MARK = ".tapml-unfinished"
"""Lies in every temporary folder: a folder without it is not ours, whatever its name."""

_NAME = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tapml")
_LONGEST = 200


def temporary_name(name: str) -> str:
    """A hidden name beside `name` that `sweep` knows."""
    return f".{_short(name)}.{secrets.token_hex(8)}.tapml"


def _short(name: str) -> str:
    """Names of files have at most 255 bytes, and an ending comes behind."""
    return os.fsencode(name)[:_LONGEST].decode(errors="ignore")


@contextlib.contextmanager
def temporary_file(name: str, folder: int) -> Iterator[tuple[int, str]]:
    """A new, locked, empty file beside `name` in the open folder `folder`: its descriptor and its name.

    Left without having been renamed, it is removed. Raises OSError where it cannot be made.
    """
    while True:
        temporary = temporary_name(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # Suites are meant to be read and copied: as private as the user's umask says.
        handle = os.open(temporary, flags, 0o666, dir_fd=folder)
        try:
            if not _locked_in_time(handle):
                continue  # swept between being made and being locked
            try:
                yield handle, temporary
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
            return
        finally:
            os.close(handle)


def write_into(folder: int, name: str, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file whole into the open folder `folder`: under a temporary name, then renamed. Raises OSError."""
    with temporary_file(name, folder) as (handle, temporary):
        with os.fdopen(handle, "wb", closefd=False) as file:
            for piece in pieces:
                file.write(piece)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextlib.contextmanager
def temporary_folder(path: Path, *, marked: bool = True) -> Iterator[Path]:
    """A new, locked folder beside `path`, to be put in its place when it is whole; removed if it was not.

    What a killed process leaves in it is swept only where it is `marked`.

    Raises OSError where it cannot be made.
    """
    while True:
        folder = path.parent / temporary_name(path.name)
        folder.mkdir()
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not _locked_in_time(handle):
                continue
            if marked:
                mark(folder)
            try:
                yield folder
            finally:
                remove_tree(folder)
            return
        finally:
            os.close(handle)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as it can be. Never raises; follows no link."""
    with contextlib.suppress(RecursionError):  # folders in folders in folders, by the thousand
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(folder: Path, path: Path) -> None:
    """Rename a temporary folder that is whole, or a file in one, to its place, and remove what was there before.

    Raises OSError, and what was there before is there again.
    """
    if folder.is_dir():
        (folder / _MARK).unlink(missing_ok=True)
    if not path.exists():
        folder.replace(path)
        return
    with temporary_folder(path, marked=False) as old:
        path.replace(old / path.name)
        try:
            folder.replace(path)
        except BaseException:
            (old / path.name).replace(path)
            raise
        mark(old)  # not before: killed between the two, this is all there is


def mark(folder: Path) -> None:
    """Let a temporary folder be swept when this process is no more."""
    (folder / _MARK).touch()


def sweep(folder: int, of: str | None = None) -> None:
    """Remove what dead writers left in the open folder `folder`: of the entry `of`, or of all.

    Never raises: what cannot be removed stays, and is no reason not to write.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            found = _NAME.fullmatch(name)
            if found and (of is None or found[1] == _short(of)):
                with contextlib.suppress(OSError, RecursionError):
                    _sweep_entry(folder, name)


def sweep_beside(path: Path) -> None:
    """`sweep` of what writers of `path` left beside it. Never raises."""
    with contextlib.suppress(OSError):
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sweep(handle, path.name)
        finally:
            os.close(handle)


def _sweep_entry(folder: int, name: str) -> None:
    kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return  # a link, or a FIFO that opening might wait for: never ours
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: its writer lives
        kind = os.fstat(handle).st_mode
        if stat.S_ISREG(kind):
            os.unlink(name, dir_fd=folder)
        elif stat.S_ISDIR(kind):
            entries = os.listdir(handle)  # noqa: PTH208 - of a descriptor
            if _MARK in entries and stat.S_ISREG(os.stat(_MARK, dir_fd=handle, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)  # follows no link
            elif not entries:
                os.rmdir(name, dir_fd=folder)  # killed before it was marked
    finally:
        os.close(handle)


def _locked_in_time(handle: int) -> bool:
    """Lock a new entry; False where a sweep was faster and removed it."""
    with contextlib.suppress(OSError):  # a file system without locks: nobody sweeps there either
        fcntl.flock(handle, fcntl.LOCK_EX)
    return os.fstat(handle).st_nlink > 0
