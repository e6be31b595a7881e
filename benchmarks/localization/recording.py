"""What faulty kernels gave: outputs of their failing tests, kept, so that explanations of them can be made again."""

from __future__ import annotations

import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.localization.cases import Bug, Mutable, digest
from benchmarks.localization.mutate import Operators
from benchmarks.localization.working import WorkingCopy
from tapml.devices import Blobs, Device
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError
from tapml.locating.examine import Examiner, Outputs
from tapml.locating.locate import RUNS
from tapml.locating.suspects import clearest
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
    model: str, suite: Suite, bugs: list[Bug], folder: Path, started: Callable[[], Device], blobs: Blobs
) -> Iterator[Record]:
    """The records of these bugs; what is not in `folder` is run now, on the device that is `started` for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        copy: WorkingCopy | None = None
        for bug in bugs:
            path = folder / f"{model}-{suite.id[:8]}-{digest(suite, bug.kernel, bug)}.pickle"
            if not path.is_file():
                copy = copy or WorkingCopy(suite, Path(temporary))
                path.write_bytes(pickle.dumps(_record(model, bug, copy, started(), blobs)))
            yield pickle.loads(path.read_bytes())  # written above, or by an earlier run


def _record(model: str, bug: Bug, copy: WorkingCopy, device: Device, blobs: Blobs) -> Record:
    with copy.mutated([bug]) as suite:
        context = JobContext(suite, [device], blobs)
        results = OperatorRun(context, kernels=[bug.kernel]).run()["tests"]
        verdicts = {result["verdict"] for result in results}
        outputs: dict[str, list[Outputs]] = {}
        if "error" not in verdicts and verdicts & {"fail", "unbounded"}:
            tests = clearest(results, suite)[:_TESTS]
            with KernelMessages(suite, blobs, [bug.kernel]) as messages:
                try:
                    outputs = Examiner(context, messages).run(tests, RUNS)
                except DeviceError:
                    outputs = {}
        return Record(model, bug, results, outputs)
