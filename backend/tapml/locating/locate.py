"""Locate: name the faulty kernels of a suite on a device, with the reason in words (tapml.locate/1)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError
from tapml.locating.examine import Examiner
from tapml.locating.positions import Later, LaterPositions
from tapml.locating.races import irreproducible, missing_barriers
from tapml.locating.reliance import relying
from tapml.locating.suspects import Examined, clearest, examined, racing, suspect
from tapml.locating.suspicious import suspicious
from tapml.locating.trials import Trials
from tapml.results.locate import (
    LocateDocument,
    LocateVerdict,
    MissingBarrier,
    ModelCheck,
    Suspect,
    Suspicious,
    TriedPositions,
)
from tapml.results.validation import TestResult, ValidationDocument
from tapml.results.verdicts import SEVERITY
from tapml.suite import CarvedTest, Suite
from tapml.validation.context import JobContext
from tapml.validation.events import Cancelled
from tapml.validation.operatorwise import OperatorRun
from tapml.validation.results import header

RUNS = 3
"""Of each examined test: two that begin alike, for races, and one on another fill."""

MOST_RUNS = 100

_RAN = ("pass", "fail", "unbounded")
_RACE = "{} elements differ from run to run with the same inputs: a race"

# So many tests of a kernel make and test an explanation; its others run again too, for races.
_TESTS_A_KERNEL = 4
_TESTS_A_CALL = 64


class Locate:
    """One search on one device; `run` blocks until it is through.

    Every kernel is judged by its own carved inputs, so a fault does not spread to the kernels behind it: only those
    whose own tests fail are accused. Where none is and the whole model fails, the fault is a compound one, and the
    nodes that make it are searched for.
    """

    def __init__(
        self,
        context: JobContext,
        *,
        kernels: Sequence[str] | None = None,
        runs: int = RUNS,
        model: bool = True,
    ) -> None:
        """`kernels`: only these; `runs`: how often a failing test runs again; `model`: run the whole model where every
        operator passes (not with `kernels`, and not where the suite has no model).

        Raises InputError for an unknown kernel, or a tensor that is missing or corrupted."""
        self._context = context
        self.suite = context.suite
        self.device = context.device
        self._runs = runs
        self._model = model and not kernels and bool(self.suite.manifest["steps"])
        self._emit = context.emit
        self._seconds: dict[str, float] = dict.fromkeys(("validate", "examine", "positions", "rounding", "model"), 0.0)
        self._operators = OperatorRun(
            context.only("device", "kernels", "compile", "verdict", "message"), kernels=kernels
        )

    def run(self) -> LocateDocument:
        """Validate, examine what fails, hold what passes against simulated rounding, and run the model where nothing
        fails; gives the document, also after a cancel."""
        operators = self._operators
        self._emit({"type": "started", "kind": "locate", "total": operators.total, "kernels": operators.kernels})
        with self._timed("validate"):
            validation = operators.run()
            relies = relying(self.suite, validation["tests"], self._context.message)
        by_kernel: Mapping[str, list[TestResult]] = defaultdict(list)
        for result in validation["tests"]:
            if what := relies.get(result["id"]):
                result = {**result, "verdict": "unbounded", "message": what}
            by_kernel[result["kernel"]].append(result)
        interrupted = validation["interrupted"]
        suspects: list[Suspect] = []
        beyond: list[Suspicious] = []
        unordered: list[MissingBarrier] = []
        positions: TriedPositions | None = None
        model: ModelCheck | None = None
        tests: dict[str, list[Examined]] = {}
        races: dict[str, int] = {}
        bad = _failing(by_kernel)
        try:
            with self._timed("examine"):
                if not interrupted:
                    races = irreproducible(self._context, _without(bad, by_kernel), self._emit_examined)
                    by_kernel = _accused(by_kernel, {test: _RACE.format(count) for test, count in races.items()})
                    bad = _failing(by_kernel)
                    unordered = missing_barriers(self.suite, _without(bad, by_kernel))
                    tests, more = self._examine(bad, races)
                    races |= more
            with self._timed("positions"):
                if not interrupted and self.suite.generation:
                    later, positions = self._later_positions(by_kernel)
                    by_kernel = _accused(by_kernel, {one.examined.test.id: one.text for one in later.values()})
                    bad = _failing(by_kernel)
                    tests = _with_later(tests, later)
            suspects = self._suspects(bad, tests, races)
            with self._timed("rounding"):
                if not interrupted:
                    beyond = suspicious(self._context, _without(bad, by_kernel), self._emit_examined)
            if self._model and not interrupted and self._runs_whole(suspects):
                with self._timed("model"):
                    model = self._whole_model(by_kernel, suspects)
        except Cancelled:
            interrupted = True
            suspects = suspects or self._suspects(bad, tests, races)
        return self._document(validation, suspects, beyond, unordered, positions, model, interrupted=interrupted)

    def _document(
        self,
        validation: ValidationDocument,
        suspects: list[Suspect],
        beyond: list[Suspicious],
        unordered: list[MissingBarrier],
        positions: TriedPositions | None,
        model: ModelCheck | None,
        *,
        interrupted: bool,
    ) -> LocateDocument:
        faulty = [found["kernel"] for found in suspects if found["verdict"] in ("fail", "error")]
        unbounded = [found["kernel"] for found in suspects if found["verdict"] == "unbounded"]
        compound = model is not None and model["verdict"] != "pass"
        edited, digests = validation["edited_kernels"], validation["kernel_digests"]
        verdict: LocateVerdict = "unknown" if interrupted else "clean"
        if faulty or unbounded or compound:
            verdict = "faulty" if faulty else "unbounded" if unbounded else "compound"
        return {
            "format": "tapml.locate/1",
            **header(self.suite, [self.device], interrupted=interrupted, edited=edited, digests=digests),
            "runs": self._runs,
            "summary": {
                "faulty_kernels": faulty,
                "unbounded_kernels": unbounded,
                "verdict": verdict,
                "tests": len(validation["tests"]),
                "seconds": round(sum(self._seconds.values()), 4),
                "parts": {name: round(seconds, 4) for name, seconds in self._seconds.items()},
                "suspicious_kernels": [found["kernel"] for found in beyond],
                "racing_kernels": list(dict.fromkeys(found["kernel"] for found in unordered)),
            },
            "kernels": suspects,
            "suspicious": beyond,
            "missing_barriers": unordered,
            "positions": positions,
            "model": model,
        }

    def _examine(
        self, bad: Mapping[str, Sequence[TestResult]], racy: Mapping[str, int]
    ) -> tuple[dict[str, list[Examined]], dict[str, int]]:
        """All failing tests run again: (kernel -> its clearest ones with their patterns, test -> elements that differ
        from run to run). `racy`: tests that passed, and differ from run to run. A device that is gone leaves what the
        verdicts tell."""
        failing = {name: clearest(results, self.suite) for name, results in bad.items()}
        chosen = [test for tests in failing.values() for test in tests[:_TESTS_A_KERNEL]]
        rest = [test for tests in failing.values() for test in tests[_TESTS_A_KERNEL:]] if self._runs > 1 else []
        found: dict[str, list[Examined]] = defaultdict(list)
        races: dict[str, int] = {}
        if not chosen:
            return found, races
        verdicts = {result["id"]: result["verdict"] for results in bad.values() for result in results}
        verdicts |= dict.fromkeys(racy, "pass")
        names = [name for name, tests in failing.items() if tests]
        # What failed may be a variant that the device would not take.
        ran = {result["kernel"]: result.get("variant") for results in bad.values() for result in results}
        alone = {name: variant for name, variant in ran.items() if variant}
        with KernelMessages(self.suite, self._context.blobs, names, alone) as messages:
            examiner = Examiner(self._context, messages)
            trials = Trials(self._context, examiner)
            total = len(chosen) + len(rest)
            try:
                outputs = examiner.run(chosen, self._runs)
                number = 0
                for tests in failing.values():
                    self._context.cancel.check()
                    known = [(t, outputs[t.id], verdicts[t.id]) for t in tests[:_TESTS_A_KERNEL] if t.id in outputs]
                    tried = trials.run(known[0][0]) if known else []
                    for one in examined(self.suite, known, tried):
                        self._context.cancel.check()
                        found[one.test.kernel].append(one)
                    number += len(tests[:_TESTS_A_KERNEL])
                    if tests:
                        self._emit_examined(tests[0], number, total)
                for start in range(0, len(rest), _TESTS_A_CALL):
                    part = rest[start : start + _TESTS_A_CALL]
                    races |= {test: racing(runs) for test, runs in examiner.run(part, self._runs).items()}
                    self._emit_examined(part[-1], len(chosen) + start + len(part), total)
            except DeviceError as error:
                self._context.message(f"the failing tests could not all be run again: {error.summary}")
        return found, races

    def _later_positions(
        self, by_kernel: Mapping[str, list[TestResult]]
    ) -> tuple[dict[str, Later], TriedPositions | None]:
        bad = _failing(by_kernel)
        runs = [name for name, found in by_kernel.items() if all(test["verdict"] in _RAN for test in found)]
        with KernelMessages(self.suite, self._context.blobs, runs) as messages:
            try:
                return LaterPositions(self._context, messages).run(runs, {*_without(bad, by_kernel)})
            except DeviceError as error:
                self._context.message(f"not all operators could be run at later positions: {error.summary}")
                return {}, None

    def _emit_examined(self, test: CarvedTest, number: int, total: int) -> None:
        progress = {"kernel": test.kernel, "test": test.id, "number": number, "total": total}
        self._emit({"type": "examine", "device": self.device.id, **progress})

    def _suspects(
        self,
        bad: Mapping[str, Sequence[TestResult]],
        tests: Mapping[str, Sequence[Examined]],
        races: Mapping[str, int],
    ) -> list[Suspect]:
        """Most certain first; what is unsupported last."""
        found = [
            suspect(self.suite, name, results, tests.get(name, ()), self._runs, races) for name, results in bad.items()
        ]
        return sorted(found, key=lambda entry: (-entry["score"], -SEVERITY.index(entry["verdict"])))

    def _runs_whole(self, suspects: Sequence[Suspect]) -> bool:
        """Where every operator passes; of a decoder also where some give wrong numbers: at which token does it show?"""
        verdicts = {found["verdict"] for found in suspects}
        return verdicts <= ({"unsupported", "fail"} if self.suite.generation else {"unsupported"})

    def _whole_model(self, by_kernel: Mapping[str, Sequence[TestResult]], suspects: Sequence[Suspect]) -> ModelCheck:
        from tapml.locating.whole_model import WholeModel  # late: TVM takes seconds to load

        results = {result["id"]: result for found in by_kernel.values() for result in found}
        accused = [found["kernel"] for found in suspects if found["verdict"] == "fail"]
        return WholeModel(self._context, results, accused).run()

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[part] = time.perf_counter() - started


def _failing(by_kernel: Mapping[str, list[TestResult]]) -> dict[str, list[TestResult]]:
    return {name: found for name, found in by_kernel.items() if any(test["verdict"] != "pass" for test in found)}


def _without(
    bad: Mapping[str, Sequence[TestResult]], by_kernel: Mapping[str, list[TestResult]]
) -> dict[str, list[TestResult]]:
    return {name: found for name, found in by_kernel.items() if name not in bad}


def _accused(by_kernel: Mapping[str, list[TestResult]], texts: Mapping[str, str]) -> dict[str, list[TestResult]]:
    """With a failure for each test that passed and has a text of what is wrong all the same."""

    def judged(result: TestResult) -> TestResult:
        if not (text := texts.get(result["id"])) or result["verdict"] != "pass":
            return result
        return {**result, "verdict": "fail", "message": text}

    return {name: [judged(result) for result in found] for name, found in by_kernel.items()}


def _with_later(tests: Mapping[str, list[Examined]], later: Mapping[str, Later]) -> dict[str, list[Examined]]:
    """What fails by itself keeps its explanations, and is told the position beside them."""
    found = {**tests}
    for kernel, one in later.items():
        known = found.get(kernel)
        position = next(item for item in one.examined.found if item[1].pattern == "position")
        if known:
            clear = max(known, key=lambda test: test.strength)
            place = known.index(clear)
            found[kernel] = [*known[:place], replace(clear, found=[*clear.found, position]), *known[place + 1 :]]
        else:
            found[kernel] = [one.examined]
    return found


def save_locate(suite: Suite, document: LocateDocument) -> None:
    """Keep it as the latest of its device. A search that was cut short, or was of some kernels only, replaces none."""
    if document["interrupted"] or document["summary"]["tests"] < len(suite.tests):
        return
    suite.save_result(document)


def clean(document: LocateDocument) -> bool:
    """True where nothing is suspected."""
    return document["summary"]["verdict"] == "clean"
