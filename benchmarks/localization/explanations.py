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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.localization import models, mutate, unseen
from benchmarks.localization.cases import Bug
from benchmarks.localization.judging import GRADES, grade
from benchmarks.localization.recording import Record, chosen, recorded
from benchmarks.localization.run import RESULTS, say
from benchmarks.localization.working import WorkingCopy
from benchmarks.pages import between, check_docs
from tapml.locating.locate import RUNS
from tapml.locating.suspects import Examined, examined, suspect
from tapml.results.locate import Suspect
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
    looked_at = list(examined(suite, tests, record.trials))
    found = suspect(suite, record.bug.kernel, record.results, looked_at, RUNS, {})
    graded, by = graded_by(record, found, looked_at)
    return {
        "model": record.model,
        **record.bug.describe(),
        "seconds": round(time.process_time() - started, 3),
        "grade": graded,
        "judged by": by,
        "pattern": found["findings"][0]["pattern"] if found["findings"] else "",
        "reason": found["reason"],
    }


def graded_by(record: Record, found: Suspect, looked_at: Sequence[Examined]) -> tuple[str, str]:
    """The grade, and what it comes of."""
    if record.bug.mutant.operator in mutate.OPERATORS or record.bug.mutant.operator in mutate.FURTHER:
        return grade(record.bug, found), "kind"
    return unseen.graded(record.bug.mutant.operator, found, looked_at, record.judged)


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


def _known(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Of mutants of each mutation operator."""
    with _Recorder(options.device) as recorder:
        for name in options.models:
            suite = models.suite(name)
            bugs = chosen(name, suite, options.seed, options.each, mutate.FURTHER if options.further else None)
            say(f"{name}: {len(bugs)} mutants")
            for bug in bugs:
                if one := recorder.explained(name, suite, bug):
                    yield one


def _unseen(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Of so many faults that fail."""
    suites = {name: models.suite(name) for name in models.FURTHER}
    number = 0
    with _Recorder(options.device) as recorder:
        for name, bug in unseen.drawn(suites, options.seed):
            if one := recorder.explained(name, suites[name], bug):
                number += 1
                say(f"{number} of {options.unseen}: {name} {bug.kernel}: {one['grade']}")
                yield one
            if number == options.unseen:
                return


class _Recorder:
    """Records and explains faults, on a device that is started where one was not recorded before. A context manager."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._folder = RESULTS / f"explanations-{device}"
        self._copies: dict[str, WorkingCopy] = {}
        self._open = ExitStack()

    def __enter__(self) -> _Recorder:
        self._server = self._open.enter_context(Server())
        self._temporary = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def explained(self, model: str, suite: Suite, bug: Bug) -> dict[str, Any] | None:
        state = self._server.state
        record = recorded(model, suite, bug, self._folder, self._copy, lambda: state.device(self._device), state.blobs)
        with self._copy(suite).mutated([bug]) as broken:
            return explained(record, broken)

    def _copy(self, suite: Suite) -> WorkingCopy:
        if suite.id not in self._copies:
            self._copies[suite.id] = WorkingCopy(suite, self._temporary)
        return self._copies[suite.id]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="node-dawn")
    parser.add_argument("--models", nargs="+", choices=models.MODELS, default=list(models.MODELS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=3, help="mutants of each mutation operator and model")
    parser.add_argument("--further", action="store_true", help="other kinds of mistakes: mutate.FURTHER")
    parser.add_argument("--unseen", type=int, metavar="N", help="so many faults that were never seen (unseen.py)")
    parser.add_argument("--docs", type=Path, help="write the table between the marks in this file")
    options = parser.parse_args()
    check_docs(parser, options.docs, "explanations")
    found = list(_unseen(options) if options.unseen else _known(options))
    kinds = "unseen-" if options.unseen else "further-" if options.further else ""
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
