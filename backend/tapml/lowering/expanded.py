"""How large a fused operator becomes when what is computed element by element is written out where it is read.

Kernels have no intermediate buffers: a value that is read twice is computed twice, and what it is made of four times. A
chain of such operators doubles with each of them, unless it is cut.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import structural_walk

MOST_EXPANDED = 128
"""Loads that a kernel's expressions have at most, together: one of a chain that is longer begins anew."""

INJECTIVE, REDUCED, OPAQUE = 2, 3, 8
"""TVM's patterns: of what is computed element by element at most; of a sum, into which what it is of is fused, and
which is fused into nothing; and of what is not fused."""

_NUMBER = "tapml.copy"


def cut(module: tvm.IRModule, fused: tvm.IRModule) -> tvm.IRModule | None:
    """The module, with PrimFuncs that are not fused where `fused`, FuseOps of it, has operators larger than may be;
    None where it has none. Every call of a PrimFunc of these gets its own, so that the others stay as they are.
    """
    large = [found for function in fused.functions.values() if (found := _too_large(function, module))]
    if not large:
        return None
    apart = with_own(module, [name for names, _ in large for name in names])
    return apart or with_patterns(module, {at: OPAQUE for _, at in large})


def with_patterns(module: tvm.IRModule, patterns: Mapping[str, int]) -> tvm.IRModule:
    """The module, whose PrimFuncs of these names have other patterns."""
    module = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for name, pattern in patterns.items():
        module.update_func(module.get_global_var(name), module[name].with_attr("op_pattern", pattern))
    return module


def is_fused(function: Any) -> bool:
    """Whether FuseOps has made it of several operators."""
    return isinstance(function, relax.Function) and bool(function.attrs) and "Primitive" in function.attrs


def _too_large(function: Any, module: tvm.IRModule) -> tuple[list[str], str] | None:
    """Of a fused operator that is: the PrimFuncs that it calls, and the one to cut it at."""
    if not is_fused(function):
        return None
    sizes: dict[Any, int] = {}
    calls: list[tuple[str, Any, list[Any]]] = []
    for binding in (binding for block in function.body.blocks for binding in block.bindings):
        call = binding.value
        if getattr(getattr(call, "op", None), "name", "") != "relax.call_tir":
            sizes[binding.var] = max((sizes.get(part, 1) for part in getattr(call, "fields", ())), default=1)
            continue
        name, given = call.args[0].name_hint, list(call.args[1].fields)
        calls.append((name, binding.var, given))
        size = sizes[binding.var] = expanded(module[name], [sizes.get(value, 1) for value in given])
        if size > MOST_EXPANDED and len(calls) > 1 and (at := _place(calls, module)) is not None:
            return called_by(function), at
    return None


def _place(calls: Sequence[tuple[str, Any, list[Any]]], module: tvm.IRModule) -> str | None:
    """Which of these calls, the last of which is too large, is to be a kernel by itself: the last of what all the
    others hang together by, else the last. None where there is none: no buffer can hold a bool."""
    readers = Counter(value for _, _, given in calls for value in given)
    made = {variable for _, variable, _ in calls}
    possible = [
        (name, given)
        for name, _, given in calls[1:]
        if int(module[name].attrs["op_pattern"]) != OPAQUE
        and all(str(found.dtype) != "bool" for found in module[name].params)
    ]
    alone = [name for name, given in possible if len(given) == 1 and readers[given[0]] == 1 and given[0] in made]
    if alone:
        return alone[-1]
    return possible[-1][0] if possible else None


def expanded(function: Any, given: Sequence[int]) -> int:
    """The loads in what a PrimFunc stores last, where its inputs have as many as `given`, and its own temporaries none
    of their own memory. What it reduces is stored: the result counts as one."""
    reads: dict[Any, Counter[Any]] = defaultdict(Counter)
    reduced = False

    def note(store: Any) -> None:
        def load(found: Any) -> None:
            reads[store.buffer][found.source] += 1

        structural_walk(store.value, (tvm.ir.TensorLoad, load))

    structural_walk(function.body, (tvm.tirx.BufferStore, note))
    # TVM's variables are compared by identity.
    sizes: dict[Any, int] = dict(zip(function.params, given, strict=False))
    for buffer, sources in reads.items():
        reduced = buffer in sources
        size = 1 + sum(count * sizes.get(source, 1) for source, count in sources.items() if source != buffer)
        sizes[buffer] = size
    largest = max((sizes[buffer] for buffer in reads), default=1)
    return largest if not reduced or largest > MOST_EXPANDED else 1


def called_by(function: Any) -> list[str]:
    """The PrimFuncs that a Relax function calls, one entry for each call."""
    names: list[str] = []

    def note(call: Any) -> None:
        if getattr(call.op, "name", "") == "relax.call_tir":
            names.append(call.args[0].name_hint)

    structural_walk(function.body, (tvm.ir.Call, note))
    return names


@relax.expr_functor.mutator
class _Own(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """Calls of some PrimFuncs become calls of copies."""

    def __init__(self, module: tvm.IRModule, names: set[str]) -> None:
        super().__init__(module)
        self._module, self._names, self._count = module, names, 0

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.call_tir" or call.args[0].name_hint not in self._names:
            return call
        name = call.args[0].name_hint
        self._count += 1
        # Of equal functions a builder keeps one: the number tells them apart until `same_again`.
        copy = self.builder_.add_func(self._module[name].with_attr(_NUMBER, self._count), name)
        return tvm.ir.Call(call.op, [copy, *call.args[1:]], call.attrs, call.ty_args)


def with_own(module: tvm.IRModule, names: Iterable[str]) -> tvm.IRModule | None:
    """The module, in which each call of these PrimFuncs has its own; None where each has."""
    called = (called_by(function) for function in module.functions.values() if isinstance(function, relax.Function))
    shared = Counter(name for found in called for name in found)
    several = {name for name in names if shared[name] > 1}
    if not several:
        return None
    mutator = _Own(module, several)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return mutator.builder_.get()


def same_again(module: tvm.IRModule) -> tvm.IRModule:
    """The module, without what `cut` has told copies of PrimFuncs apart by."""
    functions = {
        variable: function.without_attr(_NUMBER) if function.attrs and _NUMBER in function.attrs else function
        for variable, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)
