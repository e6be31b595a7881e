"""Inject bugs, let `Locate` name the faulty kernels, and count (`make bench-localization`, docs/localization.md).

Every case is a line of a JSON Lines file, so that a run which was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.localization import models, table
from benchmarks.localization.baseline import TOLERANCES, Baseline
from benchmarks.localization.cases import CASES_A_MODEL, Bug, Case, cases, digest, distinct
from benchmarks.localization.equivalence import DETECTABLE, IMPLEMENTATIONS, Effect, Equivalence, classify
from benchmarks.localization.working import WorkingCopy
from benchmarks.pages import check_docs
from tapml.compilers.choose import CHOICES
from tapml.devices import Blobs, Device
from tapml.errors import TapmlError
from tapml.files import sha256
from tapml.locating import Locate
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext

RESULTS = Path("build") / "localization"

Again = Callable[[Bug], Effect]
"""What a bug changes at least, in further runs on the device under test."""


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Benchmark:
    """All cases of some models on one device."""

    def __init__(
        self, names: Sequence[str], device_name: str, seed: int, count: int, folder: Path, compiler: str = "tvm"
    ) -> None:
        self.device_name = device_name
        self.compiler = compiler
        self._seed = seed
        self._folder = folder
        self.suites: dict[str, Suite] = {}
        self.cases: dict[str, list[Case]] = {}
        for name in names:
            say(f"{name}: suite and cases")
            self.suites[name] = models.suite(name, compiler)
            unmutated = Case(f"{name}-unmutated", name, ())
            self.cases[name] = [unmutated, *cases(name, self.suites[name], seed, count)]

    @property
    def path(self) -> Path:
        """Where the records are."""
        return self._folder / f"{self.device_name}-{self.compiler}-{self._seed}.jsonl"

    @property
    def report_path(self) -> Path:
        """Where those of the last run are, judged."""
        return self.path.with_suffix(".report.json")

    def find_effects(self) -> dict[str, Equivalence]:
        """What the mutants change, on both implementations; each is started for it only."""
        found = {name: Equivalence(suite) for name, suite in self.suites.items()}
        for implementation in IMPLEMENTATIONS:
            with Server() as server:
                for name, equivalence in found.items():
                    bugs = distinct(self.cases[name])
                    start = partial(server.state.device, implementation)
                    equivalence.run(bugs, start, implementation, server.state.blobs, say)
        return found

    def run(self, effects: dict[str, Equivalence], *, resume: bool) -> list[dict[str, Any]]:
        """The records of all cases, those of an earlier run among them where it goes on."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            self.path.unlink(missing_ok=True)
        known = self._known()
        records = []
        with (
            Server() as server,
            tempfile.TemporaryDirectory() as folder,
            self.path.open("ab", buffering=0) as file,
        ):
            device, blobs = server.state.device(self.device_name), server.state.blobs
            for name, suite in self.suites.items():
                copy = WorkingCopy(suite, Path(folder))
                judged = []
                for case in self.cases[name]:
                    state = self._state(case, suite)
                    record = known.get(state)
                    if record is None:
                        record = {"state": state, **self._run(case, copy, device, blobs)}
                        # In one piece, for other runs may append to it at the same time.
                        file.write((json.dumps(record) + "\n").encode())
                        say(_line(record, len(case.bugs)))
                    judged.append((record, case))
                # After the cases: a device that knows the mutants' texts already would be quicker with them.
                baseline = Baseline(suite, self.device_name, self._folder, self._seed)
                baseline.run(distinct(self.cases[name]), device, blobs, say)
                again = partial(effects[name].again, device=device, blobs=blobs)
                records += [self._judged(record, case, effects[name], again, baseline) for record, case in judged]
        return records

    def _known(self) -> dict[str, dict[str, Any]]:
        lines = self.path.read_text().splitlines() if self.path.is_file() else []
        return {record["state"]: record for record in map(json.loads, lines)}

    def _state(self, case: Case, suite: Suite) -> str:
        """A digest of all that the case's result depends on, but for the device."""
        mutated = {bug.kernel: bug for bug in case.bugs}
        kernels = [digest(suite, kernel, mutated.get(kernel)) for kernel in suite.kernels]
        return sha256(
            " ".join([case.id, suite.path.name, models.sources("bounds", "locating", "validation"), *kernels])
        )[:24]

    def _run(self, case: Case, copy: WorkingCopy, device: Device, blobs: Blobs) -> dict[str, Any]:
        with copy.mutated(case.bugs) as suite:
            started = time.perf_counter()
            document = Locate(JobContext(suite, [device], blobs)).run()
            seconds = time.perf_counter() - started
        return {
            "case": case.id,
            "model": case.model,
            "suite": suite.id,
            "kernels": suite.kernels,
            "operators": len(suite.graph.kernel_nodes),
            "device": document["devices"][0]["name"],
            "seconds": round(seconds, 3),
            "parts": document["summary"]["parts"],
            "verdict": document["summary"]["verdict"],
            "accused": [*document["summary"]["faulty_kernels"], *document["summary"]["unbounded_kernels"]],
            "racing": document["summary"]["racing_kernels"],
            "suspicious": {found["kernel"]: found["times"] for found in document["suspicious"]},
            "suspects": [
                {
                    "kernel": found["kernel"],
                    "verdict": found["verdict"],
                    "reason": found["reason"],
                    "deterministic": found["deterministic"],
                    "excess": [output["max_excess"] for output in found["outputs"]],
                }
                for found in document["kernels"]
            ],
        }

    def _judged(
        self, record: dict[str, Any], case: Case, effects: Equivalence, again: Again, baseline: Baseline
    ) -> dict[str, Any]:
        """The record with its bugs, what each of them changes, and what the baseline says."""
        return {
            **record,
            "bugs": [described(bug, effects.effects(bug), record["accused"], again) for bug in case.bugs],
            "baseline": {
                "seconds": baseline.seconds(case.bugs),
                "accused": {str(t): sorted(baseline.accused(case.bugs, t)) for t in TOLERANCES},
            },
        }


def described(bug: Bug, effects: Mapping[str, Effect], accused: Collection[str], again: Again) -> dict[str, Any]:
    """The bug with its class. One that is detectable and was not accused runs `again` on the device under test: where
    some run there is right, whether `locate` could see it was chance."""
    if bug.kernel not in accused and classify(effects.values()) == DETECTABLE:
        effects = {**effects, "again": again(bug)}
    return {
        **bug.describe(),
        "class": classify(effects.values()),
        "effects": {name: effect.to_json() for name, effect in effects.items()},
    }


def _line(record: dict[str, Any], bugs: int) -> str:
    return f"{record['case']}: {bugs} bugs, {len(record['accused'])} accused, {record['seconds']:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="chromium", help="the device under test")
    parser.add_argument("--models", nargs="+", choices=models.MODELS, default=list(models.MODELS))
    parser.add_argument("--compiler", choices=sorted(CHOICES), default="tvm", help="whose kernels have the bugs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=CASES_A_MODEL, help="cases of each model")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run stopped")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the records")
    parser.add_argument("--docs", type=Path, help="write the table between the marks in this file")
    options = parser.parse_args()
    mark = table.mark(options.device, options.compiler)
    check_docs(parser, options.docs, mark)
    try:
        benchmark = Benchmark(
            options.models, options.device, options.seed, options.limit, options.results, options.compiler
        )
        records = benchmark.run(benchmark.find_effects(), resume=options.resume)
    except TapmlError as error:
        sys.exit(f"{error}\nthe cases so far are kept: go on with --resume")
    benchmark.report_path.write_text(json.dumps(records))
    print(table.text(records))
    if options.docs:
        table.write(options.docs, mark, records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
