"""How far errors are beyond what rounding explains: every test of suites on a device (docs/bounds.md, "Suspicious").

    python -m benchmarks.localization.rounding --device node-dawn                 # the benchmark's models
    python -m benchmarks.localization.rounding --device node-dawn my.suite        # a suite

Nothing of unedited kernels should be `locate`'s SUSPICIOUS_TIMES or more. Exit codes: 0 nothing is, 1 something is.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.localization import models
from benchmarks.localization.executing import Call, KernelOnDevice
from tapml.bounds import NotDerivable, Simulated, simulate
from tapml.bounds.simulation import SUSPICIOUS_TIMES
from tapml.devices import Blobs, Device
from tapml.errors import DeviceError
from tapml.operators.external import External
from tapml.operators.of_suite import read_operator
from tapml.server import Server
from tapml.suite import CarvedTest, Suite

_SHOWN = 10


@dataclass(frozen=True)
class Output:
    """Of one test: `times` as in tapml.locate/1, and the largest share of the bound, on the device and simulated."""

    suite: str
    kernel: str
    test: str
    place: int
    times: float
    share: float
    simulated: float

    def __str__(self) -> str:
        shares = f"{self.share:9.4f} of the bound, simulated {self.simulated:.4f}"
        return f"{self.times:8.2f} x {shares}  {self.suite} {self.test} output {self.place} of {self.kernel}"


def outputs(suite: Suite, device: Device, blobs: Blobs) -> Iterator[Output]:
    """Of all tests that have derived bounds."""
    for kernel in suite.kernels:
        tests = [test for test in suite.tests if test.kernel == kernel and any(t.bound for t in test.tolerances)]
        calls = [Call(test.inputs, test.outputs) for test in tests]
        if not tests:
            continue
        try:
            with KernelOnDevice(suite, kernel, calls, device, blobs) as there:
                arrays = iter(there.outputs({})[0])
        except DeviceError as error:
            print(f"{suite.name} {kernel} does not run: {error.summary}", file=sys.stderr)
            continue
        for test in tests:
            got = [next(arrays) for _ in test.outputs]
            for place, rounding in enumerate(_simulated(suite, test)):
                if rounding is not None:
                    times, share = rounding.times(got[place]), rounding.used(got[place])
                    yield Output(suite.name, kernel, test.id, place, times, share, rounding.share)


def _simulated(suite: Suite, test: CarvedTest) -> list[Simulated | None]:
    program = read_operator(suite, test.kernel, suite.graphs[test.step])
    if isinstance(program, External):
        return []
    inputs, expected = ([suite.tensors.get(ref) for ref in refs] for refs in (test.inputs, test.outputs))
    bounds = [suite.tensors.get(tolerance.bound) if tolerance.bound else None for tolerance in test.tolerances]
    try:
        return simulate(program, inputs, expected, bounds)
    except NotDerivable:
        return []


def row(device: str, suite: str, found: list[Output]) -> str:
    """Of a table in Markdown."""
    times = [output.times for output in found]
    furthest = max(found, key=lambda output: output.times)
    cells = [device, suite, len(found), f"{statistics.median(times):.2f}", f"{furthest.times:.2f}", furthest.kernel]
    cells += [f"{max(output.share for output in found):.2f}", sum(time >= SUSPICIOUS_TIMES for time in times)]
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| device | suite | outputs | times, median | largest | of | largest share of a bound | suspicious |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", type=Path, help="default: the benchmark's models")
    parser.add_argument("--device", default="node-dawn")
    parser.add_argument("--every", action="store_true", help="a line for every output, not the furthest only")
    options = parser.parse_args()
    opened = map(Suite, options.suites) if options.suites else map(models.suite, models.MODELS)
    rows, everything, name = [], [], options.device
    with Server() as server:
        start = partial(server.state.device, options.device)
        for suite in opened:
            device = start()
            name = device.name
            found = list(outputs(suite, device, server.state.blobs))
            if found:
                rows.append(row(name, suite.name, found))
                everything += found
    everything.sort(key=lambda output: -output.times)
    print("\n".join(map(str, everything if options.every else everything[:_SHOWN])))
    print("\n".join([HEAD, *rows]))
    return int(any(output.times >= SUSPICIOUS_TIMES for output in everything))


if __name__ == "__main__":
    sys.exit(main())
