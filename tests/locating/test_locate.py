"""Locate's flow on a device that computes on the CPU: who is accused, why, and what the whole model tells."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from computing_device import ComputingDevice, Fault

from helpers import ROWS, WIDTH
from tapml.locating import Locate
from tapml.locating.locate import clean, save_locate
from tapml.locating.patterns import PATTERNS
from tapml.locating.trials import TRIALS
from tapml.reports.locate import verdict_line
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.events import Cancel


def located(device: ComputingDevice, context: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    document = Locate(JobContext(device.suite, [device.device], device.blobs, **(context or {})), **options).run()
    json.dumps(document, allow_nan=False)  # strict JSON
    return document


def replaced(make: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Fault:
    return lambda inputs, right, before: make(right.copy(), before)


@pytest.fixture
def softmax(suite: Suite) -> str:
    return next(kernel for kernel in suite.kernels if "softmax" in kernel)


def test_a_right_device_is_clean_and_the_model_runs_once(suite: Suite) -> None:
    device = ComputingDevice(suite)
    document = located(device)
    assert document["format"] == "tapml.locate/1"
    assert document["summary"]["verdict"] == "clean"
    assert document["summary"]["tests"] == len(suite.tests)
    assert clean(document)
    assert document["kernels"] == []
    assert document["model"]["verdict"] == "pass"
    assert document["model"]["model_runs"] == 1
    assert [node["node"] for node in document["model"]["growth"]] == [n.id for n in suite.model_graph.kernel_nodes]
    assert all(node["error"] == 0.0 for node in document["model"]["growth"])
    unable: Any = {"kernel": suite.kernels[0], "verdict": "unsupported"}
    line = verdict_line({**document, "kernels": [unable]})
    assert f"every operator passes, but for what the device cannot run ({suite.kernels[0]})" in line


def test_only_the_wrong_kernel_is_accused_with_its_reason(suite: Suite, softmax: str) -> None:
    device = ComputingDevice(suite, {softmax: replaced(lambda right, _: right * np.float32(0.125))})
    document = located(device)
    assert document["summary"]["faulty_kernels"] == [softmax]
    assert document["summary"]["verdict"] == "faulty"
    assert document["model"] is None, "no model run where an operator fails"
    (found,) = document["kernels"]
    assert found["verdict"] == "fail"
    assert found["nodes"] == [node.id for node in suite.graph.nodes_of(softmax)]
    assert found["passing_nodes"] == []
    assert found["findings"][0]["pattern"] == "scale"
    assert "0.125 (1/8) times the expected one" in found["reason"]
    assert found["deterministic"] is True
    assert found["runs"] == 3
    assert found["differing"] == 0
    assert {f["pattern"] for f in found["findings"]} <= set(PATTERNS)
    (output,) = found["outputs"]
    assert output["mismatched"] > 0
    assert output["first"]["got"] == pytest.approx(output["first"]["expected"] / 8)
    assert output["bound"]["reasons"]
    assert max(max(row) for row in output["heatmap"]["values"]) > 0.25


def test_hang_seconds_are_those_of_every_run(suite: Suite, softmax: str) -> None:
    right, wrong = ComputingDevice(suite), ComputingDevice(suite, {softmax: replaced(lambda right, _: -right)})
    for device in (right, wrong):  # the whole model runs on the one, the failing tests again on the other
        located(device, {"hang_seconds": 7.5})
        assert set(device.methods) == {"validate", "execute"}
        assert device.hang_seconds == {7.5}


def sharing(suite: Suite) -> set[str]:
    """Kernels with workgroup memory: one test of each runs twice, for races."""
    return {name for name in suite.kernels if any("var<workgroup>" in file.text for file in suite.kernel_files(name))}


def test_only_what_fails_or_shares_memory_runs_again(suite: Suite, softmax: str) -> None:
    device = ComputingDevice(suite, {softmax: replaced(lambda right, _: -right)})
    located(device)
    again = 3 * min(2, len(suite.graph.nodes_of(softmax))) + TRIALS
    expected = dict.fromkeys(sharing(suite), 2) | {softmax: again}
    assert Counter(device.calls) == expected
    right = ComputingDevice(suite)
    located(right, model=False)
    assert right.methods == ["validate", "execute", "execute"], "what ran again is freed, and nothing else is done"
    assert Counter(right.calls) == dict.fromkeys(sharing(suite), 2)


def test_what_rounding_does_not_explain_is_suspicious_and_no_fault(suite: Suite) -> None:
    """All elements are off by most of what they may be."""
    kernel = next(kernel for kernel in suite.kernels if "matmul" in kernel and "gelu" not in kernel)
    tests = [test for test in suite.tests if test.kernel == kernel]
    bounds = {test.tolerances[0].bound: suite.tensors.get(test.outputs[0]) for test in tests}

    def far(right: np.ndarray, before: np.ndarray) -> np.ndarray:
        bound = next(bound for bound, expected in bounds.items() if np.array_equal(expected, right))
        return right + np.float32(0.9) * suite.tensors.get(bound)

    device = ComputingDevice(suite, {kernel: replaced(far)})
    document = located(device, model=False)
    assert document["summary"]["verdict"] == "clean"
    assert document["summary"]["faulty_kernels"] == document["kernels"] == []
    assert clean(document)
    assert document["summary"]["suspicious_kernels"] == [kernel]
    (found,) = document["suspicious"]
    assert (found["kernel"], found["output"], found["edited"]) == (kernel, 0, False)
    assert found["test"] in {test.id for test in tests}
    assert set(found["nodes"]) <= {test.node for test in tests}
    assert found["times"] > 4
    assert found["simulated_share"] < found["share"] < 1
    assert f"{found['times']:.3g} x what rounding explains" in found["text"]
    again = Counter(device.calls)
    again.subtract(dict.fromkeys(sharing(suite), 2))
    assert set(+again) == {kernel}, "what uses nothing of its bound does not run again"
    assert verdict_line(document).endswith(f"; suspicious: {kernel}")


def test_rounding_is_not_suspicious(suite: Suite, softmax: str) -> None:
    """Every output takes the next float32."""
    up = replaced(lambda right, _: np.nextafter(right, np.float32(np.inf)))
    document = located(ComputingDevice(suite, {softmax: up}))
    assert document["suspicious"] == []


def test_a_race_is_told_as_such(suite: Suite, softmax: str) -> None:
    random = np.random.default_rng(5)

    def race(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        right[..., -1] += random.uniform(1, 2, right[..., -1].shape).astype(np.float32)
        return right

    (found,) = located(ComputingDevice(suite, {softmax: race}))["kernels"]
    assert found["deterministic"] is False
    assert found["findings"][0]["pattern"] == "race"
    assert "from run to run" in found["reason"]
    assert found["differing"] > 0


def test_a_failure_that_does_not_come_again_is_a_race(suite: Suite, softmax: str) -> None:
    validated = len(suite.graph.nodes_of(softmax))

    def once(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        nonlocal validated
        validated -= 1
        return right + 1 if validated >= 0 else right

    (found,) = located(ComputingDevice(suite, {softmax: once}))["kernels"]
    assert found["deterministic"] is False
    assert "passed when it ran again" in found["reason"]


def test_what_is_never_written_keeps_every_fill(suite: Suite, softmax: str) -> None:
    def partly(right: np.ndarray, before: np.ndarray) -> np.ndarray:
        right[4:] = before[4:]
        return right

    (found,) = located(ComputingDevice(suite, {softmax: replaced(partly)}))["kernels"]
    assert found["findings"][0]["pattern"] == "unwritten"
    assert "never written" in found["reason"]
    assert "rows 4 to 5 (the end)" in found["reason"]
    assert found["deterministic"] is True


def test_what_reads_its_output_first_is_uninitialised(suite: Suite, softmax: str) -> None:
    def accumulate(right: np.ndarray, before: np.ndarray) -> np.ndarray:
        return right + np.where(np.isnan(before), np.float32(7), before)

    (found,) = located(ComputingDevice(suite, {softmax: replaced(accumulate)}))["kernels"]
    assert found["findings"][0]["pattern"] == "uninitialised"
    assert found["deterministic"] is True


def test_an_error_is_most_certain_and_says_what_the_device_said(suite: Suite, softmax: str) -> None:
    other = suite.kernels[0]
    device = ComputingDevice(suite, {softmax: replaced(lambda right, _: -right)})
    device.failing = {other: "kernel.wgsl:3:1: expected ';'"}
    document = located(device)
    assert document["summary"]["faulty_kernels"] == [other, softmax]
    first = document["kernels"][0]
    assert (first["verdict"], first["score"], first["deterministic"]) == ("error", 1.0, None)
    assert first["reason"] == "kernel.wgsl:3:1: expected ';'"
    assert first["outputs"] == []


def test_a_kernel_that_does_not_run_again_keeps_its_verdict(suite: Suite, softmax: str) -> None:
    """The call of all examined tests fails for one: the others are examined by themselves."""
    other = suite.kernels[0]
    device = ComputingDevice(suite, {name: replaced(lambda right, _: -right) for name in (softmax, other)})
    search = Locate(JobContext(suite, [device.device], device.blobs, emit=lambda event: broken(event, device, other)))
    kernels = {found["kernel"]: found for found in search.run()["kernels"]}
    assert kernels[softmax]["findings"][0]["pattern"] == "sign"
    assert kernels[other]["verdict"] == "fail"
    assert kernels[other]["outputs"] == []
    assert kernels[other]["deterministic"] is None


def broken(event: dict[str, Any], device: ComputingDevice, kernel: str) -> None:
    """Once all tests have their verdicts."""
    if event["type"] == "verdict" and event["result"]["id"] == device.suite.tests[-1].id:
        device.failing[kernel] = "out of memory"


def unbounded_above(suite: Suite, kernel: str, limit: float) -> int:
    """Let the kernel's first test be unbounded where its input is above `limit`; gives how many elements are."""
    place, test = next((n, test) for n, test in enumerate(suite.tests) if test.kernel == kernel)
    x = suite.tensors.get(test.inputs[0])
    bound = np.where(x > limit, np.float32(np.inf), np.float32(1e-4))
    tolerance = dataclasses.replace(test.tolerances[0], bound=suite.tensors.put(bound))
    suite.tests[place] = dataclasses.replace(test, tolerances=(tolerance,))
    return int((x > limit).sum())


def test_unbounded_elements_are_a_finding_of_their_own(suite: Suite, softmax: str) -> None:
    count = unbounded_above(suite, softmax, 2.0)
    assert count > 3
    device = ComputingDevice(suite)
    document = located(device)
    assert document["summary"]["unbounded_kernels"] == [softmax]
    assert document["summary"]["faulty_kernels"] == []
    (found,) = document["kernels"]
    assert found["verdict"] == "unbounded"
    assert found["score"] < 0.5
    assert found["findings"][0]["pattern"] == "unbounded"
    assert f"{count} of {ROWS * WIDTH} elements are unbounded" in found["reason"]
    assert "above" in found["reason"], "it says for which inputs"
    (output,) = found["outputs"]
    assert (output["unbounded"], output["mismatched"]) == (count, 0)
    assert output["bound"]["max"] == pytest.approx(1e-4)


def test_what_is_wrong_beside_unbounded_elements_is_a_failure(suite: Suite, softmax: str) -> None:
    unbounded_above(suite, softmax, 2.0)
    device = ComputingDevice(suite, {softmax: replaced(lambda right, _: -right)})
    (found,) = located(device)["kernels"]
    assert found["verdict"] == "fail"
    assert found["findings"][0]["pattern"] == "sign"
    assert any(finding["pattern"] == "unbounded" for finding in found["findings"]) or found["test"] != suite.tests[0].id


def test_one_kernel_only(suite: Suite, softmax: str) -> None:
    device = ComputingDevice(suite, {softmax: replaced(lambda right, _: -right)})
    other = next(name for name in suite.kernels if name != softmax)
    document = located(device, kernels=[other])
    assert document["summary"]["verdict"] == "clean"
    assert document["summary"]["tests"] == len(suite.graph.nodes_of(other))
    assert document["model"] is None


def test_a_compound_error_is_traced_to_its_nodes_in_few_runs(suite: Suite) -> None:
    """Right on the carved inputs, wrong on those that the device makes: no operator's own test can show it."""
    carved = {array.tobytes() for test in suite.tests for array in (suite.tensors.get(r) for r in test.inputs)}
    kernel = suite.kernels[0]

    def touchy(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        return right if all(array.tobytes() in carved for array in inputs) else right + np.float32(3)

    def nearly(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        return np.nextafter(right, np.float32(np.inf))

    # The node before the last use of `kernel` is off by one unit in the last place, which it may be.
    last = suite.graph.nodes_of(kernel)[-1]
    before = next(n for n in suite.model_graph.kernel_nodes if set(n.outputs) & set(sources(suite, last.inputs)))
    device = ComputingDevice(suite, {kernel: touchy, before.kernel: nearly})
    document = located(device)
    assert document["kernels"] == []
    assert document["summary"]["verdict"] == "compound"
    assert not clean(document)
    model = document["model"]
    assert model["verdict"] == "fail"
    assert len(model["minimal_nodes"]) == 1
    assert model["minimal_nodes"][0] in (last.id, before.id)
    nodes = len(suite.model_graph.kernel_nodes)
    assert model["model_runs"] <= 1 + math.ceil(math.log2(nodes)) + 3
    assert model["minimal_nodes"][0] in model["text"]
    grown = {node["node"]: node for node in model["growth"]}
    steepest = max(model["growth"], key=lambda node: node["amplification"] or 0)
    assert steepest["node"] == last.id
    assert grown[last.id]["error"] >= 3
    assert grown[last.id]["local"] == 0.0


def sources(suite: Suite, values: tuple[str, ...]) -> list[str]:
    views = {node.outputs[0]: node.inputs[0] for node in suite.graph.nodes if node.kind == "view"}
    return [views.get(value, value) for value in values]


def test_a_cancelled_search_is_interrupted(suite: Suite) -> None:
    cancel = Cancel()
    cancel.set()
    device = ComputingDevice(suite)
    document = located(device, {"cancel": cancel})
    assert document["interrupted"]
    assert document["model"] is None


def test_the_document_is_kept_in_the_suite(suite: Suite) -> None:
    device = ComputingDevice(suite)
    document = located(device, model=False)
    save_locate(suite, document)
    assert suite.results("locate") == [document]
    assert (suite.path / "results" / "locate.Fake-1.json").is_file()


def test_events_tell_how_far_it_is(suite: Suite, softmax: str) -> None:
    events: list[dict[str, Any]] = []
    device = ComputingDevice(suite, {softmax: replaced(lambda right, _: -right)})
    located(device, {"emit": events.append})
    kinds = [event["type"] for event in events]
    assert kinds[0] == "started"
    assert events[0]["kind"] == "locate"
    assert kinds.count("started") == 1
    assert kinds.count("verdict") == len(suite.tests)
    examined = [event for event in events if event["type"] == "examine"]
    assert examined[-1]["number"] == examined[-1]["total"]
    assert {event["kernel"] for event in examined} == sharing(suite) | {softmax}


def test_a_race_that_the_clearest_test_does_not_show_is_found_too(
    suite: Suite, softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patterns are looked for in a few tests; every failing one runs again."""
    monkeypatch.setattr("tapml.locating.locate._TESTS_A_KERNEL", 1)
    first, second = (test for test in suite.tests if test.kernel == softmax)
    racy = suite.tensors.get(second.inputs[0])
    calls = 0

    def fault(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        nonlocal calls
        wrong = right.copy()
        if np.array_equal(inputs[0], racy):
            calls += 1
            return wrong + np.float32(calls)
        wrong.reshape(-1)[:16] += np.float32(1)
        return wrong

    (found,) = located(ComputingDevice(suite, {softmax: fault}))["kernels"]
    assert found["test"] == first.id
    assert found["deterministic"] is False
    assert found["differing"] == suite.test(second.id).outputs[0].type.size
    assert found["reason"].startswith(f"test {second.id} differs from run to run")


def test_an_interrupted_search_says_nothing_is_known_and_replaces_no_result(suite: Suite, softmax: str) -> None:
    device = ComputingDevice(suite, {softmax: replaced(lambda right, _: -right)})
    save_locate(suite, located(device))
    cancel = Cancel()
    cancel.set()
    document = located(device, {"cancel": cancel})
    assert document["summary"]["verdict"] == "unknown"
    assert not clean(document)
    assert "nothing suspected until then" in verdict_line(document)
    save_locate(suite, document)
    save_locate(suite, located(device, kernels=[suite.kernels[0]]))
    (kept,) = suite.results("locate")
    assert kept["summary"]["faulty_kernels"] == [softmax]
