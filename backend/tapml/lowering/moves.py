"""Which calls of a lowered module only move elements, and moves of the same tensors as one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.lowering.calls import name_of, shape_of
from tapml.lowering.fuse import MOST_BUFFERS
from tapml.lowering.operator import Operator
from tapml.operators.program import OperatorProgram
from tapml.regions.read import regions_of


@dataclass(frozen=True)
class Called:
    """A binding of `main` that calls a PrimFunc of tensors alone."""

    variable: Any
    name: str
    operands: Sequence[Any]


def calls_of(function: Any) -> Iterator[Called]:
    for binding in (binding for block in function.body.blocks for binding in block.bindings):
        value = getattr(binding, "value", None)
        if value is not None and is_plain(value):
            yield Called(binding.var, value.args[0].name_hint, list(value.args[1].fields))


def read_by_these_alone(names: Sequence[Any], readers: Sequence[Called], uses: Mapping[Any, int]) -> bool:
    """Whether nothing but these calls reads a value, whose `names` are its own and those of its views: the views read
    it, too. `uses` are how often each variable is read."""
    reads = sum(call.operands.count(name) for call in readers for name in names) + len(names) - 1
    return reads == sum(uses[name] for name in names)


def is_plain(call: Any) -> bool:
    """Does it call a PrimFunc of tensors, variables or constants, and of no sizes?"""
    if name_of(call) != "relax.call_tir" or len(call.args) != 2:
        return False
    kinds = relax.Var | tvm.ir.GenericConst
    return all(isinstance(field, kinds) and shape_of(field) is not None for field in call.args[1].fields)


def is_move(operator: Operator) -> bool:
    """Does it give one tensor, whose elements are those of others, or constants?"""
    try:
        program = operator.program
    except InputError:
        return False
    outputs = sum(argument["role"] == "output" for argument in operator.arguments)
    if outputs != 1 or not isinstance(program, OperatorProgram):
        return False
    symbols = {symbol.name: (symbol.minimum, symbol.maximum) for symbol in operator.symbols}
    return regions_of(program, symbols) is not None


def fused_name(names: Sequence[str]) -> str:
    """As TVM names what it fuses."""
    return "_".join(["fused", *(name.removeprefix("fused_") for name in names)])


def with_joined_moves(module: tvm.IRModule, operators: Mapping[str, Operator]) -> tvm.IRModule:
    """The module, in which moves of the same tensors are one kernel with several outputs (horizontal merging)."""
    movers = {name for name, found in operators.items() if is_move(found)}
    groups: dict[tuple[Any, ...], list[Called]] = {}
    for call in calls_of(module["main"]):
        if call.name in movers:
            groups.setdefault(tuple(dict.fromkeys(call.operands)), []).append(call)
    several = {call.variable: calls for calls in groups.values() if len(calls) > 1 for call in calls}
    several = {v: calls for v, calls in several.items() if len(calls) + len({*calls[0].operands}) <= MOST_BUFFERS}
    if not several:
        return module
    return merged_by(_Joining(module, several), module)


def merged_by(mutator: Any, module: tvm.IRModule) -> tvm.IRModule:
    """The module after a mutator that makes calls of functions of several PrimFuncs: each of these is one PrimFunc."""
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    fused = tvm.ir.transform.Sequential([relax.transform.FuseTIR(), relax.transform.DeadCodeElimination()])
    return fused(mutator.builder_.get())


@relax.expr_functor.mutator
class _Joining(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """The first of the moves of a group becomes a call of all of them."""

    def __init__(self, module: tvm.IRModule, groups: Mapping[Any, list[Called]]) -> None:
        super().__init__(module)
        self._module, self._groups = module, groups
        self._made: dict[Any, Any] = {}
        """First variable of a group -> the tuple of what all give."""
        self._functions: dict[Any, Any] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        group = self._groups.get(binding.var)
        if group is None:
            super().visit_var_binding_(binding)
            return
        first = group[0].variable
        if first not in self._made:
            self._made[first] = self.builder_.emit(self._call(group))
        place = next(number for number, call in enumerate(group) if call.variable == binding.var)
        value = self.builder_.normalize(relax.TupleGetItem(self._made[first], place))
        self.builder_.emit_normalized(relax.VarBinding(self.visit_var_def(binding.var), value))

    def _call(self, group: Sequence[Called]) -> Any:
        given = list(dict.fromkeys(group[0].operands))
        places = [[given.index(found) for found in call.operands] for call in group]
        key = str(places), *(call.name for call in group), *(str(found.ty) for found in given)
        if key not in self._functions:
            self._functions[key] = self._function(group, given)
        return tvm.ir.Call(self._functions[key], [self.visit_expr(found) for found in given])

    def _function(self, group: Sequence[Called], given: Sequence[Any]) -> Any:
        inside = {found: relax.Var(f"given{number}", found.ty) for number, found in enumerate(given)}
        builder = relax.BlockBuilder()
        with builder.function("joined", [*inside.values()]):
            with builder.dataflow():
                moved = []
                for call in group:
                    callee = self._module.get_global_var(call.name)
                    operands = relax.Tuple([inside[found] for found in call.operands])
                    moved.append(builder.emit(relax.call_tir(callee, operands, call.variable.ty)))
                result = builder.emit_output(relax.Tuple(moved))
            builder.emit_func_output(result)
        function = relax.utils.copy_with_new_vars(builder.finalize()["joined"]).with_attr("Primitive", True)
        return self.builder_.add_func(function, fused_name([call.name for call in group]))
