"""Running a program's native code with guards around its tensors: what is written outside of them is seen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import tvm_ffi

from tapml.lowering.lower import Model
from tapml.operators.program import Buffer, OperatorProgram
from tapml.platforms.reference import Reference
from tapml.program import Graph, Node, NodeKind, TensorType, Value, ValueKind

_MARGIN = 1 << 14
"""Bytes before and after each tensor."""

_GUARD = 0xA5


class Guarded:
    """A tensor within memory of ours."""

    def __init__(self, buffer: Buffer, array: np.ndarray) -> None:
        self.memory = np.full(2 * _MARGIN + max(array.nbytes, 1) + 64, _GUARD, np.uint8)
        start = _MARGIN + (-(self.memory.ctypes.data + _MARGIN)) % 64
        self.inside = slice(start, start + array.nbytes)
        self.memory[self.inside] = np.frombuffer(array.tobytes(), np.uint8)
        view = self.memory[self.inside].view(array.dtype).reshape(buffer.shape)
        self.array = view
        self.tensor = tvm_ffi.from_dlpack(view)

    @property
    def intact(self) -> bool:
        before, after = self.memory[: self.inside.start], self.memory[self.inside.stop :]
        return bool((before == _GUARD).all() and (after == _GUARD).all())


def lowered_of(programs: Sequence[OperatorProgram]) -> Model:
    """Programs as operators of a model, each called once."""
    values: dict[str, Value] = {}
    nodes = []
    for program in programs:
        names = [f"{program.name}.{buffer.name}" for buffer in program.parameters]
        for name, buffer in zip(names, program.parameters, strict=True):
            values[name] = Value(name, name, TensorType(buffer.shape, buffer.dtype), ValueKind.PARAMETER)
        nodes.append(Node(f"n.{program.name}", NodeKind.KERNEL, program.name, tuple(names[:-1]), (names[-1],)))
    return Model(Graph(values, nodes, (), ()), [], {program.name: program for program in programs})


def made_up(buffer: Buffer, random: np.random.Generator) -> np.ndarray:
    """Values of all kinds: small ones, the ends of the dtype, what is no number."""
    dtype = np.dtype(ml_dtypes.bfloat16) if buffer.dtype == "bfloat16" else np.dtype(buffer.dtype)
    size = math.prod(buffer.shape)
    if dtype == np.bool_:
        return random.integers(0, 2, size).astype(bool).reshape(buffer.shape)
    if dtype.kind == "f":
        array = random.standard_normal(size) * 10.0 ** random.integers(-3, 6, size)
        odd = random.choice([np.nan, np.inf, -np.inf, 0.0, 65504.0, -3e9], size)
        with np.errstate(over="ignore"):
            return np.where(random.random(size) < 0.3, odd, array).astype(dtype).reshape(buffer.shape)
    ends = np.iinfo(dtype)
    odd = random.choice(np.array([ends.min, ends.max, ends.max // 2, 0], dtype), size)
    small = random.integers(0, 8, size).astype(dtype)
    return np.where(random.random(size) < 0.4, odd, small).reshape(buffer.shape)


def run(reference: Reference, program: OperatorProgram, arrays: Sequence[np.ndarray]) -> list[Guarded]:
    """Call the native code; gives its tensors as they are then. Their surroundings are the caller's to look at."""
    tensors = [Guarded(buffer, array) for buffer, array in zip(program.parameters, arrays, strict=True)]
    types = [TensorType(buffer.shape, buffer.dtype) for buffer in program.parameters]
    reference.native(program.name, types)(*(found.tensor for found in tensors))
    return tensors
