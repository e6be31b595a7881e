"""Where tapml keeps what belongs to no suite."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """What can be made again: compiled kernels, the wasm runtime, model libraries.

    `$TAPML_CACHE`, else `$XDG_CACHE_HOME/tapml`, else `~/.cache/tapml`. Not created here."""
    if chosen := os.environ.get("TAPML_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tapml"


def data_dir() -> Path:
    """What cannot: tests that were opened in the web page.

    `$TAPML_DATA`, else `$XDG_DATA_HOME/tapml`, else `~/.local/share/tapml`. Not created here.
    """
    if chosen := os.environ.get("TAPML_DATA"):
        return Path(chosen)
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "tapml"
