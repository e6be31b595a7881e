"""The whole model on the device, and, where it is off, which nodes bring it back when they return to the reference."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapml.compare.agreement import agreement
from tapml.devices import Blobs, Device
from tapml.devices.device import HANG_SECONDS
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, InputError
from tapml.locating.delta import TooMany, culprits
from tapml.locating.growth import Grown, growth
from tapml.lowering.model import read_models
from tapml.platforms.reference import Reference
from tapml.program import Graph
from tapml.results import TestResult, Verdict
from tapml.results.base import ModelMetric, ModelTolerance, within
from tapml.results.locate import ModelCheck
from tapml.suite import Suite, TensorRef
from tapml.validation.events import Cancel, Emit
from tapml.validation.hybrid import HybridRunner

MOST_GUILTY = 24
"""Nodes that share a fault: beyond this a list of them says less than their kernels do."""

_NAMED = 6
"""Nodes in a sentence; the document has them all."""

_MOST_BYTES = 256 << 20
"""Of the node outputs that are brought home at once."""


@dataclass(frozen=True)
class _Step:
    """One carved step: its inputs on both sides, and what the model has to give."""

    number: int
    graph: Graph
    inputs: dict[str, tuple[TensorRef, Any]]
    expected: list[np.ndarray]


class WholeModel:
    """One check of the model; `results` are the carved tests' by id."""

    def __init__(
        self,
        suite: Suite,
        device: Device,
        blobs: Blobs,
        results: Mapping[str, TestResult],
        emit: Emit = lambda event: None,
        cancel: Cancel | None = None,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        """Raises InputError for a suite that is damaged."""
        self._suite = suite
        self._device = device
        self._blobs = blobs
        self._results = results
        self._emit = emit
        self._cancel = cancel or Cancel()
        self._hang_seconds = hang_seconds
        self._graph = suite.model_graph
        self._tolerance: ModelTolerance = suite.manifest["model_tolerance"]
        self._runs = 0
        unsupported = {result["kernel"] for result in results.values() if result["verdict"] == "unsupported"}
        self._nodes = [node.id for node in self._graph.kernel_nodes if node.kernel not in unsupported]
        self._left = [node.id for node in self._graph.kernel_nodes if node.kernel in unsupported]

    def run(self) -> ModelCheck:
        """The entry `model` of tapml.locate/1. Raises Cancelled, and InputError for a damaged tensor."""
        try:
            reference = Reference(*read_models(self._suite))
        except InputError as error:
            return self._entry("error", None, [], None, f"every operator passes, but the model cannot be run: {error}")
        try:
            with KernelMessages(self._suite, self._blobs) as messages:
                return self._run(messages, reference)
        except DeviceError as error:
            text = f"every operator passes, but the model does not run on the device: {error.summary}"
            return self._entry("error", None, [], None, text)

    def _run(self, messages: KernelMessages, reference: Reference) -> ModelCheck:
        tensors = self._suite.tensors
        weights = reference.values({value: tensors.get(ref) for value, ref in self._suite.parameters.items()})
        runner = HybridRunner(
            reference,
            self._device,
            messages,
            self._suite.parameters,
            weights,
            self._blobs,
            self._hang_seconds,
        )
        try:
            return self._check(runner, [self._step(number, reference) for number in range(self._step_count)])
        finally:
            with contextlib.suppress(DeviceError):  # the device is gone, and its memory with it
                runner.close()

    @property
    def _step_count(self) -> int:
        return len(self._suite.manifest["steps"])

    def _step(self, number: int, reference: Reference) -> _Step:
        step = self._suite.manifest["steps"][number]
        refs = [TensorRef.from_json(ref) for ref in step["inputs"].values()]
        inputs = {
            value: (ref, reference.tensor(self._suite.tensors.get(ref)))
            for value, ref in zip(self._graph.inputs, refs, strict=True)
        }
        expected = [self._suite.tensors.get(TensorRef.from_json(ref)) for ref in step["outputs"]]
        return _Step(number, self._suite.graphs[number], inputs, expected)

    def _check(self, runner: HybridRunner, steps: Sequence[_Step]) -> ModelCheck:
        worst: tuple[bool, float, ModelMetric, _Step, dict[str, np.ndarray]] | None = None
        for step in steps:
            got = self._trace(runner, step)
            metric = self._metric([got[value] for value in self._graph.outputs], step)
            error = metric["max_abs_error"]
            found = (not within(metric, self._tolerance), np.inf if error is None else error, metric, step, got)
            if worst is None or found[:2] > worst[:2]:
                worst = found
        if worst is None:
            return self._entry("pass", None, [], None, "the suite has no step to run")
        bad, _, metric, step, got = worst
        grown = growth(step.graph, got, self._carved(step.number), self._local(step.number))
        if not bad:
            return self._entry("pass", metric, grown, [], self._passing())
        minimal, found_text = self._minimal(runner, step)
        return self._entry("fail", metric, grown, minimal, self._failing(metric, grown) + found_text)

    def _minimal(self, runner: HybridRunner, step: _Step) -> tuple[list[str] | None, str]:
        """The nodes to return, and a sentence about them."""

        def good_without(returned: frozenset[str]) -> bool:
            if not returned:
                return False  # the trace has shown it
            self._cancel.check()
            self._count("searching the nodes that make the error")
            result = runner.run(step.graph, step.inputs, set(self._nodes) - returned)
            return within(self._metric(result.outputs, step), self._tolerance)

        try:
            nodes = culprits(self._nodes, good_without, MOST_GUILTY).nodes
        except TooMany as error:
            text = f"; more than {len(error.nodes)} nodes share it, so that no few of them bring it back"
            return None, text
        kernels = {node.id: node.kernel for node in self._graph.kernel_nodes}
        names = ", ".join(f"{node} ({kernels[node]})" for node in nodes[:_NAMED])
        names += f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
        verb = "are" if len(nodes) > 1 else "is"
        return nodes, f"; the model is within its bound again when {names} {verb} computed by the reference"

    # ------------------------------------------------ one pass with every node's output

    def _trace(self, runner: HybridRunner, step: _Step) -> dict[str, np.ndarray]:
        """Value id -> what the device made of it, all nodes on the device. One pass, or more where that is too much."""
        found: dict[str, np.ndarray] = {}
        for values in self._parts(step.graph):
            self._cancel.check()
            self._count("running the whole model, all nodes on the device")
            graph = replace(step.graph, outputs=tuple(values))
            result = runner.run(graph, step.inputs, set(self._nodes))
            found |= zip(values, result.outputs, strict=True)
        return found

    def _parts(self, graph: Graph) -> list[list[str]]:
        """The model's outputs, then those of all nodes."""
        made = [value for node in graph.kernel_nodes for value in node.outputs]
        parts: list[list[str]] = [[]]
        size = 0
        for value in dict.fromkeys([*graph.outputs, *made]):
            nbytes = graph.values[value].type.nbytes
            if parts[-1] and size + nbytes > _MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(value)
            size += nbytes
        return parts

    def _carved(self, step: int) -> dict[str, np.ndarray]:
        by_node = self._by_node(step)
        return {
            value: self._suite.tensors.get(ref)
            for node in self._graph.kernel_nodes
            for value, ref in zip(node.outputs, by_node[node.id].outputs, strict=True)
        }

    def _local(self, step: int) -> dict[str, float | None]:
        found = {node: self._results.get(test.id) for node, test in self._by_node(step).items()}
        return {node: result["max_abs_error"] for node, result in found.items() if result is not None}

    def _by_node(self, step: int) -> dict[str, Any]:
        return {test.node: test for test in self._suite.tests if test.step == step}

    # ------------------------------------------------ judging

    def _metric(self, outputs: Sequence[np.ndarray], step: _Step) -> ModelMetric:
        return {**agreement(outputs, step.expected).to_json(), "step": step.number}

    def _passing(self) -> str:
        text = "every operator passes, and so does the whole model"
        return text + (f" with {', '.join(self._left)} left on the reference" if self._left else "")

    def _failing(self, metric: ModelMetric, grown: Sequence[Grown]) -> str:
        error = metric["max_abs_error"]
        off = "not a number" if error is None else f"{error:.3g} (at most {self._tolerance['max_abs_error']:.3g})"
        text = f"every operator passes by itself, but the model's output is off by {off}"
        steepest = max(grown, key=lambda node: node.amplification or 0.0, default=None)
        if steepest is not None and steepest.amplification and steepest.amplification > 1:
            times = f"{steepest.amplification:.3g}"
            text += f"; the error grows most at {steepest.node} ({steepest.kernel}), {times} times"
        return text

    def _count(self, text: str) -> None:
        self._runs += 1
        self._emit({"type": "model", "device": self._device.id, "runs": self._runs, "text": text})

    def _entry(
        self,
        verdict: Verdict,
        metric: ModelMetric | None,
        grown: Sequence[Grown],
        minimal: list[str] | None,
        text: str,
    ) -> ModelCheck:
        return {
            "verdict": verdict,
            "metric": metric,
            "tolerance": self._tolerance,
            "growth": [node.to_json() for node in grown],
            "minimal_nodes": minimal,
            "model_runs": self._runs,
            "text": text,
        }
