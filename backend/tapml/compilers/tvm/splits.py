"""Splitting loops without asking a theorem prover for what it cannot prove.

Where the parts of a loop have more turns than the loop, TVM asks Z3 whether the surplus is within the loop, which it
never is, and which takes 17 MB for a moment. Schedule rules are TVM's own, so they are given another `split`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from tvm import s_tir, tirx

_split = s_tir.Schedule.split


@contextlib.contextmanager
def splits_without_prover() -> Iterator[None]:
    """Within it schedules split loops of known extents so, with the same result."""
    s_tir.Schedule.split = _guarding
    try:
        yield
    finally:
        s_tir.Schedule.split = _split


_DEFAULTS = {"preserve_unit_iters": True, "disable_predication": False}


def _guarding(schedule: Any, loop: Any, factors: Sequence[Any], *options: Any, **named: Any) -> Any:
    more = {name: option for name, option in named.items() if option is not _DEFAULTS.get(name)}
    whole = schedule.get(loop)
    known = [int(factor) for factor in factors if isinstance(factor, int | tirx.IntImm)]
    unknown = [factor for factor in factors if not isinstance(factor, int | tirx.IntImm)]
    if options or more or not isinstance(whole.extent, tirx.IntImm) or unknown not in ([], [None]) or 0 in known:
        return _split(schedule, loop, factors, *options, **named)
    extent = int(whole.extent)
    turns = math.prod(known)
    if (extent % turns == 0 if unknown else turns <= extent) or not _only_blocks(whole.body):
        return _split(schedule, loop, factors)
    parts = _split(schedule, loop, factors, disable_predication=True)
    place: Any = tirx.IntImm(str(whole.extent.ty), 0)
    for part in map(schedule.get, parts):
        place = place * part.extent + part.loop_var
    last = schedule.get(parts[-1])
    schedule.state.replace(schedule.get_sref(parts[-1]), _with_body(last, _guarded(last.body, place < whole.extent)))
    return parts


def _only_blocks(body: Any) -> bool:
    """Whether it is loops, and blocks one after the other."""
    if isinstance(body, tirx.SeqStmt):
        return all(map(_only_blocks, body.seq))
    return _only_blocks(body.body) if isinstance(body, tirx.For) else isinstance(body, s_tir.SBlockRealize)


def _guarded(body: Any, condition: Any) -> Any:
    if isinstance(body, tirx.For):
        return _with_body(body, _guarded(body.body, condition))
    if isinstance(body, tirx.SeqStmt):
        return tirx.SeqStmt([_guarded(part, condition) for part in body.seq])
    before = body.predicate
    both = condition if isinstance(before, tirx.IntImm) and int(before) == 1 else tirx.And(condition, before)
    return s_tir.SBlockRealize(body.iter_values, both, body.block)


def _with_body(loop: Any, body: Any) -> Any:
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.step
    )
