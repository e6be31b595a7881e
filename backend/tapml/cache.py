"""Where tapml keeps what belongs to no suite."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tapml.errors import ToolchainError

T = TypeVar("T")


def cache_dir() -> Path:
    """What can be made again: compiled kernels, the wasm runtime, model libraries.

    `$TAPML_CACHE`, else `$XDG_CACHE_HOME/tapml`, else `~/.cache/tapml`. Not created here."""
    return _folder("TAPML_CACHE", "XDG_CACHE_HOME", ".cache")


def cache_entry(kind: str, key: str) -> Path:
    """The JSON file of the cache that holds what is of this kind and has this key, a digest."""
    return cache_dir() / kind / key[:2] / f"{key}.json"


def cached(make: Callable[[Path], T]) -> T:
    """`make(cache_dir())`; where that folder cannot be written, `make` of one that goes with this process.

    Raises what `make` raises where it was not for want of room, or there is none for the other folder either.
    """
    try:
        return make(cache_dir())
    except (OSError, ToolchainError):
        # A compiler that cannot write says so in words of its own.
        if _has_room(cache_dir()):
            raise
    try:
        return make(_spare_dir())
    except OSError as error:
        raise ToolchainError(
            f"neither the cache {cache_dir()} nor a temporary folder can be written ({error.strerror or error}): free "
            "space, or name other folders by TAPML_CACHE and TMPDIR"
        ) from error


_LEAST_ROOM = 100 << 20


def _has_room(folder: Path) -> bool:
    """Could a file of some size be made there, or where it would be made?"""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(1 << 20))
        return shutil.disk_usage(there).free >= _LEAST_ROOM
    except OSError:
        return False


@functools.cache
def _spare_dir() -> Path:
    folder = tempfile.mkdtemp(prefix="tapml-cache-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def data_dir() -> Path:
    """What cannot: tests that were opened in the web page.

    `$TAPML_DATA`, else `$XDG_DATA_HOME/tapml`, else `~/.local/share/tapml`. Not created here.
    """
    return _folder("TAPML_DATA", "XDG_DATA_HOME", ".local/share")


def _folder(own: str, base: str, otherwise: str) -> Path:
    """What the environment variable `own` names, else a folder of ours in what `base` does."""
    if chosen := os.environ.get(own):
        return Path(chosen)
    return Path(os.environ.get(base) or Path.home() / otherwise) / "tapml"
