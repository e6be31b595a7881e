"""One suspect kernel: what its clearest test shows, with a score and a reason in words."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tapml.compare.elements import bound_of, tied
from tapml.errors import InputError
from tapml.locating.barriers import unordered
from tapml.locating.conditions import condition
from tapml.locating.evidence import Evidence, Finding, jsonable
from tapml.locating.examine import Outputs, fill_of
from tapml.locating.heatmap import heatmap
from tapml.locating.patterns import PLACES, SIMPLE, by_program, findings
from tapml.locating.patterns.determinism import differing
from tapml.operators.of_suite import read_operator
from tapml.operators.program import OperatorProgram
from tapml.results.locate import BoundFacts, Suspect, WrongOutput
from tapml.results.validation import TestResult
from tapml.results.verdicts import SEVERITY
from tapml.suite import CarvedTest, Suite
from tapml.text import one_line

_LOOKED_AT = 2
"""Tests of a kernel in which patterns are looked for."""

_CLEAR = 0.85
"""A finding of this strength needs no second test."""

_LONGEST_NAME = 200

_TELLING = 16
"""So many wrong elements tell a rule from chance."""


@dataclass(frozen=True)
class Examined:
    """One test that ran again: its outputs' evidence and what was found."""

    test: CarvedTest
    outputs: list[Evidence]
    found: list[tuple[int, Finding]]
    """(output, finding), strongest first."""
    differing: int
    """Elements that differ between runs that began alike."""

    @property
    def strength(self) -> float:
        return max((finding.strength for _, finding in self.found), default=0.0)


def clearest(results: Sequence[TestResult], suite: Suite) -> list[CarvedTest]:
    """The failing tests, those that show most first: enough wrong elements to tell a rule from chance, some elements
    right and some wrong, small tensors."""

    def key(result: TestResult) -> tuple[bool, float, int]:
        share = result["mismatched"] / result["total"] if result["total"] else 1.0
        test = suite.test(result["id"])
        size = sum(ref.type.nbytes for ref in (*test.inputs, *test.outputs))
        return (result["mismatched"] < _TELLING, round(share, 1) or 0.05, size)

    wanted = [result for result in results if result["verdict"] in ("fail", "unbounded")]
    worst = [result for result in wanted if result["verdict"] == "fail"] or wanted
    return [suite.test(result["id"]) for result in sorted(worst, key=key)]


def examined(
    suite: Suite,
    tests: Sequence[tuple[CarvedTest, Sequence[Outputs], str]],
    trials: Sequence[Sequence[Evidence]] = (),
) -> Iterator[Examined]:
    """Look for patterns in what the device gave for failing tests of one kernel, the clearest first: test, its outputs
    of each run, its verdict. The others are what an explanation is tested on; they are looked at themselves as long as
    none before them was clear. `trials`: of the first one's operator, what the device gave for other inputs."""
    known = [_evidence(suite, test, runs) for test, runs, _ in tests]
    for number, (test, runs, verdict) in enumerate(tests[:_LOOKED_AT]):
        others = known[:number] + known[number + 1 :]
        found: list[tuple[int, Finding]] = []
        for place, evidence in enumerate(known[number]):
            beside = [
                other[place] for other in others if other[place].count and other[place].got.size == evidence.got.size
            ]
            ties = test.tolerances[place].ties is not None
            # Its program explains it on all of them or not at all.
            program = evidence.program if number == 0 else None
            tried = [trial[place] for trial in trials] if number == 0 else []
            looked_at = replace(evidence, beside=beside, program=program, trials=tried)
            found += [(place, one) for one in _of_output(looked_at, has_ties=ties)]
        if verdict == "fail" and not any(evidence.count for evidence in known[number]):
            text = "it failed when it was validated and passed when it ran again: the result differs from run to run"
            found.append((0, Finding("race", text, 0.98, {"runs": len(runs)})))
        found.sort(key=lambda item: -item[1].strength)
        one = Examined(test, known[number], found, racing(runs))
        yield one
        if one.strength >= _CLEAR:
            break


def explained(
    suite: Suite, test: CarvedTest, outputs: Sequence[Evidence], others: Sequence[Sequence[Evidence]]
) -> list[tuple[int, Finding]]:
    """Patterns in what the device gave for inputs that nobody carved of an operator, `outputs`, which hold for `others`
    as well: (output, finding)."""
    names = [argument["name"] for argument in suite.bundle(test.kernel)["arguments"]]
    program = program_of(suite, test)
    return [
        (place, finding)
        for place, evidence in enumerate(outputs)
        if evidence.count
        for finding in findings(
            replace(
                evidence,
                runs=[evidence.got],
                fills=[fill_of(0)],
                names=names[: len(evidence.inputs)],
                program=program,
                trials=[other[place] for other in others],
            )
        )
    ]


def _evidence(suite: Suite, test: CarvedTest, runs: Sequence[Outputs]) -> list[Evidence]:
    """Of each output."""
    inputs = [suite.tensors.get(ref) for ref in test.inputs]
    names = [argument["name"] for argument in suite.bundle(test.kernel)["arguments"]]
    program = program_of(suite, test)
    outputs = []
    for place, (ref, tolerance) in enumerate(zip(test.outputs, test.tolerances, strict=True)):
        expected = suite.tensors.get(ref)
        given = [run[place] for run in runs]
        outputs.append(
            Evidence(
                got=given[0],
                expected=expected,
                bound=bound_of(tolerance, expected, suite.tensors.get),
                inputs=inputs,
                runs=given,
                fills=[fill_of(number) for number in range(len(given))],
                accepted=tied(tolerance, given[0], expected, suite.tensors.get),
                names=names[: len(inputs)],
                program=program,
                output=place,
            )
        )
    return outputs


def program_of(suite: Suite, test: CarvedTest) -> OperatorProgram | None:
    """The operator's program at the sizes of the test; None where the suite has none that could be read."""
    graph = suite.graphs[test.step] if test.step < len(suite.graphs) else None
    if graph is None or all((node.id, node.kernel) != (test.node, test.kernel) for node in graph.nodes):
        return None  # it was imported
    with contextlib.suppress(InputError):
        found = read_operator(suite, test.kernel, graph)
        return found if isinstance(found, OperatorProgram) else None
    return None


def _of_output(evidence: Evidence, *, has_ties: bool) -> list[Finding]:
    found = findings(evidence)
    unbounded = np.isposinf(evidence.bound)
    if count := int(unbounded.sum()):
        where = condition(evidence, unbounded)
        place = f" ({where.text})" if where is not None else ""
        text = f"{count} of {unbounded.size} elements are unbounded{place}: WGSL promises nothing for them"
        found.append(Finding("unbounded", text, 0.3 if evidence.count else 0.9, {"elements": count}))
    if has_ties and evidence.count:
        accepted = int(evidence.accepted.sum()) if evidence.accepted is not None else 0
        text = f"{evidence.count} indices are none of the equals that may be chosen ({accepted} others are)"
        found.append(Finding("ties", text, 0.55, {"wrong": evidence.count, "accepted": accepted}))
    return found


def racing(runs: Sequence[Outputs]) -> int:
    """Elements of a test's outputs that differ between runs that began alike."""
    fills = [fill_of(number) for number in range(len(runs))]
    return sum(int(differing(given, fills, same_fill=True).sum()) for given in zip(*runs, strict=True))


def suspect(
    suite: Suite,
    kernel: str,
    results: Sequence[TestResult],
    tests: Sequence[Examined],
    runs: int,
    races: Mapping[str, int],
) -> Suspect:
    """An entry of `kernels` in tapml.locate/1. `results`: all of the kernel's, with at least one that did not pass;
    `races`: test -> elements that differ from run to run, of those that ran again besides `tests`."""
    worst = max((result["verdict"] for result in results), key=SEVERITY.index)
    bad = [result for result in results if result["verdict"] != "pass"]
    culprit = next(result for result in bad if result["verdict"] == worst)
    shown = max(tests, key=lambda test: test.strength, default=None)
    several = shown is not None and len(shown.outputs) > 1
    found = [_named(place, finding, several) for place, finding in shown.found] if shown else []
    if worst in ("error", "unsupported"):
        found.insert(0, Finding("error", culprit["message"], 1.0))
    others = {result["id"]: races[result["id"]] for result in bad if races.get(result["id"])}
    if others and not any(finding.pattern == "race" for finding in found):
        first = next(iter(others))
        text = f"test {first} differs from run to run with the same inputs ({others[first]} elements): a race"
        found.insert(0, Finding("race", text, 0.99, {"tests": len(others), "differing": others[first]}))
    found = _with_text(suite, kernel, found)
    failing = {result["node"] for result in bad}
    nodes = [node.id for node in suite.graph.nodes_of(kernel)]
    outputs = [_output(place, evidence, shown.test) for place, evidence in enumerate(shown.outputs)] if shown else []
    changing = sum(test.differing for test in tests) + sum(others.values())
    return {
        "kernel": kernel,
        "nodes": [node for node in nodes if node in failing],
        "passing_nodes": [node for node in nodes if node not in failing],
        "names": {node: one_line(name, _LONGEST_NAME) for node, name in suite.graph.names_of(failing).items()},
        "verdict": worst,
        "tests": {"failed": len(bad), "total": len(results)},
        "score": round(_score(worst, len(bad) / len(results), shown, found), 4),
        "reason": reason(worst, culprit["message"], found),
        "edited": any(result["edited"] for result in results),
        "findings": [finding.to_json() for finding in found] if worst != "unsupported" else [],
        "deterministic": _deterministic(tests, runs, changing),
        "runs": runs if tests else 0,
        "differing": changing,
        "test": shown.test.id if shown else culprit["id"],
        "outputs": outputs,
    }


def _with_text(suite: Suite, kernel: str, found: list[Finding]) -> list[Finding]:
    """And what the kernel's text shows of missing barriers: software GPUs run invocations in a fixed order, and give
    the same wrong numbers each time. Behind what is clear by itself, which may be what comes of it."""
    if found and found[0].pattern == "error":
        return found
    pair = next(filter(None, (unordered(file.text) for file in suite.kernel_files(kernel))), None)
    if pair is None:
        return found
    if found and found[0].pattern == "race":
        return [replace(found[0], text=f"{found[0].text}; {pair.words()}"), *found[1:]]
    clear = sum(1 for _ in itertools.takewhile(lambda finding: finding.strength >= _CLEAR, found))
    return [*found[:clear], Finding("race", pair.words(), _CLEAR, vars(pair)), *found[clear:]]


def _named(place: int, finding: Finding, several: bool) -> Finding:
    if not several:
        return finding
    text = f"output {place}: {finding.text}"
    return replace(finding, text=text, details={"output": place, **finding.details})


def reason(verdict: str, message: str, found: Sequence[Finding]) -> str:
    """One sentence: what is wrong, and where where both are known."""
    if verdict in ("error", "unsupported") or not found:
        return message
    first, *rest = found
    place = next((finding for finding in rest if finding.pattern in PLACES and finding.strength >= 0.5), None)
    program = next((finding for finding in rest if finding.details.get("edit")), None)
    if first.pattern in SIMPLE and not by_program(first) and program and program.strength >= _CLEAR:
        first = replace(first, text=f"{first.text}, as with {program.details['edit']}")
    told = [first.text]
    if place is not None and first.pattern not in (*PLACES, "race", "unwritten", "uninitialised"):
        told.append(place.text)
    told += [finding.text for finding in rest if finding.pattern == "race" and finding.strength >= _CLEAR]
    return "; ".join(told)


def _score(verdict: str, share: float, shown: Examined | None, found: Sequence[Finding]) -> float:
    """How surely the kernel is faulty: an error is; far outside in every test and by a pattern is nearly one."""
    if verdict == "unsupported":
        return 0.0
    if verdict == "error":
        return 1.0
    strength = found[0].strength if found else 0.0
    if verdict == "unbounded":
        return 0.2 + 0.1 * strength
    excess = max((float(np.max(e.excess, initial=0.0)) for e in shown.outputs), default=math.inf) if shown else math.inf
    margin = min(1.0, math.log10(max(1.0, excess)) / 3) if math.isfinite(excess) else 1.0
    return 0.5 + 0.25 * margin + 0.15 * share + 0.09 * strength


def _deterministic(tests: Sequence[Examined], runs: int, changing: int) -> bool | None:
    if not tests or runs < 2:
        return None
    return changing == 0 and not any(finding.pattern == "race" for test in tests for _, finding in test.found)


def _output(place: int, evidence: Evidence, test: CarvedTest) -> WrongOutput:
    unbounded = np.isposinf(evidence.bound)
    bounded = evidence.bound[~unbounded]
    bound: BoundFacts = {
        "min": jsonable(np.min(bounded, initial=math.inf)),
        "median": jsonable(np.median(bounded) if bounded.size else math.inf),
        "max": jsonable(np.max(bounded) if bounded.size else math.inf),
        "reasons": list(test.tolerances[place].reasons),
    }
    return {
        "output": place,
        "shape": list(evidence.shape),
        "dtype": str(evidence.got.dtype),
        "total": evidence.got.size,
        "mismatched": evidence.count,
        "unbounded": int(unbounded.sum()),
        "nan": evidence.nan,
        "inf": evidence.inf,
        "max_abs_error": evidence.max_abs_error,
        "max_excess": jsonable(np.max(evidence.excess, initial=0.0)),
        "bound": bound,
        "first": evidence.first,
        "worst": evidence.worst,
        "heatmap": heatmap(evidence.excess, unbounded),
    }
