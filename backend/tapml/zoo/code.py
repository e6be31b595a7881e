"""Which code a record or a kept suite is of: what another one makes or runs may differ."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_ABOVE = ("__main__.py", "api", "ci", "cli", "pytest_items.py", "pytest_plugin.py", "reports", "server")
"""Of tapml what neither makes a model nor runs it; of `server` only what runs on devices does."""

_ON_DEVICES = ("headless", "runner", "runtime")
DEFAULT = "tvm"
"""The compiler where none is asked for."""

UNKNOWN = "unknown"
"""That of records and suites which were kept before they told."""

_LIBRARIES = ("torch", "transformers", "apache-tvm")


@functools.cache
def code() -> str:
    """A digest of tapml's own files, as they are here, and the versions of what it imports with."""
    rooms = [place for place in sorted(_PACKAGE.iterdir()) if place.name not in _ABOVE]
    rooms += [_PACKAGE / "server" / "static" / name for name in _ON_DEVICES]
    digest = hashlib.sha256()
    for path in (path for room in rooms for path in [room, *sorted(room.rglob("*"))]):
        if path.is_file() and path.suffix not in (".pyc", ".pyi"):
            digest.update(f"{path.relative_to(_PACKAGE)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    versions = ", ".join(f"{name} {version(name).partition('+')[0]}" for name in _LIBRARIES)
    return f"{digest.hexdigest()[:12]} ({versions})"


def codes(record: Mapping[str, Any]) -> list[str]:
    """That made and ran what a record says, each once."""
    return list(record.get("codes", [UNKNOWN]))


def compiler_of(kept: Mapping[str, Any]) -> str:
    """What `--compiler` was of a record, or of a kept suite; TVM for those that were kept before they told."""
    return str(kept.get("compiler", DEFAULT))


def of_this_code(record: Mapping[str, Any]) -> bool:
    return codes(record) == [code()]
