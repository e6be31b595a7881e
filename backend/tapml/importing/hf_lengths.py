"""The lengths from which on a decoder does something else: windows, chunks, what its positions were trained for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NAMES = ("window", "chunk", "max_position", "max_distance", "floor_scale")
"""In the names of fields of a configuration that say such a length."""


def lengths_of(config: Any, capacity: int) -> dict[str, int]:
    """By the names of their fields, those below `capacity`."""
    return {name: length for name, length in _numbers(config.to_dict()) if length < capacity}


def told(lengths: Mapping[str, int]) -> str:
    """For people; empty where there are none."""
    return ", ".join(f"{name} = {length}" for name, length in lengths.items())


def _numbers(fields: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif type(value) is int and value > 0 and any(part in name for part in _NAMES):
            yield name, value
