"""Kernels that pass with errors that rounding does not explain: far beyond what is usual, and inside the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tapml.bounds import NotDerivable, Simulated, simulate
from tapml.bounds.simulation import SUSPICIOUS_TIMES
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, InputError
from tapml.locating.examine import Examiner, Outputs
from tapml.operators.external import External
from tapml.operators.of_suite import read_operator
from tapml.results.locate import Suspicious
from tapml.results.validation import TestResult
from tapml.suite import CarvedTest, Suite
from tapml.validation.context import JobContext

_TESTS_A_KERNEL = 2
_LEAST_SHARE = 0.01
"""Of its bound: an error that is smaller yet has nothing to say."""

Examined = Callable[[CarvedTest, int, int], None]


def suspicious(
    context: JobContext, passing: Mapping[str, Sequence[TestResult]], examined: Examined
) -> list[Suspicious]:
    """Those of the kernels that pass all of their tests (`passing`: kernel -> its results), furthest first. `examined`
    is told of each test, its number, and how many there are.

    The tests that use most of their bounds run once more, and what the device gives is held against simulated
    rounding. A kernel whose operator's program is not known or cannot be read is left out, and so is all that the
    device does not run again. Raises Cancelled.
    """
    suite = context.suite
    tests = [test for results in passing.values() for test in _furthest(suite, results)]
    found: dict[str, list[Suspicious]] = {}
    with KernelMessages(suite, context.blobs, list(dict.fromkeys(test.kernel for test in tests))) as messages:
        examiner = Examiner(context, messages)
        for number, test in enumerate(tests, 1):
            context.cancel.check()
            simulated = _simulated(suite, test, context.message)
            if any(simulated):
                try:
                    runs = examiner.run([test], 1).get(test.id, [])
                except DeviceError as error:
                    context.message(f"what is suspicious could not all be run again: {error.summary}")
                    break
                edited = any(result["edited"] for result in passing[test.kernel])
                entries = [entry for run in runs for entry in _beyond(test, simulated, run, edited=edited)]
                found.setdefault(test.kernel, []).extend(entries)
            examined(test, number, len(tests))
    return sorted((_together(entries) for entries in found.values() if entries), key=lambda entry: -entry["times"])


def _furthest(suite: Suite, results: Sequence[TestResult]) -> list[CarvedTest]:
    """The tests that use most of their bounds."""
    nodes = {node.id: node.kernel for node in suite.model_graph.kernel_nodes}
    used = [
        (_share(result), result["id"])
        for result in results
        if nodes.get(result["node"]) == result["kernel"]  # an imported test comes without its program
    ]
    used.sort(key=lambda entry: -entry[0])
    return [suite.test(test) for share, test in used[:_TESTS_A_KERNEL] if share >= _LEAST_SHARE]


def _share(result: TestResult) -> float:
    """Of its bound, as far as a result tells: it has an element of one output only."""
    if not any(tolerance.get("bound") for tolerance in result["tolerances"]):
        return 0.0
    worst = result["worst"]
    if worst is None:
        return 0.0
    got, expected, bound = worst["got"], worst["expected"], worst["bound"]
    if isinstance(got, str) or isinstance(expected, str) or isinstance(bound, str) or not bound:
        return _LEAST_SHARE
    share = abs(got - expected) / bound
    return max(share, _LEAST_SHARE) if len(result["tolerances"]) > 1 else share


def _simulated(suite: Suite, test: CarvedTest, warn: Callable[[str], None]) -> list[Simulated | None]:
    """Of each output; none where it is not known what rounding makes of it, of which `warn` is told where that is no
    matter of the operator."""

    try:
        program = read_operator(suite, test.kernel, suite.graphs[test.step])
        if isinstance(program, External):
            return []
        inputs, expected = ([suite.tensors.get(ref) for ref in refs] for refs in (test.inputs, test.outputs))
        bounds = [suite.tensors.get(tolerance.bound) if tolerance.bound else None for tolerance in test.tolerances]
        return simulate(program, inputs, expected, bounds)
    except NotDerivable:
        return []  # its tolerance was an estimate already, which says so
    except InputError as error:
        warn(f"what rounding makes of {test.kernel} is not known: {error}")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A search goes on without.
        what = f"{type(error).__name__}: {error}"
        warn(
            f"what rounding makes of {test.kernel} is not known: its simulation has a defect, please report it ({what})"
        )
    return []


def _beyond(
    test: CarvedTest, simulated: Sequence[Simulated | None], outputs: Outputs, *, edited: bool
) -> Iterator[Suspicious]:
    for place, (rounding, got) in enumerate(zip(simulated, outputs, strict=True)):
        if rounding is None or (times := rounding.times(got)) < SUSPICIOUS_TIMES:
            continue
        share = rounding.used(got)
        text = (
            f"it passes, and its errors are {times:.3g} x what rounding explains: up to {share:.2g} of the bound, "
            f"where simulated rounding takes {rounding.share:.2g}"
        )
        yield {
            "kernel": test.kernel,
            "nodes": [test.node],
            "test": test.id,
            "output": place,
            "times": round(times, 4),
            "share": round(share, 6),
            "simulated_share": round(rounding.share, 6),
            "text": text,
            "edited": edited,
        }


def _together(entries: Sequence[Suspicious]) -> Suspicious:
    """Of one kernel's tests."""
    furthest = max(entries, key=lambda entry: entry["times"])
    nodes = [node for entry in entries for node in entry["nodes"]]
    return {**furthest, "nodes": list(dict.fromkeys(nodes))}
