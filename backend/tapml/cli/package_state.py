"""Which state of the package this is, for what a cache keeps of it."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

_MAKING = ("building", "bounds", "carving", "compiled", "compilers", "importing", "kernels", "lowering", "models",
           "operators", "platforms", "program", "suite")  # fmt: skip
"""Rooms from which a model becomes another one when they change."""
_SOURCES = (".json", ".py", ".safetensors", ".wgsl")


def state_of_package() -> str:
    """Changes when what makes models does, also in a package that is worked on."""
    root = Path(__file__).parents[1]
    files = sorted(path for room in _MAKING for path in (root / room).rglob("*") if path.suffix in _SOURCES)
    facts = [f"{path.relative_to(root)} {(at := path.stat()).st_size} {at.st_mtime_ns}" for path in files]
    return hashlib.sha256("\n".join([version("tapml"), *facts]).encode()).hexdigest()[:16]
