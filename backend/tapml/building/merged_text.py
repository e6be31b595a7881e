"""Several kernels in one WGSL text: each workgroup does the work of one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.building.uniforms import UniformUses, is_fixed, literal
from tapml.kernels.wgsl_module import Declaration, Module, NotUnderstood, Parameter

ENTRY_POINT = "side_by_side"
_UNIFORMS = "whole_uniforms"
_NUMBER = "whole_number"
_SAME = {
    "local_invocation_id": "vec3<u32>",
    "local_invocation_index": "u32",
    "subgroup_invocation_id": "u32",
    "subgroup_size": "u32",
}
"""Builtin values that a workgroup has whatever else is dispatched beside it."""


class Part:
    """One kernel's text, with its only launch. Raises NotUnderstood."""

    def __init__(self, wgsl: str, entry_point: Mapping[str, Any], launch: Mapping[str, Any]) -> None:
        self.module = Module(wgsl)
        self.entry = self.module.entry_point(entry_point["name"])
        self.parameters: Sequence[Parameter] = self.module.parameters(self.entry)
        known = {*_SAME, "workgroup_id", "num_workgroups", "global_invocation_id"}
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


@dataclass(frozen=True)
class MergedText:
    """`operands`: of its storage bindings, places among the arguments of all; `uniforms`: what is left of them."""

    wgsl: str
    bindings: Sequence[Mapping[str, Any]]
    operands: Sequence[int]
    uniforms: Sequence[Mapping[str, Any]]
    workgroups: int
    own_memory: Sequence[bool]
    """Of each part: whether it has variables of a workgroup that no part before it has."""


def merged(parts: Sequence[Part], arguments: Sequence[Sequence[int]], titles: Sequence[str]) -> MergedText:
    """`arguments`: of each part's arguments, their places among those of all; `titles` name the parts, for people.
    Raises NotUnderstood where a name of a part might be one of another."""
    return _Merging(parts, arguments, titles).text()


class _Merging:
    def __init__(self, parts: Sequence[Part], arguments: Sequence[Sequence[int]], titles: Sequence[str]) -> None:
        self._parts = parts
        self._arguments = arguments
        self._titles = titles
        self._bindings: list[tuple[str, str, int, str]] = []
        """Name, access, argument and type of each."""
        self._shared: dict[str, list[str]] = {}
        """Variables of workgroups by their type."""
        self._uniforms: list[Mapping[str, Any]] = []
        self._own_memory: list[bool] = []
        for part in parts:
            for text in part.module.texts:
                if text == ENTRY_POINT or text.startswith(("part_", "whole_")):
                    raise NotUnderstood(f"it has a name {text}")

    def text(self) -> MergedText:
        bodies = [self._body(number, part) for number, part in enumerate(self._parts)]
        lines = [f"enable {name};" for name in sorted({name for part in self._parts for name in part.features})]
        lines.append(f"// {len(self._parts)} kernels side by side: each workgroup does the work of one of them.")
        bindings = []
        for number, (name, access, _, kind) in enumerate(self._bindings):
            lines.append(f"@group(0) @binding({number}) var<storage, {access}> {name} : {kind};")
            bindings.append({"binding": number, "access": access})
        if self._uniforms:
            members = ", ".join(f"{found['name']} : {_WORDS[found['dtype']]}" for found in self._uniforms)
            lines += [
                f"struct whole_numbers {{ {members} }}",
                f"@group(0) @binding({len(bindings)}) var<uniform> {_UNIFORMS} : whole_numbers;",
            ]
            bindings.append({"binding": len(bindings), "access": "uniform"})
        lines += [f"var<workgroup> {name} : {kind};" for kind, names in self._shared.items() for name in names]
        text = "\n".join([*lines, "", *bodies, self._entry_point()])
        operands = [argument for _, _, argument, _ in self._bindings]
        count = sum(part.workgroups for part in self._parts)
        return MergedText(text, bindings, operands, self._uniforms, count, self._own_memory)

    def _body(self, number: int, part: Part) -> str:
        """A part's declarations, under names of its own; its entry point is a function."""
        module = part.module
        names = {name: f"part_{number}_{name}" for name in module.names}
        left_out = {*part.uses.declared, *(declared for declared, _, _ in part.storage)}
        for declared, access, argument in part.storage:
            kind = self._type(module, declared, names)
            names[module.name(declared)] = self._binding(self._arguments[number][argument], access, kind, names[
                module.name(declared)])  # fmt: skip
        taken: dict[str, int] = {}
        before = sum(map(len, self._shared.values()))
        for declared in module.declarations:
            if declared.kind == "var" and "workgroup" in module.texts[declared.start : declared.named]:
                left_out.add(declared)
                kind = self._type(module, declared, names)
                names[module.name(declared)] = self._workgroup_variable(kind, taken, names[module.name(declared)])
        self._own_memory.append(sum(map(len, self._shared.values())) > before)
        replaced = part.uses.replaced([self._uniform(uniform) for uniform in part.uniforms])
        kept = [d for d in module.declarations if d.kind != "enable" and d not in left_out]
        texts = [f"// {self._titles[number]}"]
        for declared in kept:
            own = {place: names[module.texts[place]] for place in module.uses(declared)} | replaced
            if declared != part.entry:
                texts.append(module.text(declared.start, declared.end, own))
                continue
            end = module.closing(declared.body)
            parameters = ", ".join(f"{found.name} : {found.type}" for found in self._renamed(part, names))
            body = module.text(end + 1, declared.end, own)
            texts.append(f"fn {names[module.name(declared)]}({parameters}) {body}")
        return "\n".join(texts) + "\n"

    def _renamed(self, part: Part, names: Mapping[str, str]) -> list[Parameter]:
        """A parameter may hide a name of the module, and be renamed with it."""
        return [Parameter(names.get(p.name, p.name), p.builtin, p.type) for p in part.parameters]

    def _type(self, module: Module, declared: Declaration, names: Mapping[str, str]) -> str:
        """Of a variable without a value."""
        texts = module.texts
        end = declared.end - 1
        if texts[declared.body] != ":" or "=" in texts[declared.body : end]:
            raise NotUnderstood(f"{module.name(declared)} is declared without a type")
        own = {place: names[texts[place]] for place in module.uses(declared) if place > declared.body}
        return " ".join(module.text(declared.body + 1, end, own).split())

    def _binding(self, argument: int, access: str, kind: str, name: str) -> str:
        """The variable of an argument: one that is only read is bound once, where all that read it call it the same."""
        for known, *facts in self._bindings:
            if access == "read" and facts == [access, argument, kind]:
                return known
        self._bindings.append((name, access, argument, kind))
        return name

    def _workgroup_variable(self, kind: str, taken: dict[str, int], name: str) -> str:
        """No workgroup runs two parts: memory of one type is theirs together."""
        there = self._shared.setdefault(kind, [])
        number = taken.get(kind, 0)
        taken[kind] = number + 1
        if number == len(there):
            there.append(name)
        return there[number]

    def _uniform(self, uniform: Mapping[str, Any]) -> str:
        if is_fixed(uniform):
            return literal(uniform)
        name = f"number_{len(self._uniforms)}"
        self._uniforms.append({**uniform, "name": name})
        return f"{_UNIFORMS}.{name}"

    def _entry_point(self) -> str:
        x, y, z = self._parts[0].size
        taken = {p.builtin for part in self._parts for p in part.parameters}
        if "global_invocation_id" in taken:
            taken.add("local_invocation_id")
        parameters = ["@builtin(workgroup_id) whole_group : vec3<u32>"]
        parameters += [f"@builtin({name}) whole_{name} : {kind}" for name, kind in _SAME.items() if name in taken]
        lines = [f"@compute @workgroup_size({x}, {y}, {z})", f"fn {ENTRY_POINT}(", *(f"  {p}," for p in parameters)]
        lines.append(") {")
        first = 0
        for number, part in enumerate(self._parts):
            behind = first + part.workgroups
            question = f"if (whole_group.x < {behind}u) " if number < len(self._parts) - 1 else ""
            lines.append(f"  {'} else ' if number else ''}{question}{{")
            lines.append(f"    let {_NUMBER} = whole_group.x - {first}u;")
            given = ", ".join(self._given(found.builtin, part) for found in part.parameters)
            lines.append(f"    part_{number}_{part.module.name(part.entry)}({given});")
            first = behind
        return "\n".join([*lines, "  }", "}", ""])

    def _given(self, builtin: str, part: Part) -> str:
        x, y, z = part.grid
        number = _NUMBER
        places = [number if y == z == 1 else f"{number} % {x}u", f"{number} / {x}u % {y}u", f"{number} / {x * y}u"]
        if z == 1:
            places[1] = f"{number} / {x}u" if x > 1 else number
        group = ", ".join(place if axis > 1 else "0u" for place, axis in zip(places, (x, y, z), strict=True))
        if builtin == "workgroup_id":
            return f"vec3<u32>({group})"
        if builtin == "num_workgroups":
            return f"vec3<u32>({x}u, {y}u, {z}u)"
        if builtin == "global_invocation_id":
            size = ", ".join(f"{axis}u" for axis in part.size)
            return f"vec3<u32>({group}) * vec3<u32>({size}) + whole_local_invocation_id"
        return f"whole_{builtin}"


_WORDS = {"float32": "f32", "int32": "i32", "uint32": "u32"}
