"""Kernels as parts of a dispatch that does the work of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tapml.building.uniforms import UniformUses
from tapml.kernels.wgsl_module import Declaration, Module, NotUnderstood, Parameter

Column: TypeAlias = Sequence[int]
"""Numbers of the parts that a workgroup runs, one behind the other."""

ANYWHERE = frozenset({"workgroup_id", "num_workgroups", "global_invocation_id", "local_invocation_id",
                      "local_invocation_index"})  # fmt: skip
"""Builtin values that can be told whatever a workgroup runs beside."""
_SUBGROUPS = frozenset({"subgroup_invocation_id", "subgroup_size"})

_WAITS = frozenset({"workgroupBarrier", "storageBarrier", "textureBarrier", "workgroupUniformLoad"})

_ELEMENT_BYTES = {
    "f16": 2, "f32": 4, "i32": 4, "u32": 4, "vec2<f16>": 4, "vec2<f32>": 8, "vec2<i32>": 8, "vec2<u32>": 8,
    "vec4<f16>": 8, "vec4<f32>": 16, "vec4<i32>": 16, "vec4<u32>": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Handed:
    """What part number `part`, of one workgroup, writes to the argument at `place`, `bytes` long: each workgroup that
    reads it runs the part, and keeps it in its own memory; the first of them writes it to the argument, too."""

    part: int
    place: int
    bytes: int


class Part:
    """One kernel's text, with its only launch. Raises NotUnderstood."""

    def __init__(self, wgsl: str, entry_point: Mapping[str, Any], launch: Mapping[str, Any]) -> None:
        self.module = Module(wgsl)
        self.entry = self.module.entry_point(entry_point["name"])
        self.parameters: Sequence[Parameter] = self.module.parameters(self.entry)
        known = ANYWHERE | _SUBGROUPS
        if unknown := next((found.builtin for found in self.parameters if found.builtin not in known), None):
            raise NotUnderstood(f"it takes {unknown}")
        self.uniforms: Sequence[Mapping[str, Any]] = launch["uniforms"]
        self.uses = UniformUses(self.module, self.uniforms)
        self.grid: Sequence[int] = launch["grid"]
        self.size: Sequence[int] = entry_point["workgroup_size"]
        self.storage = self._storage(entry_point, launch)
        if any(d.kind in ("requires", "diagnostic") for d in self.module.declarations):
            raise NotUnderstood("it begins with directives")

    @property
    def workgroups(self) -> int:
        return math.prod(self.grid)

    @property
    def features(self) -> set[str]:
        """What its text enables."""
        texts = self.module.texts
        enabled = [texts[d.start + 1 : d.end - 1] for d in self.module.declarations if d.kind == "enable"]
        return {name for names in enabled for name in names if name != ","}

    @property
    def is_small(self) -> bool:
        """One workgroup does all of it, wherever its invocations are numbered so."""
        return self.workgroups == 1 and ANYWHERE.issuperset(p.builtin for p in self.parameters) and not self.features

    def may_be_laid_out(self, copies: int) -> bool:
        """Whether invocations of a workgroup of as many, or of several of them (`copies`), can do its work under other
        numbers. What waits for others of its workgroup would wait for all."""
        if not ANYWHERE.issuperset(p.builtin for p in self.parameters) or self.features - {"f16"}:
            return False
        waits = _WAITS.intersection(self.module.texts)
        shared = any(d.kind == "var" and "workgroup" in self.module.spaces(d) for d in self.module.declarations)
        return copies == 1 or not (waits or shared)

    def _storage(self, entry_point: Mapping[str, Any], launch: Mapping[str, Any]) -> list[tuple[Declaration, str, int]]:
        """Variables that are bound, each with its access and the argument that it is, by the numbers of bindings."""
        accesses = {found["binding"]: found["access"] for found in entry_point["bindings"]}
        variables = {}
        for declared in self.module.declarations:
            given = self.module.attributes(declared).get("binding") if declared.kind == "var" else None
            if given is not None:
                if len(given) != 1 or not given[0].rstrip("iu").isdigit():
                    raise NotUnderstood("a binding has no plain number")
                variables[int(given[0].rstrip("iu"))] = declared
        if variables.keys() != accesses.keys():
            raise NotUnderstood("its bindings are not those of its document")
        numbers = [number for number in sorted(accesses) if accesses[number] != "uniform"]
        return [
            (variables[number], accesses[number], operand["argument"])
            for number, operand in zip(numbers, launch["operands"], strict=True)
        ]


def reader(name: str, variable: str, stored: str, read: str) -> str | None:
    """A function that reads element `at` of what is `read` as an array of other vectors than `variable` is `stored` as;
    None where their numbers are of different types."""
    (number, width), (wanted, count) = _vector(stored), _vector(read)
    if number != wanted:
        return None
    places = [f"at * {count}u + {place}u" if count > 1 else "at" for place in range(count)]
    numbers = [
        f"{variable}[{at}]" if width == 1 else f"{variable}[({at}) / {width}u][({at}) % {width}u]" for at in places
    ]
    return f"fn {name}(at : u32) -> {read} {{\n  return {read}({', '.join(numbers)});\n}}\n"


def _vector(element: str) -> tuple[str, int]:
    """Type of its numbers, and how many it has."""
    if not element.startswith("vec"):
        return element, 1
    return element[5:-1], int(element[3])


def elements_of(kind: str, length: int) -> tuple[str, int]:
    """The type of the elements of a runtime-sized array of `length` bytes, and how many it has. Raises NotUnderstood
    for another type."""
    words = kind.replace(" ", "")
    element = words.removeprefix("array<").removesuffix(">")
    own = _ELEMENT_BYTES.get(element)
    if own is None or words != f"array<{element}>" or length % own:
        raise NotUnderstood(f"{kind} is not an array of numbers")
    return element, length // own
