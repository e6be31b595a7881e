"""How the terms of a reduction are put together."""

from __future__ import annotations

import dataclasses
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
