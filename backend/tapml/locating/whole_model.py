"""The whole model on the device, and, where it is off, which nodes bring it back when they return to the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tapml.compare.agreement import agreement
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, InputError
from tapml.locating.delta import culprits
from tapml.locating.evidence import jsonable
from tapml.locating.examine import parts
from tapml.locating.growth import Grown, growth
from tapml.lowering.model import read_models
from tapml.program.generation import LOGITS, POSITIONS
from tapml.protocol.methods import Verdict
from tapml.results.base import ModelMetric, ModelTolerance, badness, within
from tapml.results.locate import ModelCheck
from tapml.results.validation import TestResult
from tapml.suite import TensorRef
from tapml.text import listed, one_line
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

    def __init__(self, context: JobContext, results: Mapping[str, TestResult], accused: Sequence[str] = ()) -> None:
        """`accused`: kernels that are known to be faulty."""
        self._accused = accused
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
        text = f"{self._operators}, but the model"
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

    @property
    def _operators(self) -> str:
        if not self._accused:
            return "every operator passes"
        return f"{listed(self._accused, _NAMED)} {'fail' if len(self._accused) > 1 else 'fails'}"

    def _check(self, runner: HybridRunner) -> ModelCheck:
        metric, step, got = self._first_or_worst(runner)
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
            text = f"{self._operators}, and so does the whole model"
            if self._accused:
                text = f"{self._operators}, and the whole model is within its bound in all {len(runner.steps)} steps"
            left = f" with {', '.join(self._left)} left on the reference" if self._left else ""
            parted = "".join(f"; {said}, within the bound" for said in metric["choices"])
            return self._entry("pass", text + left + parted, metric, grown, [])
        minimal, found_text = self._minimal(runner, step)
        text = self._failing(*self._parted(metric, step, got), step, grown)
        text += "".join(f"; {said}" for said in metric["choices"])
        return self._entry("fail", text + found_text, metric, grown, minimal)

    def _first_or_worst(self, runner: HybridRunner) -> tuple[ModelMetric, ModelStep, dict[str, np.ndarray]]:
        """A step, with every node's output: of calls that follow one another the first that is off, for the others go
        on from what it left; else the one that is off most."""
        kept: tuple[ModelMetric, ModelStep, dict[str, np.ndarray]] | None = None

        def run(step: ModelStep) -> list[np.ndarray]:
            nonlocal kept
            got = self._trace(runner, step)
            outputs = [got[value] for value in step.graph.outputs]
            metric = step.metric(outputs)
            if kept is None or badness(metric, self._tolerance) > badness(kept[0], self._tolerance):
                kept = metric, step, got
            return outputs

        if self._suite.program.states:
            runner.in_order(run, lambda metric: not within(metric, self._tolerance))
        else:
            for step in runner.steps:
                run(step)
        assert kept is not None, "a suite with a model has a step"
        return kept

    def _minimal(self, runner: HybridRunner, step: ModelStep) -> tuple[list[str] | None, str]:
        """The nodes to return, and a sentence about them."""

        def good_without(returned: frozenset[str]) -> bool:
            if not returned:
                return False  # the trace has shown it
            self._context.cancel.check()
            self._count("searching the nodes that make the error")
            rest = set(self._nodes) - returned
            if not self._suite.program.states:
                return within(step.metric(runner.run(step, rest).outputs), self._tolerance)
            metrics = runner.in_order(
                lambda one: runner.run(one, rest).outputs,
                lambda metric: metric["step"] == step.number or not within(metric, self._tolerance),
            )
            return within(metrics[-1], self._tolerance)

        # What calls before it left in states counts, too.
        graphs = self._suite.graphs[: step.number + 1] if self._suite.program.states else [step.graph]
        own = {node.id: node.kernel for graph in graphs for node in graph.kernel_nodes}
        known = [node for node in self._nodes if own.get(node) in self._accused]
        nodes = known if known and good_without(frozenset(known)) else None
        if nodes is None:
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

    def _parted(self, metric: ModelMetric, step: ModelStep, got: Mapping[str, np.ndarray]) -> tuple[str, float | None]:
        """What is off, and by how much: of a decoder the logits, or, where these are not, its states."""
        names = self._suite.output_names(self._suite.step_functions[step.number])
        if not self._suite.generation or LOGITS not in names:
            return "the model's output is", metric["max_abs_error"]
        place = names.index(LOGITS)
        logits = agreement([got[step.graph.outputs[place]]], [step.expected[place]]).to_json()
        if within(logits, self._tolerance):
            return "the model's states are", metric["max_abs_error"]
        return "the logits are", logits["max_abs_error"]

    def _failing(self, what: str, error: float | None, step: ModelStep, grown: Sequence[Grown]) -> str:
        off = "not a number" if error is None else f"{error:.3g} (at most {self._tolerance['max_abs_error']:.3g})"
        text = f"every operator passes by itself, but {what} off by {off}"
        if self._accused:
            text = f"{self._operators}: {what} off by {off}"
        if self._suite.program.states:
            text += f" at {self._where(step)}, the first of {len(self._suite.graphs)} steps beyond the bound"
        steepest = max(grown, key=lambda node: node.amplification or 0.0, default=None)
        if steepest is not None and steepest.amplification and steepest.amplification > 1:
            times = f"{steepest.amplification:.3g}"
            text += f"; the error grows most at {steepest.node} ({steepest.kernel}), {times} times"
        return text

    def _where(self, step: ModelStep) -> str:
        """A step by its number, what it was given, and where its last token stands."""
        document = self._suite.manifest["steps"][step.number]
        text = f"step {step.number} ({one_line(document['description'], 100)})"
        if self._suite.generation:
            positions = self._suite.tensors.get(TensorRef.from_json(document["inputs"][POSITIONS]))
            text += f", position {int(positions.max(initial=0))}"
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
