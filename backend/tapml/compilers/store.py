"""Compiled kernels kept on this machine by what they are made from."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from pydantic import TypeAdapter

from tapml.cache import cache_entry
from tapml.files import write_json
from tapml.kernels.bundle import CompiledKernel

_KERNEL = TypeAdapter(CompiledKernel)


def load(key: str) -> CompiledKernel | None:
    """What was stored under `key`; None where nothing was, or where it is damaged."""
    try:
        return _KERNEL.validate_json(_path(key).read_bytes())
    except (OSError, ValueError):
        return None


def store(key: str, kernel: CompiledKernel) -> CompiledKernel:
    """Keep `kernel` under `key`, where that can be, and give it back: a full disk only costs the next run some time."""
    with contextlib.suppress(OSError):
        write_json(_path(key), dataclasses.asdict(kernel))
    return kernel


def _path(key: str) -> Path:
    return cache_entry("kernels", key)
