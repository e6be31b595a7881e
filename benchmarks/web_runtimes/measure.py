"""Measures the runtimes side by side, on a site that is made: `python -m benchmarks.web_runtimes.measure --site ...`.

Needs Chromium and node with Dawn, and no network. Prints tables, and with `--json` writes what was found.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import between, check_docs
from benchmarks.web_runtimes.chromium import LOADS, session
from benchmarks.web_runtimes.table import page, targets

SITE = Path("build/web_runtimes/site")
RUNTIMES = ("tapml", "ort", "transformers", "tvmjs")
IN_NODE = ("tapml", "tvmjs")
"""ONNX Runtime Web is made for browsers: node's binding of Dawn crashes where it reads its shared memory."""
_AGREE = 1e-5
"""Of numbers that are at most 1."""


def measure(
    site: Path, chromium: str, node: str, dawn: str, rounds: int, seconds: float, megabits: float | None
) -> dict[str, Any]:
    """All of it, by runtime; each round has every runtime once, so that they meet the same machine. No round is begun
    that would probably end after so many seconds."""
    begun = time.monotonic()
    expected = json.loads((site / "expected.json").read_text())["embedding"]
    sessions: dict[str, list[dict[str, Any]]] = {name: [] for name in RUNTIMES}
    in_node: dict[str, list[dict[str, Any]]] = {name: [] for name in IN_NODE}
    done = 0
    while done < rounds and (time.monotonic() - begun) * (done + 1) <= seconds * max(done, 1):
        for name in RUNTIMES:
            sessions[name].append(session(chromium, site, name, LOADS, megabits))
            print(f"round {done + 1}: {name}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        for name in IN_NODE:
            in_node[name].append(_in_node(node, dawn, site, name))
        done += 1
    start = sessions["tapml"][0]["start"]
    return {
        "browser": start["userAgent"],
        "adapter": start["adapter"],
        "rounds": done,
        "megabits": megabits,
        "chromium": {name: summary(found, expected) for name, found in sessions.items()},
        "node": {
            name: _medians(found, ("cpu", "until", "dispatches", "submissions")) for name, found in in_node.items()
        },
        "planned": planned(site),
    }


def planned(site: Path) -> int:
    """Bytes of the compiled model's weights and of its plan."""
    model = json.loads((site / "tapml/minilm.tapml/model.json").read_text())
    return sum(model["weights"]["buffers"]) + sum(model["functions"]["main"]["arena"])


def summary(sessions: Sequence[dict[str, Any]], expected: Sequence[float]) -> dict[str, Any]:
    """Medians of sessions, and whether all embeddings agree with the reference."""
    found: dict[str, Any] = {}
    for load in ("cold", "warm"):
        loads = [each[load] for each in sessions]
        weights, other = zip(*(_split(each["bytes"]) for each in loads), strict=True)
        found[load] = {
            **_medians(loads, ("loaded", "first")),
            "all": [round(each["first"]) for each in loads],
            "weights": statistics.median(weights),
            "other": statistics.median(other),
        }
    found["files"] = sessions[0]["cold"]["bytes"]
    found["host"] = _medians([each["host"] for each in sessions], ("cpu", "until", "whole"))
    memory = [each["memory"] for each in sessions]
    found["host"] |= _medians(memory, ("dispatches", "submissions"))
    found["memory"] = _medians([each["memory"] for each in memory], ("live", "most", "buffers"))
    worst = max(
        abs(given - wanted)
        for each in sessions
        for load in LOADS[1:]
        for given, wanted in zip(each[load]["embedding"], expected, strict=True)
    )
    found["difference"] = worst
    found["agrees"] = worst <= _AGREE
    return found


def _split(sent: dict[str, int]) -> tuple[int, int]:
    """Bytes of weights, and of all else but the page itself."""
    weights = sum(count for path, count in sent.items() if path.endswith((".bin", ".onnx")))
    return weights, sum(sent.values()) - weights


def _medians(found: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in found) for name in names}


def _in_node(node: str, dawn: str, site: Path, runtime: str) -> dict[str, Any]:
    command = [node, str(site / "node.mjs"), dawn, runtime]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not lines:
        raise SystemExit(f"{runtime} in node: {ran.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--chromium", default=os.environ.get("TAPML_CHROMIUM") or shutil.which("chromium"))
    parser.add_argument("--node", default=os.environ.get("TAPML_NODE") or shutil.which("node"))
    parser.add_argument("--dawn", default=os.environ.get("TAPML_DAWN") or "runner_js/node_modules/webgpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=170, help="no more rounds after these")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    parser.add_argument("--found", type=Path, help="what a former --json wrote: nothing is measured")
    parser.add_argument("--docs", type=Path, help="the page that the tables go to")
    parser.add_argument("--megabits", type=float, help="of the line, each second; without it as fast as it goes")
    options = parser.parse_args()
    check_docs(parser, options.docs, "made by make bench-runtime")
    if options.found:
        found = json.loads(options.found.read_text())
    else:
        dawn = str(Path(options.dawn).resolve() / "index.js")
        where = options.site.resolve(), options.chromium, options.node, dawn
        found = measure(*where, options.rounds, options.seconds, options.megabits)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    print(page(found))
    if options.docs:
        between(options.docs, "made by make bench-runtime", page(found))
    missed = [line for line, held in targets(found) if not held]
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
