"""Several kernels in one WGSL text: each workgroup does the work of one of them, or of several in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.building.merged_entry import COPY, ENTRY_POINT, Entry
from tapml.building.parts import Column, Handed, Part, elements_of, reader
from tapml.building.uniforms import is_fixed, literal
from tapml.kernels.wgsl_module import Declaration, Module, NotUnderstood, Parameter

_UNIFORMS = "whole_uniforms"


@dataclass(frozen=True)
class MergedText:
    """`operands`: of its storage bindings, places among the arguments of all; `uniforms`: what is left of them."""

    wgsl: str
    bindings: Sequence[Mapping[str, Any]]
    operands: Sequence[int]
    uniforms: Sequence[Mapping[str, Any]]
    size: Sequence[int]
    """Of a workgroup."""
    workgroups: int
    memory: Sequence[int]
    """Of each part: how often it takes what its variables of a workgroup take alone; 0 where parts before have it."""
    handed_bytes: int
    """Of workgroup memory, for what is handed on."""


def merged(
    parts: Sequence[Part],
    arguments: Sequence[Sequence[int]],
    titles: Sequence[str],
    columns: Sequence[Column] | None = None,
    handed: Sequence[Handed] = (),
) -> MergedText:
    """`arguments`: of each part's arguments, their places among those of all; `titles` name the parts, for people.
    `columns`: which parts a workgroup runs (each part has workgroups of its own where it is left out); `handed`: parts
    that every workgroup runs that reads what they write.

    Raises NotUnderstood where a name of a part might be one of another, and where the parts do not go together.
    """
    return _Merging(parts, arguments, titles, columns or [(number,) for number in range(len(parts))], handed).text()


class _Merging:
    def __init__(
        self,
        parts: Sequence[Part],
        arguments: Sequence[Sequence[int]],
        titles: Sequence[str],
        columns: Sequence[Column],
        handed: Sequence[Handed],
    ) -> None:
        self._parts = parts
        self._arguments = arguments
        self._titles = titles
        self._columns = columns
        self._handed = {found.part: found for found in handed}
        self._bindings: list[tuple[str, str, int, str]] = []
        """Name, access, argument and type of each."""
        self._shared: dict[str, list[str]] = {}
        """Variables of workgroups by their type."""
        self._own: list[tuple[str, str]] = []
        """Names and types of those that no other part has: of what is handed on."""
        self._elements: dict[int, str] = {}
        """Of what is handed on, by part."""
        self._taken: list[dict[str, int]] = [{} for _ in columns]
        """Of each column, how many variables of a type its parts have so far."""
        self._uniforms: list[Mapping[str, Any]] = []
        self._memory: list[int] = []
        for part in parts:
            for text in part.module.texts:
                if text == ENTRY_POINT or text.startswith(("part_", "whole_")):
                    raise NotUnderstood(f"it has a name {text}")
        self._entry = Entry(parts, columns, self._handed)

    def text(self) -> MergedText:
        bodies = [self._body(number, part) for number, part in enumerate(self._parts)]
        lines = [f"enable {name};" for name in sorted({name for part in self._parts for name in part.features})]
        lines += self._heading()
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
        shared = [(name, kind) for kind, names in self._shared.items() for name in names]
        lines += [f"var<workgroup> {name} : {kind};" for name, kind in (*shared, *self._own)]
        if self._handed:
            lines.append(f"var<private> {COPY} : u32;")
        bound = {number: self._bound(found.place) for number, found in self._handed.items()}
        text = "\n".join([*lines, "", *bodies, self._entry.text(bound)])
        operands = [argument for _, _, argument, _ in self._bindings]
        handed_bytes = sum(found.bytes * self._entry.copies(number) for number, found in self._handed.items())
        whole = self._entry
        return MergedText(
            text, bindings, operands, self._uniforms, whole.size, whole.workgroups, self._memory, handed_bytes
        )

    def _heading(self) -> list[str]:
        if len(self._columns) == len(self._parts):
            return [f"// {len(self._parts)} kernels side by side: each workgroup does the work of one of them."]
        rows = [" then ".join(self._titles[number] for number in column) for column in self._columns]
        return [f"// {len(self._parts)} kernels. Each workgroup does the work of one line:", *(f"// {r}" for r in rows)]

    def _body(self, number: int, part: Part) -> str:
        """A part's declarations, under names of its own; its entry point is a function."""
        module = part.module
        names = {name: f"part_{number}_{name}" for name in module.names}
        left_out = {*part.uses.declared, *(declared for declared, _, _ in part.storage)}
        texts = [f"// {self._titles[number]}"]
        replaced: dict[int, str] = {}
        for stored in part.storage:
            names[module.name(stored[0])] = self._stored(number, stored, names, texts, replaced)
        variables = [d for d in module.declarations if d.kind == "var" and "workgroup" in module.spaces(d)]
        left_out.update(variables)
        if number in self._handed:
            self._copied_variables(number, module, variables, names)
        else:
            before = sum(map(len, self._shared.values()))
            taken = next(taken for taken, column in zip(self._taken, self._columns, strict=True) if number in column)
            for declared in variables:
                kind = self._type(module, declared, names)
                names[module.name(declared)] = self._workgroup_variable(kind, taken, names[module.name(declared)])
            self._memory.append(int(sum(map(len, self._shared.values())) > before))
        replaced |= part.uses.replaced([self._uniform(uniform) for uniform in part.uniforms])
        kept = [d for d in module.declarations if d.kind != "enable" and d not in left_out]
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

    def _stored(
        self,
        number: int,
        stored: tuple[Declaration, str, int],
        names: Mapping[str, str],
        texts: list[str],
        replaced: dict[int, str],
    ) -> str:
        """What stands in a part's text for a variable that is bound: the binding, what another part hands on, or a
        function that reads that as elements of another type. That is one of `texts`, its calls are `replaced`."""
        part, (declared, access, argument) = self._parts[number], stored
        place = self._arguments[number][argument]
        module = part.module
        name = names[module.name(declared)]
        kind = self._type(module, declared, names)
        by = next((found for found in self._handed.values() if found.place == place), None)
        if by is None:
            return self._binding(place, access, kind, name)
        element, count = elements_of(kind, by.bytes)
        handed = f"part_{by.part}_handed"
        module.check_uses(declared, elements=True)
        if number == by.part:
            self._elements[number] = element
            self._own.append((handed, f"array<array<{element}, {count}>, {self._entry.copies(number)}>"))
            self._binding(place, access, kind, name)
            return f"{handed}[{COPY}]"
        if self._elements.get(by.part) == element:
            return f"{handed}[0]"
        function = reader(name, f"{handed}[0]", self._elements.get(by.part, ""), element)
        if function is None or access != "read":
            raise NotUnderstood("it reads what is handed on as another type")
        texts.append(function)
        for declaration in module.declarations:
            for at in module.uses(declaration) if declaration != declared else ():
                if module.texts[at] == module.name(declared):
                    replaced |= {at + 1: "(u32(", module.closing(at + 1): "))"}
        return name

    def _copied_variables(
        self, number: int, module: Module, variables: Sequence[Declaration], names: dict[str, str]
    ) -> None:
        """Of a part that is handed on: each of its copies has its own."""
        copies = self._entry.copies(number)
        for declared in variables:
            name = module.name(declared)
            kind = self._type(module, declared, names)
            module.check_uses(declared, elements=False)
            self._own.append((names[name], f"array<{kind}, {copies}>"))
            names[name] = f"{names[name]}[{COPY}]"
        self._memory.append(copies)

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
        """The variable of an argument: bound once where all that read it call it the same. What is written is bound
        once in any case."""
        for known, bound, *facts in self._bindings:
            if facts == [argument, kind] and (bound == access == "read" or (bound, access) == ("read_write", "read")):
                return known
            if facts[0] == argument and "read_write" in (access, bound):
                raise NotUnderstood("what is written is bound twice")
        self._bindings.append((name, access, argument, kind))
        return name

    def _bound(self, argument: int) -> tuple[str, str]:
        """Variable and type of the argument that a part hands on."""
        return next((name, kind) for name, _, place, kind in self._bindings if place == argument)

    def _workgroup_variable(self, kind: str, taken: dict[str, int], name: str) -> str:
        """No workgroup runs parts of two columns: memory of one type is theirs together."""
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


_WORDS = {"float32": "f32", "int32": "i32", "uint32": "u32"}
