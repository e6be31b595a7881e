"""Plan the memory of Stable Diffusion 1.4's networks in float16, and of suites (`make bench-plan SUITES=x.suite`).

Nothing is run, and no weights are needed. What was planned is kept in build/bench-plan.json: what is left out by
`--only` stays in the table.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.memory_plan.stable_diffusion import Planned, network
from benchmarks.pages import between, check_docs
from tapml.building.planning import best, buffers_for_sizes, plans
from tapml.building.strategies import STRATEGIES
from tapml.suite import Suite

RECORDS = Path("build/bench-plan.json")
MIB = 2**20

_WHOLE = "attention one operator"
_CASES: dict[str, tuple[Callable[[], Planned], str]] = {
    f"text encoder, batch 2, {_WHOLE}": (lambda: network("text encoder", 2, whole_attention=True), "62 → 2"),
    f"UNet, batch 2, {_WHOLE}, GEGLU in two": (
        lambda: network("UNet", 2, whole_attention=True, halved=True),
        "2075 → 65",
    ),
    f"VAE decoder, batch 1, {_WHOLE}": (lambda: network("VAE decoder", 1, whole_attention=True), "2274 → 320"),
    f"UNet, batch 2, {_WHOLE}": (lambda: network("UNet", 2, whole_attention=True), ""),
    f"UNet, batch 1, {_WHOLE}": (lambda: network("UNet", 1, whole_attention=True), ""),
    "UNet, batch 1, as TVM lowers it": (lambda: network("UNet", 1), ""),
    "VAE decoder, batch 1, as TVM lowers it": (lambda: network("VAE decoder", 1), ""),
}
"""With what ML Drift says of it, naive and planned."""


def _planned(made: Planned) -> dict[str, Any]:
    found = buffers_for_sizes(made.graph, made.kernels)
    begun = time.perf_counter()
    given = plans(made.graph, found)
    seconds = time.perf_counter() - begun
    plan = best(given)
    return {
        "tensors": len(found),
        "naive": plan.naive,
        "planned": plan.bytes,
        "lower_bound": plan.lower_bound,
        "arenas": list(plan.arenas),
        "strategy": plan.strategy,
        "strategies": {one.strategy: one.bytes for one in given},
        "seconds": seconds,
    }


def _of_suite(path: Path) -> Planned:
    suite = Suite(path)
    return Planned(suite.model_graph, {name: suite.bundle(name) for name in suite.kernels})


def _table(records: dict[str, dict[str, Any]]) -> str:
    names = list(STRATEGIES)
    lines = [
        f"| graph | tensors | naive | planned | lower bound | arenas | {' | '.join(names)} | ML Drift |",
        f"| --- | {'--: | ' * (5 + len(names))}--- |",
    ]
    for name, found in records.items():
        each = " | ".join(_mib(found["strategies"][strategy]) for strategy in names)
        told = [found["tensors"], *(_mib(found[key]) for key in ("naive", "planned", "lower_bound"))]
        lines.append(f"| {name} | {' | '.join(map(str, told))} | {len(found['arenas'])} | {each} | {found['said']} |")
    return "\n".join(lines)


def _mib(count: int) -> str:
    return f"{count / MIB:.0f}" if count >= 1000 * MIB else f"{count / MIB:.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", type=Path)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--docs", type=Path, metavar="FILE")
    options = parser.parse_args()
    check_docs(parser, options.docs, "made by make bench-plan")
    cases = {name: case for name, case in _CASES.items() if options.only.search(name)}
    cases |= {f"`{path.name}`": (lambda path=path: _of_suite(path), "") for path in options.suites}
    records = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    for name, (make, said) in cases.items():
        records[name] = {**_planned(make()), "said": said}
        print(f"{name}: {records[name]}", flush=True)
        RECORDS.parent.mkdir(exist_ok=True)
        RECORDS.write_text(json.dumps(records, indent=1))
    order = {name: records[name] for name in (*_CASES, *sorted(records)) if name in records}
    print(_table(order))
    if options.docs:
        between(options.docs, "made by make bench-plan", _table(order))
    return 0


if __name__ == "__main__":
    sys.exit(main())
