"""Every node of a TIR program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm_ffi import Object


def walk(root: Any) -> Iterator[Any]:
    """Every TIR node below `root`, each object once, by TVM's own reflection (0.27 has no Python visitor)."""
    seen: set[int] = set()
    stack: list[Any] = [root]
    keep: list[Any] = []  # ids are only unique while the objects live
    while stack:
        node = stack.pop()
        if isinstance(node, Object) and type(node).__name__ not in {"Array", "Map"}:
            key = node.__chandle__() if hasattr(node, "__chandle__") else id(node)
            if key in seen:
                continue
            seen.add(key)
            keep.append(node)
            yield node
            stack += [getattr(node, name) for name in _fields(type(node))]
        elif _is_sequence(node):
            stack += list(node)


def _is_sequence(value: Any) -> bool:
    return type(value).__name__ in {"Array", "list", "tuple"}


def _fields(cls: type) -> list[str]:
    info = getattr(cls, "__tvm_ffi_type_info__", None)
    names: list[str] = []
    while info is not None:
        # Source spans and types lead away from the program; buffers' own fields only hold shapes.
        names += [f.name for f in info.fields if f.name not in {"span", "ty", "buffer", "annotations"}]
        info = info.parent_type_info
    return names
