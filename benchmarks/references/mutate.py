"""Mutants: a model whose importer, or lowering, would have got one thing wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapml.operators.program import FLOATS, Block, Expression, OperatorProgram

_SWAPS = {"round": "floor", "floor": "ceil", "ceil": "floor", "trunc": "floor"}
_FLAGS = {"exclusive", "reverse", "count_include_pad", "fmod", "upper", "ceil_mode"}
_AXES = {"axis": {-1: 0, 1: 0, 0: 1}}


def number(value: float) -> float | None:
    """What is easily mistaken for a constant; None for what no formula holds by chance."""
    if value in (0.0, 1.0, -1.0) or not math.isfinite(value) or abs(value) > 1e6:
        return None
    if abs(value) < 2e-3 and abs(1 / value - round(1 / value)) < 1e-3 * abs(1 / value) and round(1 / value) % 10 == 0:
        return value / 10  # an epsilon
    if abs(value) < 0.2 and (divisor := round(1 / value)) and abs(value * divisor - 1) < 1e-5:
        return 1.0 / (divisor - 1 if divisor > 1 else divisor + 1)
    rounded = float(f"{value:.3g}")
    return rounded if abs(rounded - value) > 1e-4 * abs(value) else 1.01 * value


def of_onnx(model: Any) -> Iterator[tuple[str, Any]]:
    """Each wrong model, and what is wrong with it."""
    from onnx import ModelProto, numpy_helper

    def copy() -> Any:
        made = ModelProto()
        made.CopyFrom(model)
        return made

    for place, node in enumerate(model.graph.node):
        for at, attribute in enumerate(node.attribute):
            name, old = attribute.name, None
            made = copy()
            changed = made.graph.node[place].attribute[at]
            if attribute.type == 1:
                value = 1.01 * attribute.f if attribute.f == 1.0 else number(round(attribute.f, 9))
                old, changed.f = attribute.f, value or 0.0
            elif name in _FLAGS:
                old, changed.i = attribute.i, 1 - attribute.i
            elif name in _AXES and attribute.i in _AXES[name]:
                old, changed.i = attribute.i, _AXES[name][attribute.i]
            elif name == "perm" and len(attribute.ints) == 2:
                old, changed.ints[:] = "transposed", [0, 1]
            elif name == "approximate":
                old, changed.s = attribute.s.decode(), b"none"
            if old is not None:
                yield f"{node.op_type}: {name} of {old}", made
        if (other := {"Round": "Floor", "Floor": "Ceil"}.get(node.op_type)) is not None:
            made = copy()
            made.graph.node[place].op_type = other
            yield f"{node.op_type}: {other}", made
    for place, tensor in enumerate(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        readers = [node for node in model.graph.node if tensor.name in node.input]
        if (
            array.dtype == np.float32
            and array.size == 1
            and (value := number(float(f"{array.item():.8g}"))) is not None
        ):
            made = copy()
            made.graph.initializer[place].CopyFrom(numpy_helper.from_array(np.full_like(array, value), tensor.name))
            yield f"{readers[0].op_type}: {value:.8g} for {array.item():.8g}", made
        elif array.dtype == np.uint8 and array.size == 1:
            made = copy()
            made.graph.initializer[place].CopyFrom(numpy_helper.from_array(array + np.uint8(1), tensor.name))
            yield f"{readers[0].op_type}: zero point + 1", made


def of_torch(program: Any) -> Iterator[str]:
    """Makes `program` wrong, yields what is wrong with it, and makes it right again."""
    for node in program.graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        arguments, named = node.args, dict(node.kwargs)
        schema = node.target._schema.arguments if hasattr(node.target, "_schema") else []
        for at, argument in enumerate(arguments):
            name = schema[at].name if at < len(schema) else str(at)
            wrong: Any = None
            if isinstance(argument, float):
                wrong = number(argument)
            elif isinstance(argument, bool) and name in ("count_include_pad", "align_corners", "ceil_mode"):
                wrong = not argument
            if wrong is not None:
                node.args = (*arguments[:at], wrong, *arguments[at + 1 :])
                yield f"{node.target.__name__}: {name} of {argument:.8g}"
                node.args = arguments
        for name, argument in named.items():
            if isinstance(argument, float) and (wrong := number(argument)) is not None:
                node.kwargs = {**named, name: wrong}
                yield f"{node.target.__name__}: {name} of {argument:.8g}"
                node.kwargs = named


def of_programs(programs: Mapping[str, OperatorProgram | Any]) -> Iterator[tuple[str, str, OperatorProgram]]:
    """Kernel, what is wrong with it, and its program, for each constant and function of each kernel."""
    for kernel, program in programs.items():
        if not isinstance(program, OperatorProgram):
            continue
        seen: set[str] = set()
        for block in program.blocks:
            for found in block.expressions:
                changed = _changed(found)
                if changed is None or (said := f"{found.kind} {found.value!r} -> {changed.value!r}") in seen:
                    continue
                seen.add(said)
                blocks = tuple(_replaced(other, found, changed) for other in program.blocks)
                yield kernel, said, dataclasses.replace(program, blocks=blocks)


def _changed(found: Expression) -> Expression | None:
    if found.kind == "constant" and found.dtype in FLOATS and isinstance(found.value, int | float):
        value = number(float(f"{found.value:.8g}"))
        return None if value is None else dataclasses.replace(found, value=value)
    if found.kind == "call" and found.value in _SWAPS:
        return dataclasses.replace(found, value=_SWAPS[str(found.value)])
    return None


def _replaced(block: Block, old: Expression, new: Expression) -> Block:
    def value(found: Expression) -> Expression:
        if found == old:
            return new
        return dataclasses.replace(found, operands=tuple(map(value, found.operands)))

    first, body = (
        tuple(dataclasses.replace(statement, value=value(statement.value)) for statement in statements)
        for statements in (block.first, block.body)
    )
    return dataclasses.replace(block, first=first, body=body)
