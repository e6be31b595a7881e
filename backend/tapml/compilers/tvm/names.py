"""Names of an operator's variables that WGSL takes: TVM writes into its text what they are called, with `_` in place of
some of what no name may have."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm_ffi import structural_map, structural_walk

from tapml.compilers.wgsl_names import RESERVED, is_name
from tapml.lowering.operator import Operator


def plain(name: str) -> str:
    """The name as WGSL takes it."""
    if is_name(name):
        return name
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    return found if is_name(found) else f"of_{found.lstrip('_')}"


def of_function(name: str) -> str:
    """What a function is called, behind whose name TVM writes `_kernel`. Libraries in wasm are linked from functions of
    the operators' own names, and whoever replaces a text in one knows it by that: it changes only where it has to."""
    return name if is_name(f"{name}_kernel") else plain(name)


def with_plain_names(operator: Operator) -> Operator:
    """The operator, each of whose variables has a name that WGSL takes, and where that is another one, one that nothing
    else has. Its arguments are called as they were."""
    # Sizes first: those of a buffer are part of it, which becomes another one with them.
    function, sizes = _renamed(operator.prim_func, operator.sizes, buffers=False)
    function, sizes = _renamed(function, sizes, buffers=True)
    return operator if function is operator.prim_func else replace(operator, prim_func=function, sizes=sizes)


def _renamed(function: Any, sizes: Mapping[Any, Any], buffers: bool) -> tuple[Any, Mapping[Any, Any]]:
    """The function and its sizes, of which buffers, or all else, are called otherwise where they have to be."""
    variables: list[Any] = []
    structural_walk(function, (tirx.Var, variables.append))
    taken = {variable.name for variable in variables}
    found: dict[Any, Any] = {}
    for variable in variables:
        if variable in found or isinstance(variable.ty, tirx.BufferType) is not buffers or is_name(variable.name):
            continue
        # Behind a buffer's name TVM writes `_ptr`.
        if buffers and variable.name in RESERVED:
            continue
        wanted = plain(variable.name)
        numbered = (f"{wanted}_{number}" if number else wanted for number in itertools.count())
        name = next(name for name in numbered if name not in taken)
        taken.add(name)
        found[variable] = tirx.Var(name, variable.ty)
    if not found:
        return function, sizes
    changed = structural_map(function, (tirx.Var, lambda variable: found.get(variable, variable)))
    return changed, {found.get(variable, variable): size for variable, size in sizes.items()}
