"""Faults of decoders that show at positions nobody carved (`make bench-localization`, docs/localization.md).

Tiny decoders are carved with a prompt of five tokens and two after it. A mutant of a kernel that reads positions is
classified by what it gives at every position beside what the kernel gives as it was generated, on the same device: by
no bound, and not at those positions alone that `locate` tries. Then `locate` looks for it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.localization.cases import Bug, Mutable, digest
from benchmarks.localization.mutate import POSITIONS
from benchmarks.localization.run import RESULTS, say
from benchmarks.localization.working import WorkingCopy
from benchmarks.pages import between, check_docs
from tapml.cli import main as tapml
from tapml.devices.messages import KernelMessages
from tapml.locating import Locate
from tapml.locating.positions import LaterPositions
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.zoo.configurations import configuration

MODELS = {"llama": "grouped queries", "gemma2": "a window and a soft cap", "gpt2": "learned positions"}
CAPACITY = 96
_PROMPT = "3,17,42,99,7"
_TELLING = 1e-3
"""Of the largest element: what differs by more at some position is detectable, by less within the bound."""

_COLUMNS = ("mutants", "equivalent", "within the bound", "detectable", "missed", "other position", "wrongly accused")


def carved(name: str, folder: Path) -> Suite:
    """A tiny decoder with weights that are made up."""
    folder.mkdir()
    configuration(name).save_pretrained(folder)
    options = ["--prompt-ids", _PROMPT, "--capacity", str(CAPACITY), "--chunk", "8", "--steps", "2"]
    if tapml(["carve", "--hf", str(folder / "config.json"), *options, "-o", str(folder / f"{name}.suite")]) != 0:
        raise SystemExit(f"{name} was not carved")
    return Suite(folder / f"{name}.suite")


def chosen(suite: Suite, each: int) -> list[Bug]:
    """So many of each kernel and mutation operator, the same each time."""
    return [
        bug
        for kernel, operators in Mutable(suite, POSITIONS).bugs.items()
        for operator, bugs in operators.items()
        for bug in random.Random(f"{suite.name} {kernel} {operator}").sample(bugs, min(each, len(bugs)))
    ]


def judged(context: JobContext, bug: Bug, right: Sequence[Sequence[np.ndarray]]) -> dict[str, Any]:
    """What a bug is, and what `locate` says. `context`: of the suite with it; `right`: what its kernel gave without it,
    at each position."""
    got = everywhere(context, bug.kernel)
    largest = max(float(np.abs(one).max(initial=0.0)) for call in right for one in call)
    off = [max(_off(a, b) for a, b in zip(one, other, strict=True)) for one, other in zip(right, got, strict=True)]
    telling = [place for place, most in enumerate(off) if not most <= _TELLING * largest]
    document = Locate(context, kernels=[bug.kernel], model=False).run()
    accused = document["kernels"]
    details = [
        finding["details"] for found in accused for finding in found["findings"] if finding["pattern"] == "position"
    ]
    return {
        **bug.describe(),
        "class": "detectable" if telling else "within the bound" if any(off) else "equivalent",
        "first": telling[0] if telling else None,
        "accused": bool(accused),
        "position": _first(details[0]) if details else None,
        "reason": accused[0]["reason"] if accused else "",
    }


def _first(details: dict[str, Any]) -> int:
    """Of the first wrong call, whose last position is told."""
    position: int = details["position"]
    tokens: int = details["tokens"]
    return max(0, position - tokens + 1)


def _off(right: np.ndarray, got: np.ndarray) -> float:
    return float(np.abs(right.astype(np.float64) - got.astype(np.float64)).max(initial=0.0))


def everywhere(context: JobContext, kernel: str) -> list[list[np.ndarray]]:
    """What a kernel gives for its call of the fewest tokens at each position."""
    with KernelMessages(context.suite, context.blobs, [kernel]) as messages:
        calls = next(one for one in LaterPositions(context, messages).calls([kernel])[kernel] if one is not None)
        return [calls.given(first) for first in range(CAPACITY - calls.tokens + 1)]


def counted(records: Sequence[dict[str, Any]]) -> Counter[str]:
    """By column. `other position`: found, and said to be wrong from another call on."""
    found = Counter(record["class"] for record in records)
    found["mutants"] = len(records)
    for record in records:
        detectable = record["class"] == "detectable"
        found["missed"] += detectable and not record["accused"]
        found["wrongly accused"] += record["class"] == "equivalent" and record["accused"]
        found["other position"] += detectable and record["position"] not in (None, record["first"])
    return found


def table(records: Sequence[dict[str, Any]]) -> str:
    lines = [f"| model | {' | '.join(_COLUMNS)} |", "| --- " * (len(_COLUMNS) + 1) + "|"]
    for name, kind in [*MODELS.items(), ("all", "")]:
        of_model = [record for record in records if name in ("all", record["model"])]
        if of_model:
            counts = counted(of_model)
            named = f"{name} ({kind})" if kind else name
            lines.append(f"| {named} | {' | '.join(str(counts[column]) for column in _COLUMNS)} |")
    return "\n".join(lines)


def _records(names: Sequence[str], device_name: str, each: int, kept: Path) -> Iterator[dict[str, Any]]:
    known = {}
    if kept.is_file():
        known = {record["state"]: record for record in map(json.loads, kept.read_text().splitlines())}
    with tempfile.TemporaryDirectory() as folder, Server() as server, kept.open("a") as file:
        device, blobs = server.state.device(device_name), server.state.blobs
        for name in names:
            suite = carved(name, Path(folder) / name)
            copy = WorkingCopy(suite, Path(folder))
            right: dict[str, list[list[np.ndarray]]] = {}
            for bug in chosen(suite, each):
                state = f"{name} {digest(suite, bug.kernel, bug)}"
                if state not in known:
                    if bug.kernel not in right:
                        right[bug.kernel] = everywhere(JobContext(suite, [device], blobs), bug.kernel)
                    with copy.mutated([bug]) as mutated:
                        record = judged(JobContext(mutated, [device], blobs), bug, right[bug.kernel])
                    known[state] = {"state": state, "model": name, **record}
                    file.write(json.dumps(known[state]) + "\n")
                    file.flush()
                    say(f"{name} {bug.kernel}: {bug.mutant.description}: {record['class']}, {record['reason'][:80]}")
                yield known[state]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="node-dawn")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--each", type=int, default=2, help="mutants of each kernel and mutation operator")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the records: a run goes on there")
    parser.add_argument("--docs", type=Path, help="write the table between the marks in this file")
    options = parser.parse_args()
    check_docs(parser, options.docs, "positions")
    options.results.mkdir(parents=True, exist_ok=True)
    kept = options.results / f"positions-{options.device}.jsonl"
    records = list(_records(options.models, options.device, options.each, kept))
    for record in records:
        if counted([record])["missed"] or counted([record])["wrongly accused"]:
            print(f"{record['model']} {record['kernel']}: {record['description']}: {record['reason'] or 'missed'}")
    print(table(records))
    if options.docs:
        between(options.docs, "positions", table(records))
    counts = counted(records)
    return 1 if counts["missed"] or counts["wrongly accused"] else 0


if __name__ == "__main__":
    sys.exit(main())
