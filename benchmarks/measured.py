"""Measurements of a benchmark: a JSON line each, and an exit code by their targets."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

_missed: list[str] = []


def report(
    name: str, value: float, unit: str, target: float | None = None, *, at_least: bool = False, **more: object
) -> None:
    """One measurement: `target` is the most that it may be, or the least."""
    good = target is None or (value >= target if at_least else value <= target)
    if not good:
        _missed.append(name)
    line = {"name": name, "value": round(value, 4), "unit": unit, "target": target, "ok": good, **more}
    print(json.dumps(line), flush=True)


def exit_code() -> int:
    """1 where a target was missed, which is said."""
    if _missed:
        print(f"targets missed: {', '.join(_missed)}", file=sys.stderr)
    return 1 if _missed else 0


def median_seconds(action: Callable[[], object], rounds: int = 7) -> float:
    """After one round that does not count."""
    action()
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)
