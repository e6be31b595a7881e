"""What was counted in a text, kept on this machine as compiled kernels are: of TVM's, which builds find there, too."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable
from dataclasses import astuple, fields
from importlib import resources
from pathlib import Path

from tapml.cache import cache_entry
from tapml.compilers.auto.counting import Counts
from tapml.files import sha256, write_json

Uniforms = tuple[tuple[str, int], ...]
Count = Callable[[str, str, Uniforms], Counts]
"""Of a text, called by this entry point with these uniforms."""

_COUNTED_BY = ("counting", "integers", "kernel_text", "pieces", "statements")
"""Modules: where one has changed, what it counted is counted again."""


def kept(count: Count) -> Count:
    """As `count`, once for all processes. What it raises is not kept."""

    def counted(text: str, entry_point: str, uniforms: Uniforms) -> Counts:
        path = _path(text, entry_point, uniforms)
        with contextlib.suppress(OSError, ValueError, TypeError):  # nothing is there, or nothing of use
            numbers = [float(number) for number in json.loads(path.read_bytes())]
            if len(numbers) == len(fields(Counts)):
                return Counts(*numbers)
        found = count(text, entry_point, uniforms)
        with contextlib.suppress(OSError):  # a full disk only costs the next build some time
            write_json(path, astuple(found))
        return found

    return counted


def _path(*given: str | Uniforms) -> Path:
    return cache_entry("counts", sha256(json.dumps([_counted_by(), *given])))


@functools.cache
def _counted_by() -> str:
    folder = resources.files("tapml.compilers.auto")
    return sha256("".join((folder / f"{name}.py").read_text() for name in _COUNTED_BY))
