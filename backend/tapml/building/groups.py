"""Nodes of a function that one dispatch runs, and the kernel that does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.building.combining import Combination, combinations
from tapml.building.merged_entry import ENTRY_POINT
from tapml.building.merged_text import MergedText, merged
from tapml.building.parts import Column, Handed, Part
from tapml.files import unique
from tapml.kernels.choice import all_limits
from tapml.kernels.document import overwritten
from tapml.kernels.wgsl_module import NotUnderstood
from tapml.program import Node, NodeKind
from tapml.program.graph import TensorType
from tapml.protocol.base import MAX_WGSL_BYTES

MOST_WORKGROUPS = 1024
"""Of a dispatch that is made of several: more keep a GPU busy alone."""

MOST_BINDINGS = 8
"""Storage buffers, of kernels side by side: the default maxStorageBuffersPerShaderStage of WebGPU."""

MOST_HANDING_BINDINGS = 10
"""Where each workgroup runs what it reads: what Chromium allows on every GPU. A device that allows fewer runs that in a
launch of its own."""

MOST_SHARED_BYTES = 16_384
"""Of workgroup memory: the default maxComputeWorkgroupStorageSize of WebGPU."""

_LONGEST_NAME = 80

Documents = Mapping[str, Mapping[str, Any]]
Texts = Callable[[str], Sequence[str]]
"""WGSL of a kernel's entry points, by its name."""


@dataclass(frozen=True)
class Group:
    """Nodes that run at once, each behind those whose values it reads. `columns`: which of them a workgroup runs;
    `handed`: those that each workgroup runs that reads what they write."""

    nodes: Sequence[Node]
    columns: Sequence[Column]
    handed: frozenset[int] = frozenset()

    @staticmethod
    def beside(nodes: Sequence[Node]) -> Group:
        """Each in workgroups of its own."""
        return Group(nodes, [(number,) for number in range(len(nodes))])

    @property
    def outputs(self) -> list[str]:
        return [value for node in self.nodes for value in node.outputs]

    @property
    def inputs(self) -> list[str]:
        own = set(self.outputs)
        return list(dict.fromkeys(v for node in self.nodes for v in node.inputs if v not in own))

    @property
    def arguments(self) -> list[list[int]]:
        """Of each node's, places among the inputs and outputs of all."""
        places = {value: place for place, value in enumerate((*self.inputs, *self.outputs))}
        return [[places[value] for value in (*node.inputs, *node.outputs)] for node in self.nodes]


class Kernels:
    """`made`: documents of the kernels that are several; `texts`: of these."""

    def __init__(self, documents: Documents, texts: Texts) -> None:
        self._documents = documents
        self._texts = texts
        self._parts: dict[str, list[Part]] = {}
        self._names: dict[Any, str | None] = {}
        self._combinations: dict[tuple[str, ...], list[Combination]] = {}
        self.made: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, list[str]] = {}

    def parts(self, kernel: str) -> list[Part]:
        """Its variants, where each makes one small dispatch of a known size; else none."""
        if kernel not in self._parts:
            try:
                self._parts[kernel] = list(self._variants(kernel))
            except NotUnderstood:
                self._parts[kernel] = []
        return self._parts[kernel]

    def combinations(self, kernels: Sequence[str]) -> list[Combination]:
        """Of their variants, those that devices run. Raises NotUnderstood."""
        key = tuple(kernels)
        if key not in self._combinations:
            self._combinations[key] = combinations([self._documents[kernel]["variants"] for kernel in kernels])
        return self._combinations[key]

    def overwritten(self, kernel: str) -> Mapping[int, int]:
        return overwritten(self._documents[kernel])

    def spoilt(self, node: Node, shown: Mapping[str, str]) -> set[str]:
        """The inputs that it writes over. `shown`: value -> what it is a view of."""
        if node.kind is not NodeKind.KERNEL:
            return set()
        return {shown[node.inputs[place]] for place in self.overwritten(node.kernel).values()}

    def bytes(self, kernel: str, role: str) -> int | None:
        """Of its inputs, or its outputs, as they are stored; None where they may differ."""
        given = [found for found in self._documents[kernel]["arguments"] if found["role"] == role]
        if not all(isinstance(extent, int) for found in given for extent in found["shape"]):
            return None
        return sum(TensorType(tuple(one["shape"]), one["dtype"], one.get("encoding")).nbytes for one in given)

    def name(self, group: Group) -> str | None:
        """Of the kernel that does the work of all; None where there is none."""
        kernels = [node.kernel for node in group.nodes]
        key = (*kernels, *map(tuple, group.arguments), *map(tuple, group.columns), group.handed)
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

    def _text(self, kernel: str, place: int) -> str:
        """Of a variant of a kernel each of whose variants has one."""
        return self._texts(kernel)[place]

    def _make(self, kernels: Sequence[str], group: Group) -> str:
        documents = [self._documents[kernel] for kernel in kernels]
        arguments = group.arguments
        handed = [
            Handed(number, arguments[number][-1], self.bytes(kernels[number], "output") or 0)
            for number in sorted(group.handed)
        ]
        variants: list[dict[str, Any]] = []
        texts = []
        for combination in self.combinations(kernels):
            given = [document["variants"][place] for document, place in zip(documents, combination.places, strict=True)]
            parts = [self.parts(kernel)[place] for kernel, place in zip(kernels, combination.places, strict=True)]
            text = merged(parts, arguments, kernels, group.columns, handed)
            name = unique(_variant_name(given), lambda taken: any(one["name"] == taken for one in variants))
            expected = {"expected": dict(combination.expected)} if combination.expected else {}
            most = MOST_HANDING_BINDINGS if handed else MOST_BINDINGS
            variants.append({**_variant(name, given, text, most), **expected})
            texts.append(text.wgsl)
            if len(text.operands) > MOST_BINDINGS:
                alone = [self._text(kernel, place) for kernel, place in zip(kernels, combination.places, strict=True)]
                variant, own = _in_turn(f"{name}+in_turn", group, given, parts, alone)
                variants.append({**variant, **expected})
                texts += own
        shortest = "+".join(kernels)
        if len(shortest) > _LONGEST_NAME:
            shortest = f"{kernels[0][: _LONGEST_NAME - 10]}+{len(kernels) - 1}_more"
        name = unique(shortest, lambda taken: taken in self._documents or taken in self.made, "_")
        for variant in variants:
            for entry_point in variant["entry_points"]:
                entry_point["file"] = f"{name}.wgsl"
        self.texts[name] = texts
        self.made[name] = {
            "kernel": name,
            "inputs": len(group.inputs),
            "symbols": list({s["name"]: s for document in documents for s in document["symbols"]}.values()),
            "arguments": _arguments(documents, arguments),
            "variants": variants,
            "parts": [
                {"kernel": kernel, "operands": places}
                for kernel, places in zip(kernels, arguments, strict=True)
            ],
        }  # fmt: skip
        return name


def _arguments(documents: Sequence[Mapping[str, Any]], arguments: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """What one writes and another reads is as the first of them has it: an output."""
    found: dict[int, dict[str, Any]] = {}
    for document, places in zip(documents, arguments, strict=True):
        for argument, place in zip(document["arguments"], places, strict=True):
            before = argument.get("overwrites")
            found.setdefault(place, {**argument, **({} if before is None else {"overwrites": places[before]})})
    return [found[place] for place in sorted(found)]


def _in_turn(
    name: str, group: Group, given: Sequence[Mapping[str, Any]], parts: Sequence[Part], texts: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """A variant for a device that allows fewer bindings, and its texts: what is handed on is a launch of its own before
    that of the others."""
    arguments = group.arguments
    launches, entry_points, written = [], [], []
    for number in sorted(group.handed):
        (launch,), (entry_point,) = given[number]["launches"], given[number]["entry_points"]
        operands = [{"argument": arguments[number][operand["argument"]]} for operand in launch["operands"]]
        launches.append({**launch, "operands": operands})
        entry_points.append(dict(entry_point))
        written.append(texts[number])
    rest = [number for number in range(len(parts)) if number not in group.handed]
    columns = [tuple(rest.index(number) for number in column if number in rest) for column in group.columns]
    text = merged(
        [parts[number] for number in rest],
        [arguments[number] for number in rest],
        [group.nodes[number].kernel for number in rest],
        columns,
    )
    others = _variant(name, [given[number] for number in rest], text, MOST_BINDINGS)
    entry_points += others["entry_points"]
    if len({found["name"] for found in entry_points}) < len(entry_points):
        raise NotUnderstood("two launches have one name")
    alone = (given[number]["requires"]["limits"] for number in sorted(group.handed))
    limits = all_limits([others["requires"]["limits"], *alone])
    variant = {
        "name": name,
        "requires": {"features": _features(given), "limits": limits},
        "entry_points": entry_points,
        "launches": [*launches, *others["launches"]],
        "temporaries": [],
    }
    return variant, [*written, text.wgsl]


def _features(given: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({name for one in given for name in one["requires"]["features"]})


def _variant(name: str, given: Sequence[Mapping[str, Any]], text: MergedText, most_bindings: int) -> dict[str, Any]:
    """Raises NotUnderstood where it takes more than every device has."""
    limits = all_limits(one["requires"]["limits"] for one in given)
    storage = [found for found in text.bindings if found["access"] != "uniform"]
    shared = text.handed_bytes + sum(
        one["requires"]["limits"].get("maxComputeWorkgroupStorageSize", 0) * times
        for one, times in zip(given, text.memory, strict=True)
    )
    too_many = len(storage) > most_bindings or text.workgroups > MOST_WORKGROUPS
    if too_many or shared > MOST_SHARED_BYTES or len(text.wgsl.encode()) > MAX_WGSL_BYTES:
        raise NotUnderstood("together they are too large")
    limits |= {"maxStorageBuffersPerShaderStage": len(storage), "maxComputeWorkgroupStorageSize": shared}
    launch = {
        "entry_point": ENTRY_POINT,
        "operands": [{"argument": place} for place in text.operands],
        "uniforms": list(text.uniforms),
        "grid": [text.workgroups, 1, 1],
    }
    entry_point = {"name": ENTRY_POINT, "workgroup_size": list(text.size), "bindings": list(text.bindings)}
    return {
        "name": name,
        "requires": {"features": _features(given), "limits": limits},
        "entry_points": [entry_point],
        "launches": [launch],
        "temporaries": [],
    }


def _variant_name(given: Sequence[Mapping[str, Any]]) -> str:
    """What its parts are called, each word once: `256+split-64.vectors-1+lanes-8`."""
    words = dict.fromkeys(word for one in given for word in one["name"].split("+"))
    return "+".join(words)[:_LONGEST_NAME]
