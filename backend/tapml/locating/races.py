"""Kernels that pass and race: results that differ from run to run, and edited texts that lack a barrier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError
from tapml.locating.barriers import SHARED, unordered
from tapml.locating.examine import Examiner
from tapml.locating.suspects import racing
from tapml.results.locate import MissingBarrier
from tapml.results.validation import TestResult
from tapml.suite import CarvedTest, Suite
from tapml.validation.context import JobContext

_EDITED_RUNS = 16
_EDITED_TESTS = 2
_GENERATED_RUNS = 2
"""Both begin alike."""

_MOST_BYTES = 64 << 20
"""Of outputs that come home, of an edited kernel's tests, and of those of all others together."""

Examined = Callable[[CarvedTest, int, int], None]
_Results = Mapping[str, Sequence[TestResult]]


def irreproducible(context: JobContext, passing: _Results, examined: Examined) -> dict[str, int]:
    """Test -> elements that differ, bit for bit, between runs that began alike, of tests of the kernels that pass
    (`passing`: kernel -> its results). `examined` is told of each test, its number, and how many there are.

    An edited kernel's largest tests run 16 times, the smallest one of another kernel that shares memory twice. What
    uses atomics may differ and is left out; so is what the device does not run again. Raises Cancelled.
    """
    edited, others = _repeated(context.suite, passing)
    total = len(edited) + len(others)
    found: dict[str, int] = {}
    kernels = list(dict.fromkeys(test.kernel for test in (*edited, *others)))
    with KernelMessages(context.suite, context.blobs, kernels) as messages:
        examiner = Examiner(context, messages)
        number = 0

        def ran(test: CarvedTest) -> None:
            nonlocal number
            number += 1
            examined(test, number, total)
            context.cancel.check()

        try:
            for tests, runs in ((edited, _EDITED_RUNS), (others, _GENERATED_RUNS)):
                outputs = examiner.run(tests, runs, ran)
                found |= {test: count for test, of_test in outputs.items() if (count := racing(of_test))}
        except DeviceError as error:
            context.message(f"whether results differ from run to run is not known of all kernels: {error.summary}")
    return found


def missing_barriers(suite: Suite, passing: _Results) -> list[MissingBarrier]:
    """Of the edited kernels that pass. What was generated has its barriers."""
    found: list[MissingBarrier] = []
    for kernel, results in passing.items():
        for file in suite.kernel_files(kernel) if any(result["edited"] for result in results) else ():
            pair = unordered(file.text) if file.edited else None
            if pair is not None:
                entry: MissingBarrier = {
                    "kernel": kernel,
                    "nodes": [node.id for node in suite.graph.nodes_of(kernel)],
                    "file": file.name,
                    "variable": pair.variable,
                    "written": pair.written,
                    "read": pair.read,
                    "text": f"it passes, and {pair.words()}: a race, which this device does not show",
                }
                found.append(entry)
    return found


def _repeated(suite: Suite, passing: _Results) -> tuple[list[CarvedTest], list[CarvedTest]]:
    """The tests of edited kernels that run again, and those of others."""
    edited: list[CarvedTest] = []
    others: list[CarvedTest] = []
    for kernel, results in passing.items():
        texts = [file.text for file in suite.kernel_files(kernel)]
        if any("atomic" in text for text in texts):
            continue
        tests = sorted((suite.test(result["id"]) for result in results), key=_nbytes)
        if any(result["edited"] for result in results):
            small = [test for test in tests if _nbytes(test) * _EDITED_RUNS <= _MOST_BYTES]
            edited += small[-_EDITED_TESTS:]
        elif any(SHARED.search(text) for text in texts):
            others += tests[:1]
    return edited, _at_most(sorted(others, key=_nbytes))


def _at_most(tests: Sequence[CarvedTest]) -> list[CarvedTest]:
    found: list[CarvedTest] = []
    size = 0
    for test in tests:
        size += _nbytes(test) * _GENERATED_RUNS
        if size > _MOST_BYTES:
            break
        found.append(test)
    return found


def _nbytes(test: CarvedTest) -> int:
    return sum(ref.type.nbytes for ref in test.outputs)
