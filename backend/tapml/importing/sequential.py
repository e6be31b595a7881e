"""Kernels that go step by step: what a step writes, the next may read. TE has no way to say that.

A block's spatial axes are the invocations, which must not write where another reads or writes; within each the steps
are run in their order (`SEQUENTIAL`, which compilers/tvm/sequential.py schedules and bounds/sequential.py follows).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Range
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.analysis import get_sblock_access_region

from tapml.errors import InputError
from tapml.operators.program import SEQUENTIAL

Body = Callable[[Sequence[Any], Sequence[Any]], Iterable[Any]]
"""From the spatial axes and the steps to statements: `store`, `let`."""

MOST_STEPS = 60_000
"""Of a block: Mesa's llvmpipe, Firefox's and Deno's where there is no GPU, ends a shader's loops after 65,535 turns."""

MOST_BLOCKS = 512

_OPAQUE = 8
"""TVM's pattern of what is not fused."""


class Tensor:
    """A buffer of a program: `tensor[i, j]` reads."""

    def __init__(self, name: str, shape: Sequence[int], dtype: str) -> None:
        self.shape, self.dtype = tuple(shape), dtype
        self.buffer = tirx.decl_buffer(
            [_int64(extent) for extent in shape],
            dtype,
            name,
            elem_offset=_int64(0),
            scope="global",
            data_alignment=64,
            offset_factor=1,
            layout=None,
        )

    def __getitem__(self, at: Any) -> Any:
        return tirx.BufferLoad(self.buffer, [index(place) for place in (at if isinstance(at, tuple) else (at,))])

    def store(self, at: Sequence[Any], value: Any) -> Any:
        """A statement that writes an element."""
        return tirx.BufferStore(self.buffer, value, [index(place) for place in at])


class Program:
    """A PrimFunc, block by block; its buffers are arguments in the order in which they are declared."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._blocks: list[Any] = []

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        self._inputs.append(Tensor(name, shape, dtype))
        return self._inputs[-1]

    def output(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        self._outputs.append(Tensor(name, shape, dtype))
        return self._outputs[-1]

    @property
    def results(self) -> list[tuple[Sequence[int], str]]:
        """Shape and dtype of each output."""
        return [(tensor.shape, tensor.dtype) for tensor in self._outputs]

    def fill(self, tensor: Tensor, value: float) -> None:
        """A block that gives each element a value."""

        def body(at: Sequence[Any], _: Sequence[Any]) -> Iterable[Any]:
            yield tensor.store(at, tirx.const(value, tensor.dtype))

        self._add(f"fill_{tensor.buffer.name}", tensor.shape, [], body)

    def steps(self, spatial: Sequence[int], steps: Sequence[int], body: Body) -> None:
        """Blocks whose `steps`, the last of them the innermost, are run in order for each point of `spatial`.

        Raises InputError where they are too many for `MOST_BLOCKS` of them.
        """
        parts = list(itertools.islice(_parts(steps), MOST_BLOCKS + 1))
        if len(parts) > MOST_BLOCKS:
            raise InputError(
                f"{self._name} takes {math.prod(steps)} steps one after the other, more than a kernel of tapml may "
                "have: give it smaller inputs, or let it choose fewer"
            )
        for begins, extents in parts:
            self._add(self._name, spatial, extents, _beginning(begins, body))

    def function(self) -> Any:
        """The PrimFunc: inputs, then the outputs it writes."""
        body = self._blocks[0] if len(self._blocks) == 1 else tirx.SeqStmt(self._blocks)
        root = SBlock([], [], [], "root", body)
        parameters = [tensor.buffer for tensor in (*self._inputs, *self._outputs)]
        attributes = {
            "tirx.noalias": True,
            "s_tir": True,
            "op_pattern": _OPAQUE,
            "global_symbol": self._name,
        }
        return tirx.PrimFunc(parameters, SBlockRealize([], True, root)).with_attr(attributes)

    def _add(self, name: str, spatial: Sequence[int], steps: Sequence[int], body: Body) -> None:
        loops = [tirx.Var(f"i{number}", "int64") for number in range(len(spatial) + len(steps))]
        axes = [tirx.Var(f"v{number}", "int64") for number in range(len(loops))]
        extents = [*spatial, *steps]
        kinds = [tirx.IterVar.DataPar] * len(spatial) + [tirx.IterVar.CommReduce] * len(steps)
        variables = [
            tirx.IterVar(Range.from_min_extent(_int64(0), _int64(extent)), axis, kind)
            for extent, axis, kind in zip(extents, axes, kinds, strict=True)
        ]
        statements = list(body(axes[: len(spatial)], axes[len(spatial) :]))
        inside = statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
        annotations = {"schedule_rule": SEQUENTIAL} if steps else {}

        def made(reads: Sequence[Any], writes: Sequence[Any]) -> Any:
            return SBlock(variables, reads, writes, name, inside, None, None, None, annotations)

        buffers = {tensor.buffer: tensor.buffer for tensor in (*self._inputs, *self._outputs)}
        reads, writes, _ = get_sblock_access_region(made([], []), buffers)
        nest: Any = SBlockRealize(loops, True, made(reads, writes))
        for extent, loop in reversed(list(zip(extents, loops, strict=True))):
            nest = tirx.For(loop, _int64(0), _int64(extent), tirx.ForKind.SERIAL, nest)
        self._blocks.append(nest)


def _parts(steps: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Where each part of the steps begins, and its extents: in order, each of at most `MOST_STEPS`."""
    first, *rest = steps
    inner = math.prod(rest)
    if rest and inner > MOST_STEPS:
        for turn in range(first):
            yield from (([turn, *begins], [1, *extents]) for begins, extents in _parts(rest))
        return
    most = max(MOST_STEPS // inner, 1)
    for begin in range(0, first, most):
        yield [begin, *[0] * len(rest)], [min(most, first - begin), *rest]


def _beginning(begins: Sequence[int], body: Body) -> Body:
    """A body whose steps begin there."""

    def shifted(at: Sequence[Any], places: Sequence[Any]) -> Iterable[Any]:
        return body(at, [place + begin if begin else place for begin, place in zip(begins, places, strict=True)])

    return shifted


def let(name: str, value: Any) -> tuple[Any, Any]:
    """A statement that gives a value a name, and the variable."""
    variable = tirx.Var(name, str(value.ty.dtype))
    return tirx.Bind(variable, value), variable


def index(place: Any) -> Any:
    return _int64(place) if isinstance(place, int) else place.astype("int64")


def int32(value: Any) -> Any:
    return tirx.const(value, "int32") if isinstance(value, int) else value.astype("int32")


def near_square(count: int) -> tuple[int, int]:
    """Rows and columns that hold so many elements: row by row, each by an invocation of its own."""
    rows = max(math.isqrt(count), 1)
    return rows, -(-count // rows)


def _int64(value: int) -> Any:
    return tirx.IntImm("int64", value)
