"""Kernels side by side: small dispatches that do not need each other become one (docs/build.md).

Recording a dispatch costs the host some microseconds, and one of few workgroups leaves most of a GPU idle. Where a
node's inputs are there before another node runs, and both run few workgroups of one size, one dispatch runs both: the
first workgroups do the work of the first kernel, those behind them that of the next. What each computes stays what was
proven; the compiled model says of which dispatches each is made, and a capture records those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tapml.building.merged_text import ENTRY_POINT, MergedText, Part, merged
from tapml.files import unique
from tapml.kernels.document import overwritten
from tapml.kernels.wgsl_module import NotUnderstood
from tapml.program import Node, NodeKind
from tapml.program.graph import shown_by
from tapml.program.program import Function
from tapml.protocol.base import MAX_WGSL_BYTES

MOST_WORKGROUPS = 1024
"""Of a dispatch that is made of several: more keep a GPU busy alone."""

MOST_BINDINGS = 8
"""Storage buffers: the default maxStorageBuffersPerShaderStage of WebGPU."""

MOST_SHARED_BYTES = 16_384
"""Of workgroup memory: the default maxComputeWorkgroupStorageSize of WebGPU."""

_WINDOW = 24
"""Kernels behind a node that are looked at."""
_LONGEST_NAME = 80
_LONGEST_ID = 400

Documents = Mapping[str, Mapping[str, Any]]
Texts = Callable[[str], Sequence[str]]
"""WGSL of a kernel's entry points, by its name."""


@dataclass(frozen=True)
class SideBySide:
    """`functions` with nodes that are several, whose kernels `documents` has behind the others: `parts` of such a
    document are its kernels with the places of their operands among its own. `texts`: WGSL of the variants of each."""

    functions: Mapping[str, Function]
    documents: Documents
    texts: Mapping[str, Sequence[str]]
    nodes: Mapping[str, Mapping[str, Sequence[str]]]
    """Function -> a node that is several -> the ids of these."""

    @property
    def made(self) -> dict[str, list[str]]:
        """The kernels that are several -> these."""
        return {name: [part["kernel"] for part in self.documents[name]["parts"]] for name in self.texts}


def side_by_side(
    functions: Mapping[str, Function], documents: Documents, texts: Texts, choosing: Collection[str]
) -> SideBySide:
    """`choosing`: the kernels that are choices; a function with one keeps its dispatches as they are."""
    kernels = _Kernels(documents, texts)
    found: dict[str, Function] = {}
    nodes: dict[str, dict[str, list[str]]] = {}
    for name, function in functions.items():
        if any(node.kernel in choosing for node in function.nodes):
            found[name], nodes[name] = function, {}
            continue
        found[name], nodes[name] = _Grouping(function, kernels).function()
    used = {node.kernel for function in found.values() for node in function.nodes}
    made = {name: document for name, document in kernels.made.items() if name in used}
    return SideBySide(found, {**documents, **made}, {name: kernels.texts[name] for name in made}, nodes)


@dataclass(frozen=True)
class _Group:
    """Nodes that run at once; `arguments`: of each part's, places among the inputs and outputs of all."""

    nodes: Sequence[Node]
    inputs: Sequence[str]
    outputs: Sequence[str]
    arguments: Sequence[Sequence[int]]

    @staticmethod
    def of(nodes: Sequence[Node]) -> _Group:
        inputs = list(dict.fromkeys(value for node in nodes for value in node.inputs))
        outputs = [value for node in nodes for value in node.outputs]
        arguments, behind = [], len(inputs)
        for node in nodes:
            given = [inputs.index(value) for value in node.inputs]
            arguments.append([*given, *range(behind, behind + len(node.outputs))])
            behind += len(node.outputs)
        return _Group(nodes, inputs, outputs, arguments)


class _Kernels:
    """`made`: documents of the kernels that are several; `texts`: of these."""

    def __init__(self, documents: Documents, texts: Texts) -> None:
        self._documents = documents
        self._texts = texts
        self._parts: dict[str, list[Part] | None] = {}
        self._names: dict[Any, str | None] = {}
        self.made: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, list[str]] = {}

    def parts(self, kernel: str) -> list[Part] | None:
        """Its variants, where each makes one small dispatch of a known size."""
        if kernel not in self._parts:
            try:
                self._parts[kernel] = list(self._variants(kernel))
            except NotUnderstood:
                self._parts[kernel] = None
        return self._parts[kernel]

    def overwritten(self, kernel: str) -> Mapping[int, int]:
        return overwritten(self._documents[kernel])

    def name(self, group: _Group) -> str | None:
        """Of the kernel that does the work of all; None where there is none."""
        kernels = [node.kernel for node in group.nodes]
        key = (*kernels, *map(tuple, group.arguments))
        if key not in self._names:
            try:
                self._names[key] = self._make(kernels, group)
            except NotUnderstood:
                self._names[key] = None
        return self._names[key]

    def _variants(self, kernel: str) -> Iterator[Part]:
        document = self._documents[kernel]
        texts = iter(self._texts(kernel))
        for variant in document["variants"]:
            launches, entry_points = variant["launches"], variant["entry_points"]
            wgsl = [next(texts) for _ in entry_points]
            if len(launches) != 1 or len(entry_points) != 1 or variant["temporaries"]:
                raise NotUnderstood("it makes several dispatches")
            if not all(isinstance(extent, int) and extent > 0 for extent in launches[0]["grid"]):
                raise NotUnderstood("its dispatch has many sizes")
            part = Part(wgsl[0], entry_points[0], launches[0])
            if part.workgroups > MOST_WORKGROUPS:
                raise NotUnderstood("its dispatch is large")
            yield part

    def _make(self, kernels: Sequence[str], group: _Group) -> str:
        documents = [self._documents[kernel] for kernel in kernels]
        variants, texts = [], []
        for number, given in enumerate(zip(*(document["variants"] for document in documents), strict=True)):
            parts = [(self.parts(kernel) or [])[number] for kernel in kernels]
            if len({tuple(part.size) for part in parts}) > 1:
                raise NotUnderstood("their workgroups are of several sizes")
            if len({(one["name"], *sorted(one["requires"]["features"])) for one in given}) > 1:
                raise NotUnderstood("their variants ask for different features")
            text = merged(parts, group.arguments, kernels)
            variants.append(_variant(given, text, parts[0].size))
            texts.append(text.wgsl)
        shortest = "+".join(kernels)
        if len(shortest) > _LONGEST_NAME:
            shortest = f"{kernels[0][: _LONGEST_NAME - 10]}+{len(kernels) - 1}_more"
        name = unique(shortest, lambda taken: taken in self._documents or taken in self.made, "_")
        for variant in variants:
            variant["entry_points"][0]["file"] = f"{name}.wgsl"
        self.texts[name] = texts
        self.made[name] = {
            "kernel": name,
            "inputs": len(group.inputs),
            "symbols": list({s["name"]: s for document in documents for s in document["symbols"]}.values()),
            "arguments": _arguments(documents, group),
            "variants": variants,
            "parts": [
                {"kernel": kernel, "operands": places}
                for kernel, places in zip(kernels, group.arguments, strict=True)
            ],
        }  # fmt: skip
        return name


def _arguments(documents: Sequence[Mapping[str, Any]], group: _Group) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for document, places in zip(documents, group.arguments, strict=True):
        for argument, place in zip(document["arguments"], places, strict=True):
            before = argument.get("overwrites")
            found.setdefault(place, {**argument, **({} if before is None else {"overwrites": places[before]})})
    return [found[place] for place in sorted(found)]


def _variant(given: Sequence[Mapping[str, Any]], text: MergedText, size: Sequence[int]) -> dict[str, Any]:
    """Raises NotUnderstood where it takes more than every device has."""
    limits: dict[str, float] = {}
    for one in given:
        for name, value in one["requires"]["limits"].items():
            least = min if name.startswith("min") else max
            limits[name] = least(limits.get(name, value), value)
    storage = [found for found in text.bindings if found["access"] != "uniform"]
    shared = sum(
        one["requires"]["limits"].get("maxComputeWorkgroupStorageSize", 0)
        for one, own in zip(given, text.own_memory, strict=True)
        if own
    )
    too_many = len(storage) > MOST_BINDINGS or text.workgroups > MOST_WORKGROUPS
    if too_many or shared > MOST_SHARED_BYTES or len(text.wgsl.encode()) > MAX_WGSL_BYTES:
        raise NotUnderstood("together they are too large")
    limits |= {"maxStorageBuffersPerShaderStage": len(storage), "maxComputeWorkgroupStorageSize": shared}
    launch = {
        "entry_point": ENTRY_POINT,
        "operands": [{"argument": place} for place in text.operands],
        "uniforms": list(text.uniforms),
        "grid": [text.workgroups, 1, 1],
    }
    entry_point = {"name": ENTRY_POINT, "workgroup_size": list(size), "bindings": list(text.bindings)}
    return {
        "name": given[0]["name"],
        "requires": {"features": list(given[0]["requires"]["features"]), "limits": limits},
        "entry_points": [entry_point],
        "launches": [launch],
        "temporaries": [],
    }


@dataclass
class _Grouping:
    """One function's nodes in a new order, those that run at once as one node."""

    of: Function
    kernels: _Kernels
    order: list[Node] = field(default_factory=list)
    members: dict[str, list[str]] = field(default_factory=dict)

    def function(self) -> tuple[Function, dict[str, list[str]]]:
        self.shown = shown_by(self.of)
        self.waiting = {value for node in self.of.nodes for value in node.outputs}
        left = list(self.of.nodes)
        while left:
            node = left.pop(0)
            nodes = [node]
            if node.kind is NodeKind.KERNEL and self.kernels.parts(node.kernel):
                nodes += self._beside(node, left)
            self._add(_Group.of(nodes))
        return replace(self.of, nodes=self.order), self.members

    def _add(self, group: _Group) -> None:
        node = group.nodes[0]
        if len(group.nodes) > 1:
            ids = [one.id for one in group.nodes]
            name = " + ".join(ids)
            name = name if len(name) <= _LONGEST_ID else f"{ids[0][:_LONGEST_ID]} + {len(ids) - 1} more"
            name = unique(name, lambda taken: taken in self.members)
            kernel = self.kernels.name(group)
            assert kernel is not None
            node = Node(name, NodeKind.KERNEL, kernel, tuple(group.inputs), tuple(group.outputs))
            self.members[name] = ids
        self.order.append(node)
        self.waiting.difference_update(node.outputs)

    def _beside(self, first: Node, left: list[Node]) -> list[Node]:
        """Nodes among those `left` that may run with `first`; they are taken out, as are views that may stand before
        it."""
        chosen: list[Node] = []
        passed: list[Node] = []
        looked_at = 0
        while left and looked_at < _WINDOW:
            node = left.pop(0)
            ready = not self.waiting.intersection(node.inputs)
            if ready and node.kind is NodeKind.VIEW:
                self.order.append(node)
                self.waiting.difference_update(node.outputs)
                continue
            looked_at += 1
            fits = ready and node.kind is NodeKind.KERNEL and self.kernels.parts(node.kernel)
            if fits and self._apart([first, *chosen], passed, node) and self._one([first, *chosen, node]):
                chosen.append(node)
            else:
                passed.append(node)
        left[:0] = passed
        return chosen

    def _one(self, nodes: Sequence[Node]) -> bool:
        return self.kernels.name(_Group.of(nodes)) is not None

    def _apart(self, group: Sequence[Node], passed: Sequence[Node], node: Node) -> bool:
        """Nothing that one of them writes over is read by another, and none that `passed` would read what was there
        before."""
        own = self._spoilt(node)
        read = {self.shown[value] for other in (*group, *passed) for value in other.inputs}
        spoilt = {value for other in group for value in self._spoilt(other)}
        return not own & read and not spoilt & {self.shown[value] for value in node.inputs}

    def _spoilt(self, node: Node) -> set[str]:
        """The inputs that it writes over."""
        return {self.shown[node.inputs[place]] for place in self.kernels.overwritten(node.kernel).values()}
