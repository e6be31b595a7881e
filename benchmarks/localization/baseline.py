"""The way that localisation is done without carved tests: each kernel by itself on random inputs, with one tolerance.

Inputs are normal numbers of the shapes that the model uses, rounded to what their encoding holds, and integers uniform
within the range of the carved ones (an index out of range would test nothing); the reference is the same operator on
the CPU; an element is wrong where |got - expected| > tolerance + tolerance * |expected|.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.localization.cases import Bug, digest
from benchmarks.localization.executing import Array, Call, KernelOnDevice
from tapml.devices import Blobs, Device
from tapml.encodings import held
from tapml.errors import DeviceError
from tapml.files import sha256
from tapml.lowering.model import read_model
from tapml.platforms.reference import Reference, to_numpy
from tapml.suite import CarvedTest, Suite, TensorRef, TensorStore

TOLERANCES = (1e-3, 1e-2)


class Baseline:
    """What random inputs say of a suite's kernels on one device, kept in a file."""

    def __init__(self, suite: Suite, device_name: str, folder: Path, seed: int = 0) -> None:
        self._suite = suite
        self._seed = seed
        self._path = folder / f"baseline-{suite.name}-{suite.id}-{device_name}-{seed}.json"
        self._known: dict[str, dict[str, Any]] = json.loads(self._path.read_text()) if self._path.is_file() else {}

    def accused(self, bugs: Collection[Bug], tolerance: float) -> set[str]:
        """The kernels that it accuses in a case with these bugs."""
        return {kernel for kernel, key in self._keys(bugs).items() if not self._known[key]["error"] <= tolerance}

    def seconds(self, bugs: Collection[Bug]) -> float:
        """What a case with these bugs takes, the device's part of it."""
        return float(sum(self._known[key]["seconds"] for key in self._keys(bugs).values()))

    def _keys(self, bugs: Collection[Bug]) -> dict[str, str]:
        """Kernel -> where its result in a case with these bugs is."""
        mutated = {bug.kernel: bug for bug in bugs}
        return {kernel: self._key(kernel, mutated.get(kernel)) for kernel in self._suite.kernels}

    def _key(self, kernel: str, bug: Bug | None = None) -> str:
        return f"{kernel} {digest(self._suite, kernel, bug)}"

    def run(self, bugs: Iterable[Bug], device: Device, blobs: Blobs, progress: Callable[[str], None]) -> None:
        """Find what is not known yet, for all kernels as they are and for these mutants."""
        missing: dict[str, list[Bug | None]] = defaultdict(list)
        for kernel in self._suite.kernels:
            if self._key(kernel) not in self._known:
                missing[kernel].append(None)
        for bug in bugs:
            if self._key(bug.kernel, bug) not in self._known:
                missing[bug.kernel].append(bug)
        if not missing:
            return
        reference = Reference(read_model(self._suite))
        store = TensorStore(self._path.parent / "baseline-inputs")
        blobs.add_store(store)
        for number, (kernel, todo) in enumerate(missing.items()):
            progress(f"{self._suite.name}, random inputs: kernel {number + 1} of {len(missing)}, {len(todo)} texts")
            self._run_kernel(kernel, todo, reference, store, device, blobs)
            self._path.write_text(json.dumps(self._known))

    def _run_kernel(
        self,
        kernel: str,
        todo: list[Bug | None],
        reference: Reference,
        store: TensorStore,
        device: Device,
        blobs: Blobs,
    ) -> None:
        test = next(test for test in self._suite.tests if test.kernel == kernel)
        random = np.random.default_rng([self._seed, int(sha256(kernel)[:8], 16)])
        inputs = [self._made_up(test, ref, random) for ref in test.inputs]
        given = zip(test.inputs, inputs, strict=True)
        call = Call(tuple(store.put(array, ref.encoding) for ref, array in given), test.outputs)
        types = [ref.type for ref in test.outputs]
        results = reference.call(kernel, [reference.tensor(array) for array in inputs], types)
        expected = [to_numpy(found, kind.dtype) for found, kind in zip(results, types, strict=True)]
        with KernelOnDevice(self._suite, kernel, [call], device, blobs) as there:
            for bug in todo:
                started = time.perf_counter()
                try:
                    got = there.outputs({bug.file: bug.mutant.text} if bug else {})[0]
                    error = max(map(needed_tolerance, expected, got))
                except DeviceError:
                    error = float("inf")
                spent = time.perf_counter() - started
                self._known[self._key(kernel, bug)] = {"error": error, "seconds": spent}

    def _made_up(self, test: CarvedTest, ref: TensorRef, random: np.random.Generator) -> Array:
        carved = self._suite.tensors.get(ref)
        if carved.dtype.kind == "f":
            return held(random.standard_normal(ref.shape), ref.encoding).astype(carved.dtype)
        low, high = (int(carved.min()), int(carved.max())) if carved.size else (0, 0)
        return random.integers(low, high + 1, ref.shape).astype(carved.dtype)


def needed_tolerance(expected: Array, got: Array) -> float:
    """The least t for which |got - expected| <= t + t * |expected| everywhere; infinite for NaN on one side only."""
    a, b = expected.astype(np.float64), got.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        needed = np.where(same, 0.0, np.abs(a - b) / (1 + np.abs(a)))
    return float(np.max(np.where(np.isnan(needed), np.inf, needed), initial=0.0))
