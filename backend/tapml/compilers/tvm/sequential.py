"""Thread-binding operators with blocks that go step by step, which none of dlight's rules takes.

Each block becomes a dispatch: its spatial axes are the invocations, and each of them runs the steps in their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize

from tapml.operators.program import SEQUENTIAL

_INVOCATIONS = 64


def bound_where_sequential(module: tvm.IRModule) -> tvm.IRModule:
    """The module with those of its PrimFuncs scheduled that have a sequential block."""
    changed = {
        variable: _bound(function)
        for variable, function in module.functions.items()
        if isinstance(function, tirx.PrimFunc) and any(map(_sequential, _nests(function)))
    }
    return tvm.IRModule({**dict(module.functions.items()), **changed}) if changed else module


def _nests(function: Any) -> Iterator[Any]:
    """The statements of a body that is one block."""
    body = getattr(getattr(function.body, "block", None), "body", None)
    yield from body.seq if isinstance(body, tirx.SeqStmt) else [body] if body is not None else []


def _sequential(nest: Any) -> bool:
    while isinstance(nest, tirx.For):
        nest = nest.body
    block = getattr(nest, "block", None)
    return block is not None and str(block.annotations.get("schedule_rule", "")) == SEQUENTIAL


def _bound(function: Any) -> Any:
    nests = [_threaded(nest) for nest in _nests(function)]
    body = nests[0] if len(nests) == 1 else tirx.SeqStmt(nests)
    root = function.body.block
    whole = SBlock([], [], [], root.name_hint, body, None, root.alloc_buffers)
    made = tirx.PrimFunc(function.params, SBlockRealize([], True, whole), function.ret_type)
    return made.with_attr({**dict(function.attrs.items()), "tirx.is_scheduled": True})


def _threaded(nest: Any) -> Any:
    """One invocation for each point of the spatial axes; the other loops stay as they are."""
    loops = []
    while isinstance(nest, tirx.For):
        loops.append(nest)
        nest = nest.body
    block = nest.block
    spatial = {
        value
        for variable, value in zip(block.iter_vars, nest.iter_values, strict=True)
        if variable.iter_type == tirx.IterVar.DataPar
    }
    own = [loop for loop in loops if loop.loop_var in spatial]
    count = math.prod(int(loop.extent) for loop in own)
    width = min(_INVOCATIONS, count)
    group, thread = tirx.Var("group", "int64"), tirx.Var("thread", "int64")
    rest: Any = group * _int64(width) + thread
    inside: Any = rest < _int64(count) if count % width else True
    places = {}
    for loop in reversed(own):
        places[loop.loop_var] = tirx.floormod(rest, loop.extent)
        rest = tirx.floordiv(rest, loop.extent)
    values = [places.get(value, value) for value in nest.iter_values]
    result: Any = SBlockRealize(values, inside, block)
    for loop in reversed([loop for loop in loops if loop.loop_var not in places]):
        result = tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, result)
    result = _thread(thread, width, "threadIdx.x", result)
    return _thread(group, -(-count // width), "blockIdx.x", result)


def _thread(variable: Any, extent: int, tag: str, body: Any) -> Any:
    axis = tirx.IterVar(None, tirx.Var(tag, "int64"), tirx.IterVar.ThreadIndex, tag)
    return tirx.For(variable, _int64(0), _int64(extent), tirx.ForKind.THREAD_BINDING, body, axis)


def _int64(value: int) -> Any:
    return tirx.IntImm("int64", value)
