"""Programs as JSON (tapml.operator/2, docs/suite-format.md)."""

from __future__ import annotations

import json
from typing import Any

from tapml.operators import types
from tapml.operators.external import External
from tapml.operators.program import Block, Buffer, Expression, Let, OperatorProgram, Store

FORMAT = "tapml.operator/2"

Json = Any


def to_json_text(program: OperatorProgram | External) -> str:
    """The document of a program, a block on a line; or of who computes the operator."""
    if isinstance(program, External):
        return program.model_dump_json(indent=1) + "\n"
    head = {
        "format": FORMAT,
        "operator": program.name,
        "pattern": program.pattern,
        "symbols": list(program.symbols),
        "parameters": [_buffer_json(buffer) for buffer in program.parameters],
        "temporaries": [_buffer_json(buffer) for buffer in program.temporaries],
    }
    lines = [f" {json.dumps(key)}: {_compact(value)},\n" for key, value in head.items()]
    blocks = ",\n".join(f"  {_compact(_block_json(block))}" for block in program.blocks)
    return "{\n" + "".join(lines) + f' "blocks": [\n{blocks}\n ]\n' + "}\n"


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _buffer_json(buffer: Buffer) -> Json:
    return {"name": buffer.name, "dtype": buffer.dtype, "shape": list(buffer.shape)}


def _block_json(block: Block) -> Json:
    found: dict[str, Json] = {
        "name": block.name,
        "loops": [[loop.variable, loop.dtype, loop.extent] for loop in block.loops],
        "axes": [
            [axis.variable, axis.dtype, axis.extent, "reduction" if axis.reduction else "spatial",
             _expression_json(axis.value)]
            for axis in block.axes
        ],
        "first": [_statement_json(statement) for statement in block.first],
        "body": [_statement_json(statement) for statement in block.body],
        "annotations": dict(block.annotations),
    }  # fmt: skip
    return {key: value for key, value in found.items() if value or key in ("name", "body")}


def _statement_json(statement: Store | Let) -> Json:
    if isinstance(statement, Let):
        return ["let", statement.variable, _expression_json(statement.value)]
    indices = [_expression_json(index) for index in statement.indices]
    return ["store", statement.buffer, indices, _expression_json(statement.value)]


def _expression_json(found: Expression) -> Json:
    operands = [_expression_json(operand) for operand in found.operands]
    if found.kind == "variable":
        return found.value
    if found.kind == "constant":
        value = types.constant_json(found.value)
        return value if found.dtype in ("bool", "int64") else [found.dtype, value]
    if found.kind in ("load", "call"):
        return [found.kind, found.value, *operands]
    typed = found.kind in ("cast", "reinterpret")
    return [found.kind, found.dtype, *operands] if typed else [found.kind, *operands]
