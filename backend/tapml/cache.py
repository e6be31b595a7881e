"""Where tapml keeps what it can make again: compiled kernels, the wasm runtime, model libraries."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$TAPML_CACHE`, else `$XDG_CACHE_HOME/tapml`, else `~/.cache/tapml`. Not created here."""
    if chosen := os.environ.get("TAPML_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tapml"
