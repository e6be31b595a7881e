"""How much of a model is moving elements: transforms in it, and kernels that do nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tapml.operators.program import CHOICES, Block, Expression, OperatorProgram, Store, parts_of
from tapml.program.graph import Graph, NodeKind, numpy_dtype
from tapml.regions.forms import Form
from tapml.regions.read import regions_of


@dataclass(frozen=True)
class Moved:
    """Of one call of a function."""

    calls: int
    """Of kernels."""
    transforms: int
    """Operators of the model that only move elements, reshapes among them: by themselves, or part of a kernel."""
    moves: int
    """Calls of kernels that do nothing else."""
    bytes: int
    """That these read and write."""
    written: int
    """Bytes that all calls write."""

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def moved(graph: Graph, programs: Mapping[str, OperatorProgram | Any]) -> Moved:
    """Of a graph, and its kernels' programs at its sizes; what is no program moves nothing."""
    known = {name: found for name, found in programs.items() if isinstance(found, OperatorProgram)}
    within = {name: sum(map(_moves, found.blocks)) for name, found in known.items()}
    bytes_of = {name: move_bytes(found) for name, found in known.items()}
    nodes = graph.kernel_nodes
    views = sum(node.kind is NodeKind.VIEW for node in graph.nodes)
    moves = [found for node in nodes if (found := bytes_of.get(node.kernel)) is not None]
    written = sum(graph.values[value].type.nbytes for node in nodes for value in node.outputs)
    transforms = views + sum(within.get(node.kernel, 0) for node in nodes)
    return Moved(len(nodes), transforms, len(moves), sum(moves), written)


def move_bytes(program: OperatorProgram) -> int | None:
    """That a program of fixed sizes reads and writes which only moves elements; None of any other."""
    outputs = regions_of(program)
    if outputs is None:
        return None
    dtypes = {buffer.name: buffer.dtype for buffer in program.parameters}
    return sum(
        int(Form.of(region.elements).constant or 0)
        * (_bytes(dtypes[output]) + (_bytes(dtypes[region.source]) if region.source is not None else 0))
        for output, regions in outputs.items()
        for region in regions
    )


def _bytes(dtype: str) -> int:
    return numpy_dtype(dtype).itemsize


def _moves(block: Block) -> bool:
    """Does one of its blocks only move elements? What it stores are loads, constants, and choices that indices
    decide."""
    stores = [statement for statement in block.body if isinstance(statement, Store)]
    moving = len(stores) == len(block.body) and not block.first and not block.sequential
    return moving and all(_is_moved(store.value) for store in stores)


def _is_moved(value: Expression) -> bool:
    if value.kind in CHOICES:
        condition, *either = value.operands
        return _is_index(condition) and all(map(_is_moved, either))
    return value.kind == "constant" or (value.kind == "load" and all(map(_is_index, value.operands)))


def _is_index(found: Expression) -> bool:
    return all(part.kind not in ("load", "call", "reinterpret") for part in parts_of(found))
