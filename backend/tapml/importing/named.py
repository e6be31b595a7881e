"""The source's names of values, kept through the passes of an import."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from tapml.text import one_line

LONGEST = 120

_IN_WGSL = re.compile(r"[A-Za-z_][\w.:]*", re.ASCII)
"""What an argument is called in a kernel's document: others may be long, or have characters that nobody can read."""


@relax.expr_functor.mutator
class _Renamed(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def __init__(self, module: tvm.IRModule, names: Mapping[Any, str]) -> None:
        super().__init__(module)
        self.names = names
        self.inputs: dict[Any, str] = {}
        """Parameters whose names are none that WGSL takes: these become others."""

    def visit_var_def_(self, var: Any) -> Any:
        if _IN_WGSL.fullmatch(var.name):
            return var  # types stay as they are
        made = relax.Var(f"input_{len(self.inputs)}_named", var.ty)
        self.inputs[made] = var.name
        self.set_var_remap(var, made)
        return made

    def visit_dataflow_var_def_(self, var: Any) -> Any:
        name = self.names.get(var)
        if name is None:
            return super().visit_dataflow_var_def_(var)
        made = relax.DataflowVar(name, var.ty)
        self.set_var_remap(var, made)
        return made


def with_names(module: tvm.IRModule, found: Mapping[Any, str]) -> tuple[tvm.IRModule, dict[str, str]]:
    """`found`: variable of `main` -> the source's name of its value. Gives the module, in which these variables have
    names that passes keep and that nothing else has, and by these the source's names: printable, and no longer than
    120 characters. What the source calls something goes into no kernel's text."""
    kept = {variable: f"named_{number}" for number, variable in enumerate(found)}
    mutator = _Renamed(module, kept)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    names = {kept[variable]: name for variable, name in found.items()}
    names |= {variable.name: name for variable, name in mutator.inputs.items()}
    return mutator.builder_.get(), {variable: one_line(name, LONGEST) for variable, name in names.items()}
