"""From a program to TVM's PrimFunc, by a constructor for each thing that a program may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Range
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.analysis import get_sblock_access_region

from tapml.errors import InputError
from tapml.lowering.quiet import reason
from tapml.lowering.write import OPERATIONS
from tapml.operators.program import Axis, Block, Buffer, Expression, Let, OperatorProgram, Store

_OPERATIONS: Mapping[str, Any] = {kind: getattr(tirx, node) for node, (kind, _) in OPERATIONS.items()}

# TVM has most functions in one namespace.
_ELSEWHERE = {"ceil": "prim.ceil", "log2": "prim.log2", "if_then_else": "prim.if_then_else"}


_OF_FLOAT32 = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "erf", "hypot", "log1p", "sinh"),
}
"""Functions that TVM has for this machine, but not of float16."""


def prim_func(program: OperatorProgram, *, whole_regions: bool = False, lanes: Set[str] = frozenset()) -> tirx.PrimFunc:
    """The PrimFunc. Raises InputError where TVM refuses one of the parts.

    `whole_regions`: blocks say that they read and write all of their buffers, rather than the elements that they do.
    `lanes`: variables of loops whose turns are run at once.
    """
    try:
        return _Emitter(program, whole_regions, lanes).function()
    except Exception as error:  # TVM raises its own types, without a common base
        raise InputError(f"TVM refuses the program of operator {program.name}: {reason(error)}") from error


def _sequence(statements: Sequence[Any]) -> Any:
    """One after the other. None are of an operator whose outputs have no elements at its sizes."""
    if not statements:
        return tirx.Evaluate(0)
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


class _Emitter:
    def __init__(self, program: OperatorProgram, whole_regions: bool, lanes: Set[str]) -> None:
        self._program = program
        self._lanes = lanes
        self._whole_regions = whole_regions
        self._buffers: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}

    def function(self) -> tirx.PrimFunc:
        program = self._program
        parameters = [self._buffer(buffer) for buffer in program.parameters]
        temporaries = [self._buffer(buffer) for buffer in program.temporaries]
        blocks = [self._nest(block) for block in program.blocks]
        root = SBlock([], [], [], "root", _sequence(blocks), None, temporaries)
        attributes: dict[str, Any] = {"tirx.noalias": True, "s_tir": True}
        if program.pattern is not None:
            attributes["op_pattern"] = program.pattern
        function = tirx.PrimFunc(parameters, SBlockRealize([], True, root))
        return function.with_attr(attributes)

    def _buffer(self, buffer: Buffer) -> Any:
        shape = [tirx.IntImm("int64", extent) for extent in buffer.shape]
        made = tirx.decl_buffer(
            shape,
            buffer.dtype,
            buffer.name,
            elem_offset=tirx.IntImm("int64", 0),
            scope="global",
            data_alignment=64,
            offset_factor=1,
            layout=None,
        )
        self._buffers[buffer.name] = made
        return made

    def _variable(self, name: str, dtype: str) -> Any:
        if name not in self._variables:
            self._variables[name] = tirx.Var(name, dtype)
        return self._variables[name]

    # ------------------------------------------------ statements

    def _nest(self, block: Block) -> Any:
        loops = [self._variable(loop.variable, loop.dtype) for loop in block.loops]
        values = [self._expression(axis.value) for axis in block.axes]
        statement: Any = SBlockRealize(values, True, self._block(block))
        for loop, variable in reversed(list(zip(block.loops, loops, strict=True))):
            least, extent = (tirx.IntImm(loop.dtype, value) for value in (0, loop.extent))
            kind = tirx.ForKind.VECTORIZED if loop.variable in self._lanes else tirx.ForKind.SERIAL
            statement = tirx.For(variable, least, extent, kind, statement)
        return statement

    def _block(self, block: Block) -> Any:
        axes = [self._axis(axis) for axis in block.axes]
        first = self._statements(block.first) if block.first else None
        body = self._statements(block.body)

        def made(reads: Sequence[Any], writes: Sequence[Any]) -> Any:
            return SBlock(axes, reads, writes, block.name, body, first, None, None, dict(block.annotations))

        variables = {buffer: buffer for buffer in self._buffers.values()}
        reads, writes, _ = get_sblock_access_region(made([], []), variables)
        if self._whole_regions:
            reads, writes = ([_whole(region) for region in regions] for regions in (reads, writes))
        return made(reads, writes)

    def _axis(self, axis: Axis) -> Any:
        least, extent = (tirx.IntImm(axis.dtype, value) for value in (0, axis.extent))
        kind = tirx.IterVar.CommReduce if axis.reduction else tirx.IterVar.DataPar
        return tirx.IterVar(Range.from_min_extent(least, extent), self._variable(axis.variable, axis.dtype), kind)

    def _statements(self, statements: Sequence[Store | Let]) -> Any:
        return _sequence([self._statement(statement) for statement in statements])

    def _statement(self, statement: Store | Let) -> Any:
        value = self._expression(statement.value)
        if isinstance(statement, Let):
            return tirx.Bind(self._variable(statement.variable, statement.value.dtype), value)
        indices = [self._expression(index) for index in statement.indices]
        return tirx.BufferStore(self._buffers[statement.buffer], value, indices)

    # ------------------------------------------------ expressions

    def _expression(self, found: Expression) -> Any:
        operands = [self._expression(operand) for operand in found.operands]
        if found.kind == "constant":
            imm = tirx.FloatImm if isinstance(found.value, float) else tirx.IntImm
            return imm(found.dtype, found.value)
        if found.kind == "variable":
            return self._variable(str(found.value), found.dtype)
        if found.kind == "load":
            return tirx.BufferLoad(self._buffers[str(found.value)], operands)
        if found.kind == "cast":
            return tirx.Cast(found.dtype, operands[0])
        if found.kind == "reinterpret":
            return tirx.reinterpret(found.dtype, operands[0])
        if found.kind in ("call", "if_then_else"):
            name = str(found.value) if found.kind == "call" else found.kind
            if name in _OF_FLOAT32 and found.dtype == "float16":
                wide = [tirx.Cast("float32", operand) for operand in operands]
                return tirx.Cast("float16", _call(name, wide, "float32"))
            return _call(name, operands, found.dtype)
        return _OPERATIONS[found.kind](*operands)


def _call(name: str, operands: Sequence[Any], dtype: str) -> Any:
    if name == "atanh":
        # TVM takes the difference of two logarithms, of which nothing is left near 0.
        size = Call(tvm.ir.Op.get("tirx.fabs"), operands, ret_ty=dtype)
        one, two, half = (tirx.FloatImm(dtype, number) for number in (1.0, 2.0, 0.5))
        found = tirx.Mul(half, _call("log1p", [tirx.Div(tirx.Mul(two, size), tirx.Sub(one, size))], dtype))
        return _call("copysign", [found, *operands], dtype)
    return Call(tvm.ir.Op.get(_ELSEWHERE.get(name, f"tirx.{name}")), operands, ret_ty=dtype)


def _whole(region: Any) -> Any:
    extents = [(tirx.IntImm(extent.ty.dtype, 0), extent) for extent in region.source.ty.shape]
    return tirx.BufferRegion(region.source, [Range.from_min_extent(*pair) for pair in extents])
