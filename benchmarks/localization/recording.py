"""What faulty kernels gave: outputs of their failing tests, kept, so that explanations of them can be made again."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.localization.cases import Bug, Mutable, digest
from benchmarks.localization.mutate import Operators
from benchmarks.localization.working import WorkingCopy
from tapml.devices import Blobs, Device
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError
from tapml.locating.evidence import Evidence
from tapml.locating.examine import Examiner, Outputs
from tapml.locating.locate import RUNS
from tapml.locating.suspects import clearest
from tapml.locating.trials import Trials
from tapml.results.validation import TestResult
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

_TESTS = 4


@dataclass(frozen=True)
class Record:
    """`outputs`: by test, those of each run, for the clearest failing tests; none where every test passes or the kernel
    does not run."""

    model: str
    bug: Bug
    results: list[TestResult]
    outputs: dict[str, list[Outputs]]
    trials: list[list[Evidence]]
    """What locate tries besides (trials.py), of the first of these tests."""
    judged: list[list[Evidence]]
    """And what neither it nor an explanation has seen: the same numbers in another order."""


def chosen(model: str, suite: Suite, seed: int, each: int, operators: Operators | None = None) -> list[Bug]:
    """So many bugs of each mutation operator, of different kernels as far as there are. `operators`: instead of
    `mutate.OPERATORS`."""
    by_operator: dict[str, list[Bug]] = {}
    for of_kernel in Mutable(suite, operators).bugs.values():
        for operator, bugs in of_kernel.items():
            by_operator.setdefault(operator, []).extend(bugs)
    found = []
    for operator, bugs in sorted(by_operator.items()):
        chance = random.Random(f"{seed} {model} {operator}")
        chance.shuffle(bugs)
        used: dict[str, int] = {}
        numbered = []
        for bug in bugs:
            used[bug.kernel] = used.get(bug.kernel, 0) + 1
            numbered.append((used[bug.kernel], bug))
        found += [bug for _, bug in sorted(numbered, key=lambda entry: entry[0])[:each]]
    return found


def recorded(
    model: str,
    suite: Suite,
    bug: Bug,
    folder: Path,
    copy: Callable[[Suite], WorkingCopy],
    started: Callable[[], Device],
    blobs: Blobs,
) -> Record:
    """The record of a bug; where it is not in `folder`, it is run now, in a `copy` of the suite, on the device that is
    `started` for it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{model}-{suite.id[:8]}-{digest(suite, bug.kernel, bug)}.pickle"
    if not path.is_file():
        path.write_bytes(pickle.dumps(_record(model, bug, copy(suite), started(), blobs)))
    found: Record = pickle.loads(path.read_bytes())  # written above, or by an earlier run
    return replace(found, bug=bug)  # another kind of mistake may make the same text


def _record(model: str, bug: Bug, copy: WorkingCopy, device: Device, blobs: Blobs) -> Record:
    with copy.mutated([bug]) as suite:
        context = JobContext(suite, [device], blobs)
        results = OperatorRun(context, kernels=[bug.kernel]).run()["tests"]
        verdicts = {result["verdict"] for result in results}
        outputs: dict[str, list[Outputs]] = {}
        trials: list[list[Evidence]] = []
        judged: list[list[Evidence]] = []
        if "error" not in verdicts and verdicts & {"fail", "unbounded"}:
            tests = clearest(results, suite)[:_TESTS]
            with KernelMessages(suite, blobs, [bug.kernel]) as messages:
                examiner = Examiner(context, messages)
                try:
                    outputs = examiner.run(tests, RUNS)
                    if tests[0].id in outputs:
                        trials = Trials(context, examiner).run(tests[0])
                        judged = Trials(context, examiner, _shuffled, 2).run(tests[0])
                except DeviceError:
                    outputs = {}
        return Record(model, bug, results, outputs, trials, judged)


def _shuffled(inputs: Sequence[np.ndarray], seed: int) -> list[np.ndarray] | None:
    chance = np.random.default_rng(1000 + seed)
    found = [chance.permuted(array) if array.dtype.kind == "f" else array for array in inputs]
    return found if any(not np.array_equal(a, b) for a, b in zip(found, inputs, strict=True)) else None
