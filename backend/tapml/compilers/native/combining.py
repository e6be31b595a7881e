"""How the terms of a reduction are put together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tapml.compilers.native.stages import Stage
from tapml.compilers.native.words import Unknown, bare
from tapml.operators.program import FLOATS, Expression


def identity(stage: Stage) -> Expression:
    """What changes nothing: a maximum may begin with its start in every lane."""
    start = stage.start
    assert start is not None
    if stage.combine in ("max", "min"):
        return start
    one: Any = 1 if stage.combine == "mul" else 0
    if start.dtype not in (*FLOATS, "int32", "int64", "uint32"):
        raise Unknown(f"a sum of {start.dtype}")
    return dataclasses.replace(start, value=float(one) if start.dtype in FLOATS else one)


def combined(combine: str | None, a: str, b: str) -> str:
    if combine in ("max", "min"):
        return f"{combine}({bare(a)}, {bare(b)})"
    return f"{a} {'+' if combine == 'add' else '*'} {b}"


def all_combined(combine: str | None, parts: Sequence[str]) -> str:
    """All of them put together, by twos, twos of these and so on: none waits for more than it must, and fewer roundings
    follow each other."""
    while len(parts) > 1:
        pairs = [combined(combine, *parts[n : n + 2]) for n in range(0, len(parts) - 1, 2)]
        if combine not in ("max", "min"):
            pairs = [f"({pair})" for pair in pairs]
        parts = [*pairs, *parts[len(pairs) * 2 :]]
    return bare(parts[0])
