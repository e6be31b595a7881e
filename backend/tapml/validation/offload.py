"""Offload a model kernel by kernel, validating the whole model after each move (tapml.offload/1).

TapML paper, Algorithm 1: in topological order each operator is validated on its own, then its nodes move to the
device and the whole model runs as a hybrid graph; what does not hold stays on the reference platform.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, TapmlError
from tapml.lowering.model import read_models
from tapml.protocol.methods import Verdict
from tapml.results.base import ModelMetric, ModelTolerance, badness, within
from tapml.results.offload import OffloadDocument, OffloadFinal, OffloadStep
from tapml.results.validation import ValidationDocument
from tapml.results.verdicts import SEVERITY
from tapml.text import listed
from tapml.validation.context import JobContext
from tapml.validation.events import Cancelled
from tapml.validation.hybrid import HybridRunner, ModelStep
from tapml.validation.operatorwise import OperatorRun
from tapml.validation.results import header
from tapml.validation.whole_model import WholeModel, no_library

_NAMED = 4
"""Of kernels in a message."""


class WholeRun(Protocol):
    """The whole model on a device."""

    seconds: dict[str, Any]
    """Of the last run."""

    def run(self, step: ModelStep) -> Sequence[np.ndarray | None]:
        """Its outputs of a step; None for what stays on the device."""


class Offload:
    """One offload of a suite's model to one device."""

    def __init__(
        self,
        context: JobContext,
        kernels: Sequence[str] | None = None,
        *,
        compiled: Callable[[JobContext], AbstractContextManager[WholeRun]] | None = None,
    ) -> None:
        """`kernels`: only these move, and the rest of the model stays on the reference platform. `compiled`: how the
        whole model runs where TVM has no library of it.

        Raises InputError for a suite that is damaged (tensor, an operator's program)."""
        self._context = context
        self.suite = suite = context.suite
        suite.verify()
        self.device = context.device
        self._emit = context.emit
        self._steps: list[OffloadStep] = []
        self._offloaded: list[str] = []
        self._kernels = [name for name in suite.model_graph.kernels if kernels is None or name in kernels]
        self._some = kernels is not None
        self._compiled = compiled
        self._mode = "virtual-machine"
        self._tolerance: ModelTolerance = suite.manifest["model_tolerance"]
        self._models = read_models(suite)

    @property
    def total(self) -> int:
        return len(self._kernels)

    def run(self) -> OffloadDocument:
        """Validate, offload and finally run the whole model; gives the document, also after a cancel."""
        started = time.perf_counter()
        operators = OperatorRun(self._context.only("kernels", "compile", "verdict"), kernels=self._kernels)
        self._emit({"type": "started", "kind": "offload", "total": self.total, "kernels": self._kernels})
        self._emit({"type": "device", "device": self.device.describe()})
        validation = operators.run()
        verdicts = _kernel_verdicts(validation)
        edited, digests = validation["edited_kernels"], validation["kernel_digests"]
        final = self._final("error", "the offload was interrupted before the whole model ran")
        interrupted = False
        with KernelMessages(self.suite, self._context.blobs) as kernels:
            try:
                self._context.cancel.check()
                with HybridRunner(self._context, self._models, kernels) as runner:
                    self._offload_all(verdicts, runner)
                final = self._run_whole_model(kernels, runner, verdicts)
            except Cancelled:
                interrupted = True
        self._emit({"type": "final", "device": self.device.id, "final": final})
        return {
            "format": "tapml.offload/1",
            **header(self.suite, [self.device], interrupted=interrupted, edited=edited, digests=digests),
            "model_tolerance": self._tolerance,
            "steps": self._steps,
            "final": final,
            "summary": {
                "kernels": self.total,
                "offloaded": sum(step["kept"] for step in self._steps),
                "kept_on_reference": self._kept(),
                "nodes": len(self.suite.model_graph.kernel_nodes),
                "offloaded_nodes": len(self._offloaded),
                "seconds": round(time.perf_counter() - started, 3),
            },
        }

    # ------------------------------------------------ step by step

    def _offload_all(self, verdicts: Mapping[str, tuple[Verdict, str]], runner: HybridRunner) -> None:
        for number, kernel in enumerate(self._kernels):
            self._context.cancel.check()
            step = self._step(kernel, *verdicts.get(kernel, ("error", "the operator was not validated")), runner)
            self._steps.append(step)
            event = {"step": step, "number": number + 1, "total": self.total}
            self._emit({"type": "step", "device": self.device.id, **event})

    def _step(self, kernel: str, verdict: Verdict, message: str, runner: HybridRunner) -> OffloadStep:
        started = time.perf_counter()
        nodes = [node.id for node in self.suite.model_graph.nodes_of(kernel)]
        metric, kept, segments = None, False, 0
        if verdict == "pass":
            try:
                metric, segments = self._run_hybrid(runner, {*self._offloaded, *nodes})
            except DeviceError as error:
                message = f"put back: the hybrid graph failed on the device: {error}"
            else:
                kept = within(metric, self._tolerance)
                message = _parted(metric) if kept else f"put back: {self._too_far(kernel, metric)}"
        else:
            message = f"stays on the reference platform: {message}"
        if kept:
            self._offloaded += nodes
        return {
            "kernel": kernel,
            "nodes": nodes,
            "operator_verdict": verdict,
            "model_metric": metric,
            "kept": kept,
            "offloaded_nodes": len(self._offloaded),
            "segments": segments,
            "seconds": round(time.perf_counter() - started, 4),
            "message": message,
        }

    def _run_hybrid(self, runner: HybridRunner, offloaded: set[str]) -> tuple[ModelMetric, int]:
        """The worst agreement over the carved steps, and the segments of the step that has most."""
        segments = 0

        def run(step: ModelStep) -> list[np.ndarray]:
            nonlocal segments
            result = runner.run(step, offloaded)
            segments = max(segments, result.segments)
            return result.outputs

        return self._worst(runner.in_order(run)), segments

    def _worst(self, metrics: Sequence[ModelMetric]) -> ModelMetric:
        return max(metrics, key=lambda metric: badness(metric, self._tolerance))

    def _too_far(self, what: str, metric: ModelMetric) -> str:
        return (
            f"with {what} on the device the model's output is off: cosine {_text(metric['cosine'], 'NaN')} "
            f"(at least {self._tolerance['cosine']:.7f}), max error {_text(metric['max_abs_error'], 'not finite')} "
            f"(at most {self._tolerance['max_abs_error']:.3g})"
        )

    # ------------------------------------------------ the whole model

    def _run_whole_model(
        self, kernels: KernelMessages, runner: HybridRunner, verdicts: Mapping[str, tuple[Verdict, str]]
    ) -> OffloadFinal:
        """As it would be deployed, every node on the device: in the tvmjs virtual machine, or as `tapml build` makes it
        where kernels are not TVM's."""
        if self._some:
            return self._final("unsupported", f"not run: only {listed(self._kernels, _NAMED)} moved to the device")
        if lacking := [name for name in self._kernels if verdicts.get(name, ("",))[0] == "unsupported"]:
            why = verdicts[lacking[0]][1]
            return self._final("unsupported", f"not run: {listed(lacking, _NAMED)}: {why}")
        if broken := [name for name in self._kernels if verdicts.get(name, ("error",))[0] == "error"]:
            # One that never ends or compiles would take the device with it once more.
            return self._final(
                "error", f"not run: on the device {listed(broken, _NAMED)} cannot be run; the steps say why"
            )
        reason = no_library(self.suite)
        if reason and self._compiled is None:
            return self._final("unsupported", f"not run: {reason}; the steps above ran what the suite has")
        self._mode = "compiled" if reason else self._mode
        try:
            whole: AbstractContextManager[WholeRun] = (
                self._compiled(self._context)
                if reason and self._compiled is not None
                else WholeModel(self._context, self._models, kernels)
            )
            with whole as model:
                found = runner.in_order(model.run)
        except TapmlError as error:
            self._context.message(str(error), "error")
            return self._final("error", str(error))
        metric = self._worst(found)
        if within(metric, self._tolerance):
            return self._final("pass", _parted(metric), metric, model.seconds)
        return self._final("fail", self._too_far("everything", metric), metric, model.seconds)

    def _final(
        self, verdict: Verdict, text: str, metric: ModelMetric | None = None, seconds: dict[str, Any] | None = None
    ) -> OffloadFinal:
        return {
            "verdict": verdict,
            "mode": self._mode,
            "model_metric": metric,
            "seconds": seconds or {},
            "message": text,
            "kept_on_reference": self._kept(),
        }

    def _kept(self) -> list[str]:
        return [step["kernel"] for step in self._steps if not step["kept"]]


def _kernel_verdicts(document: ValidationDocument) -> dict[str, tuple[Verdict, str]]:
    """Kernel -> (its worst test's verdict, what that test said)."""
    worst: dict[str, tuple[Verdict, str]] = {}
    for test in sorted(document["tests"], key=lambda test: -SEVERITY.index(test["verdict"])):
        worst.setdefault(test["kernel"], (test["verdict"], test["message"]))
    return worst


def _parted(metric: ModelMetric) -> str:
    """Of a model within its bound: what it chose otherwise than it was carved."""
    return "; ".join(f"{said}, within the bound" for said in metric["choices"])


def _text(number: float | None, none: str) -> str:
    return none if number is None else f"{number:.7g}"
