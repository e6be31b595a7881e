"""The hybrid graph <F*, G>: some nodes on a device, the rest on the reference platform (TapML paper, Algorithm 1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tapml.compare.agreement import Agreement, agreement
from tapml.compare.choices import Choice, choices
from tapml.devices.commands import allocated, uploaded, viewed
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost
from tapml.lowering.lower import Model
from tapml.platforms.reference import Reference, Values, to_numpy
from tapml.program import Graph, Node, NodeKind, TensorType, ValueKind
from tapml.protocol import methods
from tapml.results.base import ModelMetric
from tapml.suite import CarvedTest, Suite, TensorRef
from tapml.validation.context import JobContext

_RUNS = itertools.count()


@dataclass(frozen=True)
class HybridResult:
    """`outputs` in the graph's order; `segments`: uninterrupted runs on the device (calls made to it)."""

    outputs: list[np.ndarray]
    segments: int


@dataclass(frozen=True)
class ModelStep:
    """One carved step: its graph, its inputs on both sides (value id -> reference to its stored bytes, tensor on the
    reference platform), and what the model has to give.
    """

    number: int
    graph: Graph
    inputs: Mapping[str, tuple[TensorRef, Any]]
    expected: list[np.ndarray]
    choices: Mapping[int, Choice] = field(default_factory=dict)
    """The outputs that are places of what is largest."""

    def metric(self, outputs: Sequence[np.ndarray | None]) -> ModelMetric:
        """How far the model's outputs are from what was carved; None for one that was not told."""
        known = {place: array for place, array in enumerate(outputs) if array is not None}
        rest = [place for place in known if place not in self.choices]
        found = agreement([known[place] for place in rest], [self.expected[place] for place in rest])
        error, said = found.max_abs_error, []
        for place, choice in self.choices.items():
            if place not in known:
                continue
            value, source = (self.graph.values[v].name or v for v in (self.graph.outputs[place], choice.source))
            off, text = choice.difference(known[place], (value, source))
            if text:
                error = max(error, off) if np.isfinite(error) else error
                said.append(text)
        return {**Agreement(found.cosine, error).to_json(), "step": self.number, "choices": said}


def carved_choices(suite: Suite, graph: Graph, tests: Sequence[CarvedTest]) -> dict[int, Choice]:
    """The outputs of a step's graph that are places of what is largest, by the tests that were carved of it: those that
    were imported are of nodes beside the graph."""
    nodes = {node.id: node for node in graph.kernel_nodes}
    carved = {
        value: ref
        for test in tests
        if (node := nodes.get(test.node)) is not None
        for value, ref in zip((*node.inputs, *node.outputs), (*test.inputs, *test.outputs), strict=True)
    }
    return choices(graph, lambda value: suite.tensors.get(carved[value]) if value in carved else None)


class HybridRunner:
    """Runs a suite's model again and again under changing plans. Weights are uploaded to the device once.

    A context manager: at its end weights and kernels on the device are freed; `steps` stay.
    """

    def __init__(self, context: JobContext, models: Sequence[Model], kernels: KernelMessages) -> None:
        """`models`: the suite's (read_models).

        Raises InputError for operators that TVM cannot compile, and for a tensor that is missing or corrupted.
        """
        suite = context.suite
        self.context = context
        self.reference = Reference(*models, functions=context.functions)
        self.kernels = kernels
        self.parameters = suite.parameters
        self.weights = self.reference.values({v: suite.tensors.get(ref) for v, ref in suite.parameters.items()})
        tests: dict[int, list[CarvedTest]] = {}
        for test in suite.tests:
            tests.setdefault(test.step, []).append(test)
        self.steps = [
            self._step(suite, number, graph, step, tests.get(number, []))
            for number, (graph, step) in enumerate(zip(suite.graphs, suite.manifest["steps"], strict=True))
        ]
        self.uploaded: set[str] = set()
        self.library = f"h{next(_RUNS)}"
        self.loaded: set[str] = set()

    def _step(
        self, suite: Suite, number: int, graph: Graph, step: Mapping[str, Any], tests: Sequence[CarvedTest]
    ) -> ModelStep:
        refs = [TensorRef.from_json(ref) for ref in step["inputs"].values()]
        inputs = {
            value: (ref, self.reference.tensor(suite.tensors.get(ref)))
            for value, ref in zip(graph.inputs, refs, strict=True)
        }
        expected = [suite.tensors.get(TensorRef.from_json(ref)) for ref in step["outputs"]]
        return ModelStep(number, graph, inputs, expected, carved_choices(suite, graph, tests))

    def in_order(
        self,
        run: Callable[[ModelStep], Sequence[np.ndarray | None]],
        until: Callable[[ModelMetric], bool] = lambda _: False,
    ) -> list[ModelMetric]:
        """How far each step is off; `run` gives its outputs, and it begins with the states that the former left; with
        those that were carved where `run` does not tell them. The last one is that of which `until` holds."""
        metrics: list[ModelMetric] = []
        left: dict[str, np.ndarray] = {}
        for step in self.steps:
            if metrics and until(metrics[-1]):
                break
            begun = step.graph.begun(left)
            types = [step.graph.values[value].type for value in begun]
            pieces = [found.encoded(array).tobytes() for found, array in zip(types, begun.values(), strict=True)]
            with self.context.blobs.holding(pieces) as digests:
                states = {
                    value: (TensorRef(digest, found.dtype, found.shape, found.encoding), self.reference.tensor(array))
                    for digest, found, (value, array) in zip(digests, types, begun.items(), strict=True)
                }
                outputs = run(replace(step, inputs={**step.inputs, **states}))
            metrics.append(step.metric(outputs))
            left |= {name: array for name, array in step.graph.left(outputs).items() if array is not None}
        return metrics

    def run(self, step: ModelStep, offloaded: Set[str], outputs: Sequence[str] | None = None) -> HybridResult:
        """Run the model with `offloaded` (node ids) on the device; `outputs`: values to bring home in place of the
        model's outputs.

        Raises DeviceError with what the device reported.
        """
        graph = step.graph if outputs is None else replace(step.graph, outputs=tuple(outputs))
        return _Run(self, graph, step.inputs, offloaded).execute()

    def __enter__(self) -> HybridRunner:
        return self

    def __exit__(self, *_: object) -> None:
        if self.uploaded or self.loaded:
            commands: list[methods.Command] = [methods.UnloadCommand(library=self.library_of(k)) for k in self.loaded]
            commands.append(methods.FreeCommand(tensors=[_weight(value) for value in sorted(self.uploaded)]))
            self.context.free(commands)
        self.uploaded.clear()
        self.loaded.clear()

    def library_of(self, kernel: str) -> str:
        """Each kernel is a library of its own: they are loaded one by one, as they move to the device."""
        return f"{self.library}/{kernel}"


class _Run:
    """One pass over the graph. Device work is gathered and sent when the reference needs a result of it."""

    def __init__(
        self,
        owner: HybridRunner,
        graph: Graph,
        inputs: Mapping[str, tuple[TensorRef, Any]],
        offloaded: Set[str],
    ) -> None:
        self._owner = owner
        self._graph = graph
        self._inputs = inputs
        self._offloaded = offloaded
        self._prefix = f"r{next(_RUNS)}/"
        self._host: Values = {**owner.weights, **{value: tensor for value, (_, tensor) in inputs.items()}}
        self._on_device: set[str] = set()
        self._views = {n.outputs[0]: n.inputs[0] for n in self._graph.nodes if n.kind is NodeKind.VIEW}
        self._commands: list[methods.Command] = []
        self._made_since_flush: list[str] = []
        self._held: list[str] = []
        self._needed_on_host = self._host_needs()
        self._last_use = {
            value: position
            for position, node in enumerate(self._graph.nodes)
            for value in map(self._source, node.inputs)
        }
        self._segments = 0

    def execute(self) -> HybridResult:
        try:
            for position, node in enumerate(self._graph.nodes):
                if node.kind is NodeKind.VIEW:
                    continue  # made where and when somebody needs it
                if node.id in self._offloaded:
                    self._run_on_device(node, position)
                else:
                    self._run_on_host(node)
            outputs = [
                to_numpy(self._host_value(value), self._graph.values[value].type.dtype) for value in self._graph.outputs
            ]
        finally:
            self._commands = [methods.FreePrefixCommand(prefix=self._prefix)]
            if self._owner.context.device.connected and self._segments:
                self._send([])
        return HybridResult(outputs, self._segments)

    # ------------------------------------------------ reference side

    def _run_on_host(self, node: Node) -> None:
        for value in node.inputs:
            self._host_value(value)
        self._owner.reference.run_node(self._graph, node, self._host)

    def _host_value(self, value: str) -> Any:
        """The value on the reference platform, fetched from the device or viewed where need be."""
        if value not in self._host:
            if value in self._views:
                source = self._host_value(self._views[value])
                array = to_numpy(source, self._type(value).dtype).reshape(self._type(value).shape)
                self._host[value] = self._owner.reference.tensor(array)
            else:
                self._flush()
        return self._host[value]

    def _host_needs(self) -> set[str]:
        """Values that a node on the reference, or the caller, reads; views count as what they view."""
        needed = {self._source(value) for value in self._graph.outputs}
        for node in self._graph.kernel_nodes:
            if node.id not in self._offloaded:
                needed |= {self._source(value) for value in node.inputs}
        return needed

    def _source(self, value: str) -> str:
        while value in self._views:
            value = self._views[value]
        return value

    # ------------------------------------------------ device side

    def _run_on_device(self, node: Node, position: int) -> None:
        names = [self._device_value(value) for value in node.inputs]
        for value in node.outputs:
            self._commands.append(allocated(self._name(value), self._type(value)))
            self._on_device.add(value)
            names.append(self._name(value))
        library = self._owner.library_of(node.kernel)
        if node.kernel not in self._owner.loaded:
            kernels = [self._owner.kernels.kernel(node.kernel)]
            self._commands.append(methods.LoadCommand(library=library, kernels=kernels))
            self._owner.loaded.add(node.kernel)
        sizes = self._owner.kernels.sizes_of(node.id, self._graph)
        self._commands.append(methods.CallCommand(library=library, kernel=node.kernel, sizes=sizes, arguments=names))
        self._made_since_flush += node.outputs
        for value in dict.fromkeys(map(self._source, node.inputs)):
            spent = self._last_use[value] == position and value in self._on_device
            if spent and value not in self._needed_on_host:
                self._commands.append(methods.FreeCommand(tensors=[self._name(value)]))

    def _device_value(self, value: str) -> str:
        """Name of the value on the device, after queueing what brings it there."""
        found = self._graph.values[value]
        if found.kind is ValueKind.PARAMETER:
            name = _weight(value)
            if value not in self._owner.uploaded:
                self._commands.append(uploaded(name, self._owner.parameters[value].digest, found.type))
                self._owner.uploaded.add(value)
            return name
        name = self._name(value)
        if value in self._on_device:
            return name
        if value in self._views:
            of = self._device_value(self._views[value])
            self._commands.append(viewed(name, of, found.type))
        elif found.kind is ValueKind.INPUT:
            self._commands.append(uploaded(name, self._inputs[value][0].digest, found.type))
        else:
            array = to_numpy(self._host[value], found.type.dtype)
            digest = self._owner.context.blobs.hold(found.type.encoded(array).tobytes())
            self._held.append(digest)
            self._commands.append(uploaded(name, digest, found.type))
        self._on_device.add(value)
        return name

    def _name(self, value: str) -> str:
        return self._prefix + value

    def _flush(self) -> None:
        """Send the queued work and bring back what the reference side will read of it."""
        wanted = [value for value in self._made_since_flush if value in self._needed_on_host]
        self._commands += [methods.DownloadCommand(tensor=self._name(value)) for value in wanted]
        self._segments += 1
        for value, array in zip(wanted, self._send(wanted), strict=True):
            self._host[value] = self._owner.reference.tensor(array)
        self._made_since_flush = []

    def _send(self, wanted: Sequence[str]) -> list[np.ndarray]:
        context = self._owner.context
        try:
            types = [self._type(value) for value in wanted]
            return context.device.execute(self._commands, types, hang_seconds=context.hang_seconds).arrays
        except DeviceError as error:
            self._forget(everything=isinstance(error, DeviceLost))
            raise
        finally:
            for digest in self._held:
                context.blobs.release(digest)
            self._commands, self._held = [], []

    def _forget(self, *, everything: bool) -> None:
        """After an error nobody knows how far the commands came: what they brought is brought again."""
        owner = self._owner
        if everything:
            owner.uploaded.clear()
            owner.loaded.clear()
        for command in self._commands:
            if isinstance(command, methods.LoadCommand):
                owner.loaded -= {kernel.kernel for kernel in command.kernels}
            elif isinstance(command, methods.UploadCommand):
                owner.uploaded.discard(command.tensor.removeprefix(_weight("")))

    def _type(self, value: str) -> TensorType:
        return self._graph.values[value].type


def _weight(value: str) -> str:
    return f"w/{value}"
