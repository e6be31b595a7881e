"""Compiled kernels kept on this machine by what they are made from."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tapml.cache import cache_dir
from tapml.files import write_json
from tapml.kernels.bundle import CompiledKernel, WgslFile


def load(key: str) -> CompiledKernel | None:
    """What was stored under `key`; None where nothing was, or where it is damaged."""
    try:
        stored = json.loads(_path(key).read_text())
        return CompiledKernel(stored["document"], [WgslFile(**file) for file in stored["files"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(key: str, kernel: CompiledKernel) -> CompiledKernel:
    """Keep `kernel` under `key`, where that can be, and give it back: a full disk only costs the next run some time."""
    files = [{"name": file.name, "text": file.text} for file in kernel.files]
    with contextlib.suppress(OSError):
        write_json(_path(key), {"document": kernel.document, "files": files})
    return kernel


def _path(key: str) -> Path:
    return cache_dir() / "kernels" / key[:2] / f"{key}.json"
