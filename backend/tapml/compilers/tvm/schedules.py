"""How an operator is laid out over a GPU's invocations: dlight's rules and one of our own, and which of them is taken.

dlight takes the first rule that fits. Its GeneralReduction gives a workgroup to every element of a depthwise
convolution, of which 9 of 64 invocations have work; so what each schedule costs is estimated before one is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.s_tir.dlight.base import max_threads_per_block, try_inline_contiguous_spatial
from tvm_ffi import structural_map

from tapml.compilers.tvm.functions import with_known_functions
from tapml.compilers.tvm.sequential import bound_where_sequential
from tapml.compilers.tvm.splits import splits_without_prover

PLAIN, ANY = 2, 4
"""Where among dlight's rules those begin that give an invocation one element; the last, which takes everything."""

_LANES = 4096
"""Invocations that run at a time: some hundred on a software GPU, ten thousand on a large one."""

_BARRIERS = 16
"""What adding up over a workgroup costs, in steps of a loop."""

_WORTH = 2
"""By how much an estimate has to be less than that of the rule before: they are rough."""

_SYMBOLIC = 64
"""What a size is taken for that varies."""


def schedule(module: tvm.IRModule, target: tvm.target.Target, first: int = 0) -> tvm.IRModule:
    """Thread-bind every PrimFunc of `module` for a GPU target, with calls of functions that there are.

    `first`: where among dlight's rules to begin: 0 with those that give an invocation several elements, `PLAIN` after
    them, `ANY` with the last, which takes everything.
    """
    gpu = dlight.gpu
    rules = gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()
    module = _changed(module, without_single_terms)
    with target, splits_without_prover():
        scheduled = dlight.ApplyDefaultSchedule(_Cheapest(rules[first:]))(bound_where_sequential(module))
    return _changed(scheduled, with_known_functions)


def _changed(module: tvm.IRModule, change: Callable[[Any], Any]) -> tvm.IRModule:
    """A module whose PrimFuncs are changed."""
    functions = {
        variable: change(function) if isinstance(function, tirx.PrimFunc) else function
        for variable, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


class _Cheapest(dlight.ScheduleRule):  # type: ignore[misc]  # TVM has no types
    """The first of dlight's rules that fits, or one invocation for each element where that costs much less."""

    def __init__(self, rules: Sequence[Any]) -> None:
        self._rules = rules

    def apply(self, func: Any, target: Any, tunable: bool) -> Any:
        if (made := _tried(_SumsOfSums(), func, target, tunable)) is not None:
            return made
        fitting = ((rule, made) for rule in self._rules if (made := _tried(rule, func, target, tunable)) is not None)
        rule, found = next(fitting, (None, None))
        # Its tiles read each element once for many products, which an estimate by steps does not see.
        if isinstance(rule, dlight.gpu.Matmul):
            return found
        other = _tried(_PerElement(), func, target, tunable)
        if found is None or other is None:
            return found or other
        return other if _WORTH * cost(other.mod) < cost(found.mod) else found


def _tried(rule: Any, func: Any, target: Any, tunable: bool) -> Any:
    """A rule does not fit where it fails: some take on what they cannot schedule."""
    try:
        return rule.apply(func, target, tunable)
    except Exception:  # assertions, and TVM's own types
        return None


class _PerElement(dlight.ScheduleRule):  # type: ignore[misc]  # TVM has no types
    """A sum, and what is done with it: each invocation adds up one element, in a register."""

    def apply(self, func: Any, target: Any, _: bool) -> Any:
        sch = s_tir.Schedule(func)
        blocks = normalize_prim_func(sch)
        if blocks is None:
            return None
        blocks = try_inline_contiguous_spatial(sch, blocks)
        return _of_each_element(sch, blocks, [], target)


class _SumsOfSums(dlight.ScheduleRule):  # type: ignore[misc]  # TVM has no types
    """The same of a sum whose terms are sums of integers themselves: both are kept in registers. Other rules keep all
    terms in memory, which are many times as many as elements."""

    def apply(self, func: Any, target: Any, _: bool) -> Any:
        sch = s_tir.Schedule(func)
        blocks = normalize_prim_func(sch)
        if blocks is None:
            return None
        first, *blocks = try_inline_contiguous_spatial(sch, blocks)
        if not blocks or not first.is_reduction() or not _is_integer(sch, first):
            return None
        # Each is one term of the sum that follows.
        if sum(kind == "S" for kind in first.dom_kind()) != len(blocks[0].dom_kind()):
            return None
        return _of_each_element(sch, blocks, [first], target)


def _is_integer(sch: Any, block: Any) -> bool:
    return str(sch.get(block.block_rv).body.buffer.dtype).startswith("int")


def _of_each_element(sch: Any, blocks: Sequence[Any], terms: Sequence[Any], target: Any) -> Any:
    """A sum and what is done with it, if these blocks are that. `terms`: the block of sums that are its terms."""
    if len(blocks) not in (1, 2) or not blocks[0].is_reduction() or not all(b.is_injective() for b in blocks[1:]):
        return None
    total = blocks[0].block_rv
    last = blocks[1].block_rv if len(blocks) == 2 else sch.cache_write(total, 0, "local")
    loops = sch.get_loops(last) or [sch.add_unit_loop(last)]
    sch.compute_at(total, loops[-1])
    for term in terms:
        sch.compute_at(term.block_rv, sch.get_loops(total)[-1])
    for found in (blocks[0], *terms):
        sch.set_scope(found.block_rv, 0, "local")
        reduced = sum(kind == "R" for kind in found.dom_kind())
        sch.decompose_reduction(found.block_rv, sch.get_loops(found.block_rv)[-reduced])
    # TVM cannot tell any more that places are met once each when the loop over all of them is split; they are.
    bound = s_tir.Schedule(sch.mod, enable_check=False)
    loops = bound.get_loops(bound.get_sblock(sch.get(last).name_hint))
    group, invocation = bound.split(bound.fuse(*loops), [None, max_threads_per_block(target)])
    bound.bind(group, "blockIdx.x")
    bound.bind(invocation, "threadIdx.x")
    return bound


def cost(module: tvm.IRModule) -> float:
    """About how long a scheduled function takes: the steps of an invocation, times how often the GPU is filled."""
    return sum(_costs(module["main"].body, 1, 1, frozenset()))


def _costs(statement: Any, bound: int, steps: int, threads: frozenset[Any]) -> Iterator[float]:
    """Of each statement that computes something: inside loops that are bound to `bound` invocations in all, by the
    variables `threads` within a workgroup, and take `steps`.
    """
    kind = type(statement).__name__
    if kind == "For":
        extent = _number(statement.extent)
        tag = statement.thread_binding.thread_tag if statement.thread_binding is not None else ""
        if tag.startswith("threadIdx"):
            threads |= {statement.loop_var}
        if tag.startswith(("threadIdx", "blockIdx")):
            yield from _costs(statement.body, bound * extent, steps, threads)
        else:
            yield from _costs(statement.body, bound, steps * extent, threads)
    elif kind == "SeqStmt":
        for part in statement.seq:
            yield from _costs(part, bound, steps, threads)
    elif kind == "SBlockRealize":
        block = statement.block
        # A sum over invocations of a workgroup.
        if block.init is not None and any(
            axis.iter_type == tirx.IterVar.CommReduce and threads & set(tirx.analysis.undefined_vars(value))
            for axis, value in zip(block.iter_vars, statement.iter_values, strict=True)
        ):
            yield _BARRIERS * max(1.0, bound / _LANES)
        yield from _costs(block.body, bound, steps, threads)
    elif kind == "IfThenElse":
        yield from _costs(statement.then_case, bound, steps, threads)
    elif kind == "AttrStmt":
        yield from _costs(statement.body, bound, steps, threads)
    else:
        yield steps * max(1.0, bound / _LANES)


def _number(extent: Any) -> int:
    if isinstance(extent, tirx.IntImm):
        return int(extent.value)
    sizes = {variable: tirx.IntImm(str(variable.ty), _SYMBOLIC) for variable in tirx.analysis.undefined_vars(extent)}
    found = tvm.sym.Analyzer().simplify(structural_map(extent, (tirx.Var, lambda variable: sizes[variable])))
    return int(found.value) if isinstance(found, tirx.IntImm) else _SYMBOLIC


def without_single_terms(function: Any) -> Any:
    """The function, with every sum of one term written as that term.

    TVM takes such a block for one without a sum once it has dropped the loop, and moves what follows into its start
    and its step alike: what is added there is added twice.
    """
    return function.with_body(structural_map(function.body, (s_tir.SBlock, _single_term)))


def _single_term(block: Any) -> Any:
    reduced = [axis for axis in block.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]
    stores = block.init, block.body
    if (
        not all(isinstance(store, tirx.BufferStore) for store in stores)
        or not reduced
        or any(not isinstance(axis.dom.extent, tirx.IntImm) or axis.dom.extent.value != 1 for axis in reduced)
    ):
        return block
    start, step = stores

    def read(load: Any) -> Any:
        return start.value if load.source.same_as(step.buffer) else load

    value = structural_map(step.value, (tvm.ir.expr.TensorLoad, read))
    axes = [tirx.IterVar(axis.dom, axis.var, tirx.IterVar.DataPar, axis.thread_tag) for axis in block.iter_vars]
    return s_tir.SBlock(
        axes,
        block.reads,
        block.writes,
        block.name_hint,
        tirx.BufferStore(step.buffer, value, step.indices),
        None,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )
