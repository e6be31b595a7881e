"""Which value of a model each result of a fused operator is: fusing gives its results names of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import structural_hash


def names_of_results(before: tvm.IRModule, after: tvm.IRModule) -> dict[str, str]:
    """Variable of `after`'s main -> the one of `before`'s main that it is.

    `after` is `before` with its operators fused: each call in a fused function is one of `before`, told by what is
    called and what of. What is not found is left out, and so are results that are several.
    """
    calls: dict[Any, list[Any]] = {}
    for binding in _bindings(before["main"]):
        calls.setdefault(_key(binding.value, lambda var: var), []).append(binding.var)
    known = dict(zip(after["main"].params, before["main"].params, strict=True))
    _follow(after, after["main"], known, calls)
    variables = [binding.var for binding in _bindings(after["main"])]
    # Passes give two variables one name at times.
    times = Counter(var.name for var in variables)
    return {
        var.name: found.name
        for var in variables
        if isinstance(found := known.get(var), relax.Var) and times[var.name] == 1
    }


def _bindings(function: Any) -> Iterator[Any]:
    return (binding for block in function.body.blocks for binding in block.bindings)


def _follow(module: tvm.IRModule, function: Any, known: dict[Any, Any], calls: Mapping[Any, list[Any]]) -> None:
    """Add what the function's variables are to `known`, in which its parameters stand."""
    for binding in _bindings(function):
        value = binding.value
        if isinstance(value, relax.Var):
            known[binding.var] = known.get(value)
        elif isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            fused = module[value.op]
            inside = {param: known.get(given) for param, given in zip(fused.params, value.args, strict=True)}
            _follow(module, fused, inside, calls)
            known[binding.var] = inside.get(fused.body.body)
        elif found := calls.get(_key(value, known.get)):
            # Of calls that are alike the first ones were fused first.
            known[binding.var] = found.pop(0) if len(found) > 1 else found[0]


def _key(value: Any, of: Callable[[Any], Any]) -> Any:
    """What is called and what of, `of` saying what a variable is; None for what is no call."""
    if isinstance(value, relax.TupleGetItem):
        return "element", value.index, of(value.tuple_value)
    if not isinstance(value, tvm.ir.Call):
        return None
    called, *rest = value.args if "call_tir" in _name(value.op) else (value.op, *value.args)
    fields = [field for found in rest for field in (found.fields if isinstance(found, relax.Tuple) else [found])]
    return _name(called), *(of(found) if isinstance(found, relax.Var) else _constant(found) for found in fields)


def _name(called: Any) -> str:
    """As TVM writes it, which takes a hundred times as long."""
    if isinstance(called, tvm.ir.Op):
        return f"Op({called.name})"
    return f"@{called.name_hint}" if isinstance(called, tvm.ir.GlobalVar) else str(called)


def _constant(found: Any) -> Any:
    return structural_hash(found) if isinstance(found, tvm.ir.GenericConst) else str(found)
