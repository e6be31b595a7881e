"""How good the sentences are that locate says of faulty kernels (`make bench-explanations`, docs/localization.md).

Each mutant runs once on a device and what it gave is kept; explanations of that are made anew each time, which takes no
device.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.localization import models
from benchmarks.localization.judging import GRADES, grade
from benchmarks.localization.mutate import FURTHER
from benchmarks.localization.recording import Record, chosen, recorded
from benchmarks.localization.run import RESULTS, say
from benchmarks.localization.working import WorkingCopy
from benchmarks.pages import between, check_docs
from tapml.locating.locate import RUNS
from tapml.locating.suspects import examined, suspect
from tapml.server import Server
from tapml.suite import Suite


def explained(record: Record, suite: Suite) -> dict[str, Any] | None:
    """The sentence of a record, its grade, and the seconds of processor time it took; None where no test failed.
    `suite`: with the record's bug in it."""
    if not record.outputs:
        return None
    verdicts = {result["id"]: result["verdict"] for result in record.results}
    started = time.process_time()
    tests = [(suite.test(test), runs, verdicts[test]) for test, runs in record.outputs.items()]
    found = suspect(suite, record.bug.kernel, record.results, list(examined(suite, tests)), RUNS, {})
    return {
        "model": record.model,
        **record.bug.describe(),
        "seconds": round(time.process_time() - started, 3),
        "grade": grade(record.bug, found),
        "pattern": found["findings"][0]["pattern"] if found["findings"] else "",
        "reason": found["reason"],
    }


def text(found: Iterable[dict[str, Any]]) -> str:
    """The table of docs/localization.md."""
    by_operator: dict[str, Counter[str]] = {}
    for one in found:
        by_operator.setdefault(one["operator"], Counter())[one["grade"]] += 1
    total: Counter[str] = sum(by_operator.values(), Counter())
    lines = ["| mutation | mutants | good | vague | misleading |", "| --- | --- | --- | --- | --- |"]
    for name, counts in [*sorted(by_operator.items()), ("all", total)]:
        shares = " | ".join(
            f"{counts[kind]} ({counts[kind] / counts.total():.0%})" if name == "all" else str(counts[kind])
            for kind in GRADES
        )
        lines.append(f"| {name} | {counts.total()} | {shares} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="node-dawn")
    parser.add_argument("--models", nargs="+", choices=models.MODELS, default=list(models.MODELS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=3, help="mutants of each mutation operator and model")
    parser.add_argument("--further", action="store_true", help="other kinds of mistakes: mutate.FURTHER")
    parser.add_argument("--docs", type=Path, help="write the table between the marks in this file")
    options = parser.parse_args()
    check_docs(parser, options.docs, "explanations")
    found: list[dict[str, Any]] = []
    with Server() as server, tempfile.TemporaryDirectory() as temporary:
        for name in options.models:
            suite = models.suite(name)
            copy = WorkingCopy(suite, Path(temporary))
            bugs = chosen(name, suite, options.seed, options.each, FURTHER if options.further else None)
            folder = RESULTS / f"explanations-{options.device}"
            say(f"{name}: {len(bugs)} mutants")
            for record in recorded(
                name, suite, bugs, folder, lambda: server.state.device(options.device), server.state.blobs
            ):
                with copy.mutated([record.bug]) as broken:
                    if one := explained(record, broken):
                        found.append(one)
    kinds = "further-" if options.further else ""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"explanations-{options.device}-{kinds}{options.seed}.json").write_text(json.dumps(found, indent=1))
    for one in found:
        if one["grade"] != GRADES[0]:
            print(f"{one['grade']}: {one['model']} {one['kernel']}: {one['description']}\n  {one['reason']}")
    table = text(found)
    print(table)
    seconds = [one["seconds"] for one in found]
    print(f"processor time of a kernel's explanation: median {np.median(seconds):.1f} s, {max(seconds):.1f} s at most")
    if options.docs:
        between(options.docs, "explanations", table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
