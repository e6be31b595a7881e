"""The entry point of several kernels in one text: which workgroup does the work of which, as whose invocations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tapml.building.parts import Column, Handed, Part, elements_of
from tapml.kernels.wgsl_module import NotUnderstood

ENTRY_POINT = "side_by_side"
COPY = "whole_copy"
"""Of a part that is handed on, which of its copies an invocation works for."""

_NUMBER = "whole_number"
_INDEX = "whole_local_invocation_index"
_LANE = "whole_lane"
_SAME = {
    "local_invocation_id": "vec3<u32>",
    "local_invocation_index": "u32",
    "subgroup_invocation_id": "u32",
    "subgroup_size": "u32",
}
"""Builtin values that a workgroup has whatever else is dispatched beside it."""


class Entry:
    """`handed`: by the numbers of parts. Raises NotUnderstood where a workgroup cannot do the work of the parts."""

    def __init__(self, parts: Sequence[Part], columns: Sequence[Column], handed: Mapping[int, Handed]) -> None:
        self._parts = parts
        self._columns = columns
        self._handed = handed
        sizes = [part.size for number, part in enumerate(parts) if number not in handed]
        self.size: Sequence[int] = max(sizes, key=math.prod)
        """Of a workgroup: that of the largest."""
        self._invocations = math.prod(self.size)
        for number, part in enumerate(parts):
            self.copies(number)
            if number not in handed and self._is_laid_out(part) and not part.may_be_laid_out(self._copies(part)):
                raise NotUnderstood("their workgroups are of several sizes")

    @property
    def workgroups(self) -> int:
        return sum(self._workgroups(column) for column in self._columns)

    def copies(self, number: int) -> int:
        """How many of a workgroup that a part has alone are in one of all."""
        return self._copies(self._parts[number])

    def text(self, bound: Mapping[int, tuple[str, str]]) -> str:
        """`bound`: variable and type of what is bound for each part that is handed on."""
        x, y, z = self.size
        alone = [part for number, part in enumerate(self._parts) if number not in self._handed]
        laid_out = any(map(self._is_laid_out, alone))
        taken = {p.builtin for part in alone if not self._is_laid_out(part) for p in part.parameters}
        if "global_invocation_id" in taken:
            taken.add("local_invocation_id")
        if self._handed or laid_out:
            taken.add("local_invocation_index")
        parameters = ["@builtin(workgroup_id) whole_group : vec3<u32>"]
        parameters += [f"@builtin({name}) whole_{name} : {kind}" for name, kind in _SAME.items() if name in taken]
        lines = [f"@compute @workgroup_size({x}, {y}, {z})", f"fn {ENTRY_POINT}(", *(f"  {p}," for p in parameters)]
        lines.append(") {")
        first = 0
        stored: set[int] = set()
        for number, column in enumerate(self._columns):
            behind = first + self._workgroups(column)
            question = f"if (whole_group.x < {behind}u) " if number < len(self._columns) - 1 else ""
            lines.append(f"  {'} else ' if number else ''}{question}{{")
            lines.append(f"    let {_NUMBER} = whole_group.x - {first}u;")
            for part in column:
                called = self._call(part, None if part in stored else first, bound)
                lines += [f"    {line}" for line in called]
                stored.add(part)
            first = behind
        return "\n".join([*lines, "  }", "}", ""])

    def _workgroups(self, column: Column) -> int:
        alone = [self._parts[number] for number in column if number not in self._handed]
        if len({(tuple(part.grid), self._copies(part)) for part in alone}) != 1:
            raise NotUnderstood("their dispatches are of several sizes")
        return -(-alone[0].workgroups // self._copies(alone[0]))

    def _copies(self, part: Part) -> int:
        own = math.prod(part.size)
        if self._invocations % own:
            raise NotUnderstood(f"workgroups of {self._invocations} are not several of {own}")
        return self._invocations // own

    def _is_laid_out(self, part: Part) -> bool:
        """Whether its invocations are numbered otherwise than those of a workgroup."""
        return tuple(part.size) != tuple(self.size)

    def _call(self, number: int, first: int | None, bound: Mapping[int, tuple[str, str]]) -> list[str]:
        """`first`: of the workgroups that run what is handed on, the one that writes it to memory."""
        part = self._parts[number]
        given = ", ".join(self._given(found.builtin, part, number in self._handed) for found in part.parameters)
        call = f"part_{number}_{part.module.name(part.entry)}({given});"
        own = math.prod(part.size)
        if number not in self._handed:
            return self._laid_out(part, call) if self._is_laid_out(part) else [call]
        lines = [f"{COPY} = {_INDEX} / {own}u;", "{", f"  let {_LANE} = {_INDEX} % {own}u;", f"  {call}", "}"]
        lines.append("workgroupBarrier();")
        if first is None:
            return lines
        name, kind = bound[number]
        _, count = elements_of(kind, self._handed[number].bytes)
        turn = f"for (var at = {_INDEX}; at < {count}u; at += {self._invocations}u)"
        copied = f"{turn} {{ {name}[at] = part_{number}_handed[0][at]; }}"
        return [*lines, f"if (whole_group.x == {first}u) {{ {copied} }}"]

    def _laid_out(self, part: Part, call: str) -> list[str]:
        """Several of its workgroups in one, or one of another shape."""
        own, copies = math.prod(part.size), self._copies(part)
        number = f"{_NUMBER} * {copies}u + {_INDEX} / {own}u" if copies > 1 else _NUMBER
        lines = ["{", f"  let whole_lane = {_INDEX} % {own}u;", f"  let whole_part = {number};"]
        guarded = f"if (whole_part < {part.workgroups}u) {{ {call} }}" if part.workgroups % copies else call
        return [*lines, f"  {guarded}", "}"]

    def _given(self, builtin: str, part: Part, handed: bool) -> str:
        sx, sy, _ = part.size
        if handed or self._is_laid_out(part):
            inside = f"vec3<u32>({_LANE} % {sx}u, {_LANE} / {sx}u % {sy}u, {_LANE} / {sx * sy}u)"
            ids = {"local_invocation_id": inside, "local_invocation_index": _LANE}
        else:
            ids = {name: f"whole_{name}" for name in _SAME}
            inside = ids["local_invocation_id"]
        if handed:
            ids |= {"global_invocation_id": inside, "workgroup_id": "vec3<u32>(0u, 0u, 0u)"}
        if builtin in ids:
            return ids[builtin]
        x, y, z = part.grid
        if builtin == "num_workgroups":
            return f"vec3<u32>({x}u, {y}u, {z}u)"
        group = _place(_NUMBER if not self._is_laid_out(part) else "whole_part", x, y, z)
        if builtin == "workgroup_id":
            return f"vec3<u32>({group})"
        size = ", ".join(f"{axis}u" for axis in part.size)
        return f"vec3<u32>({group}) * vec3<u32>({size}) + {inside}"


def _place(number: str, x: int, y: int, z: int) -> str:
    """Of a workgroup in a grid, along its three axes."""
    places = [number if y == z == 1 else f"{number} % {x}u", f"{number} / {x}u % {y}u", f"{number} / {x * y}u"]
    if z == 1:
        places[1] = f"{number} / {x}u" if x > 1 else number
    return ", ".join(place if axis > 1 else "0u" for place, axis in zip(places, (x, y, z), strict=True))
