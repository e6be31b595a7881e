"""What was measured, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def least(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One run of several on the same device, without parameters: of each work what was measured side by side where the
    first kernel took the least time, that is, where the GPU's clock was the highest."""
    best: dict[tuple[str, str], tuple[float, Mapping[str, Any]]] = {}
    for run in runs:
        for work in run["works"]:
            timed = [one for one in work.get("candidates", ()) if "us" in one and not one["parameters"]]
            key = work["name"], work["dtype"]
            if timed and (key not in best or timed[0]["us"] < best[key][0]):
                best[key] = timed[0]["us"], {**work, "candidates": timed}
    return {**runs[0], "works": [work for _, work in best.values()]}


def table(found: Mapping[str, Any], device: str) -> str:
    """Of `works` as measure.mjs gives them, with their goals."""
    swept = any(one["parameters"] for work in found["works"] for one in work.get("candidates", ()))
    heads = ["", "TVM", "native", "native to TVM", "at most (H200)", "to that"]
    heads += ["best parameters", "their time"] if swept else []
    lines = [
        f"GPU time of a call in microseconds, {device}:",
        "",
        f"| {' | '.join(heads)} |",
        f"|{' --- |' * len(heads)}",
    ]
    lines += [f"| {' | '.join(_cells(work)[: len(heads)])} |" for work in found["works"]]
    return "\n".join(lines)


def _cells(work: Mapping[str, Any]) -> list[str]:
    name = f"{work['name']} {work['dtype'].replace('float', 'f')}"
    if "error" in work:
        return [name, work["error"], *[""] * 6]
    timed = {one["compiler"]: one.get("us") for one in work["candidates"] if not one["parameters"]}
    swept = [one for one in work["candidates"] if one["parameters"] and "us" in one]
    tvm, native, goal = timed.get("tvm"), timed.get("native"), work["goal"]
    best = min(swept, key=lambda one: float(one["us"]), default=None)
    return [
        name,
        _number(tvm),
        _number(native),
        f"{native / tvm:.2f}" if native and tvm else "",
        f"{goal:g}" if goal else "",
        f"{native / goal:.2f}" if native and goal else "",
        best["parameters"] if best else "",
        _number(best["us"] if best else None),
    ]


def _number(us: float | None) -> str:
    return "" if us is None else f"{us:.1f}" if us < 100 else f"{us:,.0f}"
