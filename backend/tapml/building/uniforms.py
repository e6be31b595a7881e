"""Uniforms that are the same at every call: numbers in the text, for what is bound costs each dispatch time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapml.kernels.wgsl_module import Declaration, Module, NotUnderstood

Uniforms = Sequence[Mapping[str, Any]]


def is_fixed(uniform: Mapping[str, Any]) -> bool:
    """Is it a number, and no expression? 0 is none: what divides by it in a branch that never runs is no WGSL where it
    is a constant."""
    return isinstance(uniform["value"], int | float) and uniform["value"] != 0


def literal(uniform: Mapping[str, Any]) -> str:
    """The number of a fixed one, as an expression of WGSL that means the same wherever it stands."""
    value = uniform["value"]
    if uniform["dtype"] == "float32":
        return f"({float(np.float32(value)).hex()}f)"
    if uniform["dtype"] == "uint32":
        return f"{int(value)}u"
    return f"i32({int(value)})"


class UniformUses:
    """The uniform variable of a text, of which only members are read. Raises NotUnderstood."""

    def __init__(self, module: Module, uniforms: Uniforms) -> None:
        self._module = module
        self.declared: set[Declaration] = set()
        """The variable and its structure."""
        variables = [d for d in module.declarations if d.kind == "var" and "uniform" in module.texts[d.start : d.named]]
        if not variables and not uniforms:
            self.places: list[tuple[int, int]] = []
            return
        if len(variables) != 1:
            raise NotUnderstood("it has not one uniform variable")
        variable = variables[0]
        texts = module.texts
        name, struct = module.name(variable), texts[variable.body + 1]
        members = module.members(struct)
        if len(members) != len(uniforms) or texts[variable.body] != ":":
            raise NotUnderstood("its uniforms are not those of its launch")
        self.declared = {variable, *(d for d in module.declarations if d.kind == "struct" and module.name(d) == struct)}
        others = [place for d in module.declarations if d not in self.declared for place in module.uses(d)]
        if any(texts[place] == struct for place in others):
            raise NotUnderstood("the type of its uniforms has other uses")
        uses = [place for place in others if texts[place] == name]
        if any(texts[place + 1] != "." or texts[place + 2] not in members for place in uses):
            raise NotUnderstood("its uniforms are not read one by one")
        self.places = [(place, members.index(texts[place + 2])) for place in uses]
        """Where each is read, with its number: the variable, a point and the member."""

    def replaced(self, written: Sequence[str]) -> dict[int, str]:
        """By place of a token, what stands there instead, where each uniform is `written` so."""
        found: dict[int, str] = {}
        for place, number in self.places:
            found.update({place: written[number], place + 1: "", place + 2: ""})
        return found


def without_fixed(wgsl: str, uniforms: Uniforms) -> str | None:
    """The text without its uniforms. None where not all are fixed, or it is not understood."""
    if not all(map(is_fixed, uniforms)):
        return None
    try:
        module = Module(wgsl)
        uses = UniformUses(module, uniforms)
    except NotUnderstood:
        return None
    replaced = uses.replaced([literal(uniform) for uniform in uniforms])
    for declared in uses.declared:
        replaced.update(dict.fromkeys(range(declared.start, declared.end), ""))
        if module.texts[declared.end : declared.end + 1] == [";"]:
            replaced[declared.end] = ""
    return _trimmed(module.text(0, len(module.tokens), replaced))


def _trimmed(text: str) -> str:
    """Without the lines that nothing is left of."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() or (lines and lines[-1].strip()):
            lines.append(line.rstrip())
    return "\n".join(lines).strip() + "\n"
