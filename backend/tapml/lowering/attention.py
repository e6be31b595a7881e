"""Attention as one operator: scores, their softmax, and the product of weights and values.

TVM fuses what is computed element by element into each of the three, and never one reduction into another, so that
scores and weights are whole tensors in memory: of 4096 queries and keys and 8 heads half a gigabyte each. Where a
kernel can be written that goes over the keys a tile at a time (Dao et al., FlashAttention, 2022), the three become one
operator. Whether it can is for those to say who write the kernels (`AcceptsAttention`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import relax, s_tir, topi

from tapml.errors import InputError
from tapml.expressions import evaluate
from tapml.lowering.accepts import AcceptsAttention, Read
from tapml.lowering.by_hand import is_by_hand
from tapml.lowering.calls import results_of, shape_of, shown_by, uses_of
from tapml.lowering.fuse import MOST_BUFFERS
from tapml.lowering.moves import Called, calls_of, fused_name, merged_by, read_by_these_alone
from tapml.lowering.operator import Operator
from tapml.operators.program import OperatorProgram, Store
from tapml.operators.read import MOST_TEMPORARY_BYTES, MOST_TURNS
from tapml.program import TensorType

_REDUCTION = tvm.tirx.IterVar.CommReduce

_SUM, _SOFTMAX = ["add"], ["max", "add"]
"""How the reductions of a product combine what they go over, and those of a softmax."""


def with_attention(module: tvm.IRModule, read: Read, accepts: AcceptsAttention) -> tvm.IRModule:
    """The lowered module, in which attention is one operator where that is better."""
    chains = _chains(module, read(module))
    while chains:
        mutator = _Merging(module, chains)
        merged = merged_by(mutator, module)
        # What another one has taken in is called by nothing any more.
        left = {variable.name_hint for variable in merged.get_global_vars()}
        made = {name: names for name, names in mutator.made.items() if name in left}
        merged = _with_few_temporaries(merged, made)
        operators = read(merged)
        wrong = {
            names for name, names in made.items() if not _may_be_run(operators[name]) or not accepts(operators[name])
        }
        if not wrong:
            return merged
        chains = {end: chain for end, chain in chains.items() if chain.names not in wrong}
    return module


def _may_be_run(operator: Operator) -> bool:
    """Whether the reference platform would run it, at the most that its sizes may be."""
    most = {symbol.name: symbol.maximum for symbol in operator.symbols}
    program = operator.program
    assert isinstance(program, OperatorProgram)  # made of three that are
    shapes = [(buffer, [evaluate(axis, most) for axis in buffer.shape]) for buffer in program.temporaries]
    nbytes = sum(TensorType(tuple(shape), buffer.dtype).nbytes for buffer, shape in shapes)
    turns = sum(math.prod(evaluate(loop.extent, most) for loop in block.loops) for block in program.blocks)
    return nbytes <= MOST_TEMPORARY_BYTES and turns <= MOST_TURNS


def _with_few_temporaries(module: tvm.IRModule, names: Collection[str]) -> tvm.IRModule:
    """The module, in whose functions of these names no more is in memory than scores and weights: what is computed of
    scores element by element is computed where it is read."""
    module = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for name in names:
        function = module[name]
        schedule = s_tir.Schedule(function)
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        found = [schedule.get(block) for block in blocks]
        sums = [
            place for place, block in enumerate(found) if any(axis.iter_type == _REDUCTION for axis in block.iter_vars)
        ]
        of_scores = {found[sums[0]].writes[0].source}
        kept = {region.source for region in found[sums[-1]].reads}
        for place, (block, one) in enumerate(zip(blocks, found, strict=True)):
            written = {region.source for region in one.writes}
            if of_scores.isdisjoint(region.source for region in one.reads):
                continue
            of_scores |= written
            if place not in sums and place < sums[-1] and kept.isdisjoint(written):
                with contextlib.suppress(s_tir.ScheduleError):  # it stays in memory
                    schedule.compute_inline(block)
        module.update_func(module.get_global_var(name), schedule.mod["main"].with_attrs(function.attrs))
    return module


class _Chain(NamedTuple):
    """The calls of scores, softmax and product."""

    calls: tuple[Called, Called, Called]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(call.name for call in self.calls)


def _chains(module: tvm.IRModule, operators: Mapping[str, Operator]) -> dict[Any, _Chain]:
    """By the variable that each gives: chains, between which nothing else reads a value."""
    main = module["main"]
    shown, uses, results = shown_by(main), uses_of(main), {*results_of(main)}
    calls = {call.variable: call for call in calls_of(main)}
    kinds = {name: _reductions(operator) for name, operator in operators.items()}

    def before(call: Called, kind: list[str]) -> Called | None:
        """The call of that kind whose value a call reads, and nobody else does."""
        for field in call.operands:
            made = calls.get(shown.get(field, field))
            if made is None or kinds.get(made.name) != kind or is_by_hand(module[made.name]):
                continue
            names = [made.variable, *(view for view, of in shown.items() if of == made.variable)]
            if results.isdisjoint(names) and read_by_these_alone(names, [call], uses):
                return made
        return None

    found = {}
    for variable, call in calls.items():
        if kinds.get(call.name) != _SUM or is_by_hand(module[call.name]):
            continue
        softmax = before(call, _SOFTMAX)
        scores = before(softmax, _SUM) if softmax is not None else None
        if softmax is None or scores is None:
            continue
        given = {field for one in (scores, softmax, call) for field in one.operands}
        if len(given) - 2 < MOST_BUFFERS:
            found[variable] = _Chain((scores, softmax, call))
    return found


def _reductions(operator: Operator) -> list[str]:
    try:
        program = operator.program
    except InputError:
        return []
    if not isinstance(program, OperatorProgram):
        return []
    reduced = [block for block in program.blocks if any(axis.reduction for axis in block.axes)]
    return [store.value.kind for block in reduced for store in block.body if isinstance(store, Store)]


@relax.expr_functor.mutator
class _Merging(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """The last call of each chain becomes one of a function of all three, which FuseTIR makes one PrimFunc of."""

    def __init__(self, module: tvm.IRModule, chains: Mapping[Any, _Chain]) -> None:
        super().__init__(module)
        self._module, self._chains, self._shown = module, chains, shown_by(module["main"])
        self.made: dict[str, tuple[str, ...]] = {}
        self._known: dict[Any, Any] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        chain = self._chains.get(binding.var)
        if chain is None:
            super().visit_var_binding_(binding)
            return
        inner = {call.variable for call in chain.calls[:-1]}
        fields = [field for call in chain.calls for field in call.operands]
        outer = [field for field in fields if self._shown.get(field, field) not in inner]
        given = list(dict.fromkeys(outer))
        places = [given.index(field) if field in given else -1 for field in fields]
        key = chain.names, str(places), *(str(field.ty) for field in fields)
        if key not in self._known:
            self._known[key] = self._function(chain, given)
        call = tvm.ir.Call(self._known[key], [self.visit_expr(field) for field in given])
        self.builder_.emit_normalized(relax.VarBinding(self.visit_var_def(binding.var), self.builder_.normalize(call)))

    def _function(self, chain: _Chain, given: Sequence[Any]) -> Any:
        inside = {field: relax.Var(f"given{number}", field.ty) for number, field in enumerate(given)}
        builder = relax.BlockBuilder()
        with builder.function("attention", [*inside.values()]):
            with builder.dataflow():
                for call in chain.calls:
                    for field in call.operands:
                        if field not in inside:
                            # A view is a kernel like any other here, until all are one.
                            of = inside[self._shown[field]]
                            inside[field] = builder.emit(self.builder_.call_te(topi.reshape, of, shape_of(field)))
                    callee = self._module.get_global_var(call.name)
                    operands = relax.Tuple([inside[field] for field in call.operands])
                    made = relax.call_tir(callee, operands, call.variable.ty)
                    last = call is chain.calls[-1]
                    inside[call.variable] = (builder.emit_output if last else builder.emit)(made)
            builder.emit_func_output(inside[chain.calls[-1].variable])
        function = relax.utils.copy_with_new_vars(builder.finalize()["attention"]).with_attr("Primitive", True)
        made = self.builder_.add_func(function, fused_name(chain.names))
        self.made[made.name_hint] = chain.names
        return made
