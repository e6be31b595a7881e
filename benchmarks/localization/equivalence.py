"""Which mutants are none: what a mutated kernel changes on the carved inputs, on two implementations of WebGPU.

Each mutant runs over all carved tests of its kernel, twice, on Dawn with SwiftShader and on wgpu with llvmpipe, and is
compared with the kernel as it was, on the same one:

- "equivalent": not a bit of any output changes, on neither;
- "within the bound": something changes, but nowhere by more than the test allows, as a device may;
- "detectable": some element changes by more, in every run, on both; or it does not compile or run on both;
- "implementation": what changes depends on the implementation or on chance, as with races and reads out of bounds.

Whether a race shows is up to chance in every run, so a "detectable" mutant that the run under test did not show wrong
runs again there, many times: one run that is right makes it "implementation".
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.localization.cases import Bug, digest
from benchmarks.localization.executing import Array, Call, KernelOnDevice
from tapml.cache import cache_dir
from tapml.devices import Blobs, Device
from tapml.errors import DeviceError
from tapml.suite import Suite, Tolerance

IMPLEMENTATIONS = ("node-dawn", "deno")
EQUIVALENT, WITHIN, DETECTABLE, IMPLEMENTATION = "equivalent", "within the bound", "detectable", "implementation"
CLASSES = (DETECTABLE, EQUIVALENT, WITHIN, IMPLEMENTATION)
_RUNS = 2
_AGAIN = 8
"""Loads of a mutant whose fault chance may have hidden, with `_RUNS` runs of each."""


@dataclass(frozen=True)
class Effect:
    """What a mutant changes on one implementation, the least of some runs.

    `excess`: the largest change against what the test allows, above 1 where it is more. `change`: the largest one
    against the output's largest magnitude. `error`: why it did not run, else empty.
    """

    differs: bool
    excess: float
    change: float
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "differs": self.differs,
            "excess": _number(self.excess),
            "change": _number(self.change),
            "error": self.error,
        }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "Infinity"


def classify(effects: Iterable[Effect]) -> str:
    """One of the four words of this module, from the effects on all implementations."""
    effects = list(effects)
    if all(effect.error or effect.excess > 1 for effect in effects):
        return DETECTABLE
    if any(effect.error or effect.excess > 1 for effect in effects):
        return IMPLEMENTATION
    return WITHIN if any(effect.differs for effect in effects) else EQUIVALENT


def allowed(suite: Suite, tolerance: Tolerance, expected: Array) -> Array:
    """What each element may differ by."""
    if tolerance.bound is not None:
        return suite.tensors.get(tolerance.bound).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return tolerance.absolute + tolerance.relative * np.abs(expected.astype(np.float64))


def effect(before: list[Array], after: list[Array], bounds: list[Array]) -> Effect:
    """Of one run over all calls of a kernel."""
    differs, excess, change = False, 0.0, 0.0
    for old, new, bound in zip(before, after, bounds, strict=True):
        if old.tobytes() == new.tobytes():
            continue
        differs = True
        a, b = old.astype(np.float64), new.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            distance = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf)
            ratio = np.where(same | np.isposinf(bound), 0.0, np.where(bound > 0, distance / bound, np.inf))
        largest = float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)) or 1.0
        excess = max(excess, float(np.max(ratio, initial=0.0)))
        change = max(change, float(np.max(np.where(same, 0.0, distance), initial=0.0)) / largest)
    return Effect(differs, excess, change)


class Equivalence:
    """Effects of mutants, kept by suite, kernel, text and implementation."""

    def __init__(self, suite: Suite, path: Path | None = None) -> None:
        self._suite = suite
        folder = cache_dir() / "benchmarks" / "localization"
        self._path = path or folder / f"effects-{suite.name}-{suite.id}.json"
        self._known: dict[str, dict[str, Any]] = json.loads(self._path.read_text()) if self._path.is_file() else {}

    def effects(self, bug: Bug) -> dict[str, Effect]:
        """Implementation -> what `run` found there. Raises KeyError where it did not run."""
        found = {name: self._known[self._key(bug, name)] for name in IMPLEMENTATIONS}
        return {
            name: Effect(known["differs"], float(known["excess"]), float(known["change"]), known["error"])
            for name, known in found.items()
        }

    def run(
        self,
        bugs: Iterable[Bug],
        started: Callable[[], Device],
        implementation: str,
        blobs: Blobs,
        progress: Callable[[str], None],
    ) -> None:
        """Find the effects of those bugs on one implementation that are not known; it is `started` where any is not."""
        missing: dict[str, list[Bug]] = defaultdict(list)
        for bug in bugs:
            if self._key(bug, implementation) not in self._known:
                missing[bug.kernel].append(bug)
        for number, (kernel, found) in enumerate(missing.items()):
            progress(
                f"{self._suite.name} on {implementation}: kernel {number + 1} of {len(missing)}, {len(found)} mutants"
            )
            self._run_kernel(kernel, found, started(), implementation, blobs)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._known))

    def again(self, bug: Bug, device: Device, blobs: Blobs) -> Effect:
        """The least that this bug changes on a device in further runs; they are not kept."""
        calls, bounds = self._calls(bug.kernel)
        with KernelOnDevice(self._suite, bug.kernel, calls, device, blobs) as there:
            return _least([_on(there, there.outputs({})[0], bug, bounds) for _ in range(_AGAIN)])

    def _run_kernel(self, kernel: str, bugs: list[Bug], device: Device, implementation: str, blobs: Blobs) -> None:
        calls, bounds = self._calls(kernel)
        with KernelOnDevice(self._suite, kernel, calls, device, blobs) as there:
            before = there.outputs({})[0]
            for bug in bugs:
                self._known[self._key(bug, implementation)] = _on(there, before, bug, bounds).to_json()

    def _calls(self, kernel: str) -> tuple[list[Call], list[Array]]:
        """Those of the carved tests, and what each element of all their outputs may differ by."""
        tests = [test for test in self._suite.tests if test.kernel == kernel]
        bounds = [
            allowed(self._suite, tolerance, self._suite.tensors.get(ref))
            for test in tests
            for ref, tolerance in zip(test.outputs, test.tolerances, strict=True)
        ]
        return [Call(test.inputs, test.outputs) for test in tests], bounds

    def _key(self, bug: Bug, implementation: str) -> str:
        return f"{implementation} {bug.kernel} {digest(self._suite, bug.kernel, bug)}"


def _on(there: KernelOnDevice, before: list[Array], bug: Bug, bounds: list[Array]) -> Effect:
    """The least effect of a bug's runs, or why it did not run."""
    try:
        after = there.outputs({bug.file: bug.mutant.text}, _RUNS)
    except DeviceError as error:
        return Effect(True, math.inf, math.inf, error.summary.split("\n")[0][:200])
    return _least([effect(before, run, bounds) for run in after])


def _least(runs: Sequence[Effect]) -> Effect:
    least = min(runs, key=lambda run: run.excess)
    return Effect(any(run.differs for run in runs), least.excess, min(run.change for run in runs), least.error)
