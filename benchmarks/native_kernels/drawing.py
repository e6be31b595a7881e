"""What drawn operators are made with: shapes about the sizes of tiles, and chains of pointwise steps."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257, 512)
LONG = (1000, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8200)
MOST = 40_000
"""Elements of a tensor."""

op = relax.op


class Drawing:
    """One case in the making: `given` are the inputs that it asked for."""

    def __init__(self, draw: random.Random, builder: Any, prefix: str) -> None:
        self.draw = draw
        self.builder = builder
        self._prefix = prefix
        self.given: list[tuple[Any, np.ndarray[Any, Any]]] = []

    def emit(self, call: Any) -> Any:
        return self.builder.emit(call)

    def input(self, shape: Sequence[int], dtype: str = "float32", high: int = 0) -> Any:
        name = f"{self._prefix}_{len(self.given)}"
        values = np.random.default_rng(self.draw.getrandbits(32))
        array = values.integers(0, high or 9, shape) if "int" in dtype else values.standard_normal(shape)
        variable = relax.Var(name, relax.TensorType(tuple(shape), dtype))
        self.given.append((variable, np.asarray(array).astype(dtype)))
        return variable

    def shape(self, least: int = 1, most: int = 4) -> list[int]:
        """Of so many axes, with no more elements than `MOST`."""
        sizes = [self.draw.choice(SIZES) for _ in range(self.draw.randint(least, most))]
        if self.draw.random() < 0.15:
            sizes[-1] = self.draw.choice(LONG)
        while math.prod(sizes) > MOST:
            place = self.draw.randrange(len(sizes))
            sizes[place] = self.draw.choice([size for size in SIZES if size <= sizes[place]] or [1])
        return sizes

    def tensor(self, shape: Sequence[int]) -> Any:
        """An input of this shape, perhaps behind a few pointwise steps."""
        return self.pointwise(self.input(shape), self.draw.choice((0, 0, 0, 1, 2)))

    def pointwise(self, x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = self.emit(self._step(x))
        return x

    def _step(self, x: Any) -> Any:
        shape = [int(size) for size in x.ty.shape]
        kind = self.draw.choice(("unary", "unary", "binary", "binary", "scalar", "where"))
        if kind == "unary":
            return self.draw.choice(
                (op.tanh, op.sigmoid, op.nn.relu, op.nn.gelu, op.nn.silu, op.abs, op.negative, op.erf)
            )(x)
        if kind == "scalar":
            return self.draw.choice((op.multiply, op.add, op.maximum))(
                x, relax.const(self.draw.uniform(-2, 2), "float32")
            )
        other = [size if self.draw.random() < 0.7 else 1 for size in shape]
        other = other[self.draw.randrange(len(other)) :] if self.draw.random() < 0.3 and other else other
        y = self.input(other)
        if kind == "where":
            return op.where(self.emit(op.greater(x, y)), x, y)
        return self.draw.choice((op.add, op.subtract, op.multiply, op.minimum))(x, y)

    def end(self, x: Any) -> Any:
        """Perhaps a few pointwise steps behind it."""
        return self.pointwise(x, self.draw.choice((0, 0, 1, 2)))
