"""The whole model on the device, and, where it is off, which nodes bring it back when they return to the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, InputError
from tapml.locating.delta import culprits
from tapml.locating.evidence import jsonable
from tapml.locating.examine import parts
from tapml.locating.growth import Grown, growth
from tapml.lowering.model import read_models
from tapml.protocol.methods import Verdict
from tapml.results.base import ModelMetric, ModelTolerance, badness, within
from tapml.results.locate import ModelCheck
from tapml.results.validation import TestResult
from tapml.text import listed
from tapml.validation.context import JobContext
from tapml.validation.hybrid import HybridRunner, ModelStep

MOST_GUILTY = 24
"""Nodes that share a fault: beyond this a list of them says less than their kernels do."""

_NAMED = 6
"""Nodes in a sentence; the document has them all."""

_MOST_BYTES = 256 << 20
"""Of the node outputs that are brought home at once."""


class WholeModel:
    """One check of the model; `results` are the carved tests' by id."""

    def __init__(self, context: JobContext, results: Mapping[str, TestResult]) -> None:
        self._context = context
        self._suite = suite = context.suite
        self._results = results
        self._graph = suite.model_graph
        self._tolerance: ModelTolerance = suite.manifest["model_tolerance"]
        self._runs = 0
        unsupported = {result["kernel"] for result in results.values() if result["verdict"] == "unsupported"}
        self._nodes = [node.id for node in self._graph.kernel_nodes if node.kernel not in unsupported]
        self._left = [node.id for node in self._graph.kernel_nodes if node.kernel in unsupported]

    def run(self) -> ModelCheck:
        """The entry `model` of tapml.locate/1. Raises Cancelled."""
        text = "every operator passes, but the model"
        try:
            models = read_models(self._suite)
            with (
                KernelMessages(self._suite, self._context.blobs) as messages,
                HybridRunner(self._context, models, messages) as runner,
            ):
                return self._check(runner)
        except InputError as error:
            return self._entry("error", f"{text} cannot be run: {error}")
        except DeviceError as error:
            return self._entry("error", f"{text} does not run on the device: {error.summary}")

    def _check(self, runner: HybridRunner) -> ModelCheck:
        worst: tuple[ModelMetric, ModelStep, dict[str, np.ndarray]] | None = None
        for step in runner.steps:
            got = self._trace(runner, step)
            metric = step.metric([got[value] for value in step.graph.outputs])
            if worst is None or badness(metric, self._tolerance) > badness(worst[0], self._tolerance):
                worst = metric, step, got
        assert worst is not None, "a suite with a model has a step"
        metric, step, got = worst
        tests = {test.node: test for test in self._suite.tests if test.step == step.number}
        carved = {
            value: self._suite.tensors.get(ref)
            for node in step.graph.kernel_nodes
            for value, ref in zip(node.outputs, tests[node.id].outputs, strict=True)
        }
        own = {
            node: self._results[test.id]["max_abs_error"] for node, test in tests.items() if test.id in self._results
        }
        grown = growth(step.graph, got, carved, own)
        if within(metric, self._tolerance):
            text = "every operator passes, and so does the whole model"
            left = f" with {', '.join(self._left)} left on the reference" if self._left else ""
            return self._entry("pass", text + left, metric, grown, [])
        minimal, found_text = self._minimal(runner, step)
        return self._entry("fail", self._failing(metric, grown) + found_text, metric, grown, minimal)

    def _minimal(self, runner: HybridRunner, step: ModelStep) -> tuple[list[str] | None, str]:
        """The nodes to return, and a sentence about them."""

        def good_without(returned: frozenset[str]) -> bool:
            if not returned:
                return False  # the trace has shown it
            self._context.cancel.check()
            self._count("searching the nodes that make the error")
            result = runner.run(step, set(self._nodes) - returned)
            return within(step.metric(result.outputs), self._tolerance)

        own = {node.id for node in step.graph.kernel_nodes}
        nodes = culprits([node for node in self._nodes if node in own], good_without, MOST_GUILTY)
        if nodes is None:
            return None, f"; more than {MOST_GUILTY} nodes share it, so that no few of them bring it back"
        kernels = {node.id: node.kernel for node in self._graph.kernel_nodes}
        names = listed([f"{node} ({kernels[node]})" for node in nodes], _NAMED)
        verb = "are" if len(nodes) > 1 else "is"
        return nodes, f"; the model is within its bound again when {names} {verb} computed by the reference"

    # ------------------------------------------------ one pass with every node's output

    def _trace(self, runner: HybridRunner, step: ModelStep) -> dict[str, np.ndarray]:
        """Value id -> what the device made of it, all nodes on the device. One pass, or more where that is too much."""
        found: dict[str, np.ndarray] = {}
        graph = step.graph
        wanted = dict.fromkeys([*graph.outputs, *(value for node in graph.kernel_nodes for value in node.outputs)])
        for values in parts(wanted, lambda value: graph.values[value].type.nbytes, _MOST_BYTES):
            self._context.cancel.check()
            self._count("running the whole model, all nodes on the device")
            result = runner.run(step, set(self._nodes), values)
            found |= zip(values, result.outputs, strict=True)
        return found

    # ------------------------------------------------ judging

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
        progress = {"runs": self._runs, "text": text}
        self._context.emit({"type": "model", "device": self._context.device.id, **progress})

    def _entry(
        self,
        verdict: Verdict,
        text: str,
        metric: ModelMetric | None = None,
        grown: Sequence[Grown] = (),
        minimal: list[str] | None = None,
    ) -> ModelCheck:
        return {
            "verdict": verdict,
            "metric": metric,
            "tolerance": self._tolerance,
            "growth": [jsonable(vars(node)) for node in grown],
            "minimal_nodes": minimal,
            "model_runs": self._runs,
            "text": text,
        }
