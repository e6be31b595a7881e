"""What an operator computes, as far as the tolerance needs it: accumulation lengths, builtins, any arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm_ffi import Object

_REDUCTION = 2  # tirx.IterVar.CommReduce
_ARITHMETIC = {"Add", "Sub", "Mul", "Div", "Max", "Min", "FloorDiv", "FloorMod", "Mod"}
_ROUNDED = {"Add", "Sub", "Mul", "Div"}


@dataclass(frozen=True)
class Numerics:
    """`accumulation_length`: the most terms summed into one element (1: no reduction).
    `builtins`: math functions called, sorted, without their namespace ("exp", "tanh").
    `operations`: floating-point operations an element goes through, counted in the program text.
    """

    accumulation_length: int
    builtins: tuple[str, ...]
    operations: int

    @property
    def exact(self) -> bool:
        """Only moves, selects or compares values: there is nothing to round."""
        return self.operations == 0 and not self.builtins


def numerics(prim_func: tirx.PrimFunc, extent: Callable[[Any], int] = int) -> Numerics:
    """Read the numerics off an unscheduled PrimFunc; `extent` gives the number that a loop's extent is."""
    accumulation = 1
    builtins: set[str] = set()
    operations = 0
    for node in walk(prim_func.body):
        kind = type(node).__name__
        if kind == "SBlock":
            extents = [extent(v.dom.extent) for v in node.iter_vars if int(v.iter_type) == _REDUCTION]
            accumulation = max(accumulation, math.prod(extents))
        elif kind == "Call":
            name = str(getattr(node.op, "name", ""))
            if name.startswith("tirx.") and _is_float(node) and _is_math(name):
                builtins.add(name.removeprefix("tirx."))
        elif kind == "Cast":
            # f32 -> f16 rounds. An integer's cast does too from 2^24 on, where no mask, index or count lies.
            operations += _is_float(node) and _is_float(node.value)
        elif kind in _ROUNDED and _is_float(node):
            operations += 1
    return Numerics(accumulation, tuple(sorted(builtins)), operations)


def _is_math(name: str) -> bool:
    return name not in {"tirx.if_then_else", "tirx.reinterpret", "tirx.likely"}


def _is_float(node: Any) -> bool:
    return str(getattr(node, "ty", "")).find("float") >= 0


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
