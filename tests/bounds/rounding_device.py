"""Operators as programs, and devices that round as badly as WGSL lets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from tapml.bounds import Operator
from tapml.lowering.lower import Model, lower
from tapml.lowering.write import program_of


def lowered(function: Callable[..., Any], *types: tuple[tuple[int, ...], str]) -> Model:
    """One Relax function of tensors, lowered."""
    builder = relax.BlockBuilder()
    arguments = [relax.Var(f"x{i}", relax.TensorType(shape, dtype)) for i, (shape, dtype) in enumerate(types)]
    with builder.function("main", arguments):
        with builder.dataflow():
            result = builder.emit_output(function(builder, *arguments))
        builder.emit_func_output(result)
    return lower(builder.finalize(), len(types)).as_it_is


def operator(function: Callable[..., Any], *types: tuple[tuple[int, ...], str], wgsl: tuple[str, ...] = ()) -> Operator:
    """The bounds of what must become a single kernel."""
    found = lowered(function, *types)
    (name,) = found.graph.kernels
    return Operator(program_of(name, found.programs[name]), wgsl)


class Device:
    """float32 (or float16) arithmetic that takes either neighbour of a result, and flushes subnormals, at random."""

    def __init__(self, random: np.random.Generator, dtype: str = "float32") -> None:
        self._random = random
        self._dtype: Any = np.dtype(dtype)
        self._normal = float(np.finfo(self._dtype).tiny)

    def round(self, exact: np.ndarray) -> np.ndarray:
        exact = np.asarray(exact, np.float64)
        near = exact.astype(self._dtype)
        side = np.where(near.astype(np.float64) < exact, np.inf, -np.inf).astype(self._dtype)
        other = np.where(near == exact, near, np.nextafter(near, side))
        found = np.where(self._random.random(exact.shape) < 0.5, near, other).astype(np.float64)
        flushed = (np.abs(found) < self._normal) & (self._random.random(exact.shape) < 0.5)
        return np.where(flushed, 0.0, found)

    def sum(self, terms: np.ndarray) -> np.ndarray:
        """Of the last axis, in an order of its own."""
        terms = terms[..., self._random.permutation(terms.shape[-1])]
        total = np.zeros(terms.shape[:-1])
        for k in range(terms.shape[-1]):
            total = self.round(total + terms[..., k])
        return total
