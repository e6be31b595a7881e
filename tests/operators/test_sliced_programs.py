"""What a box of an output needs of a program gives the same numbers as all of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from tapml.bounds import rounded
from tapml.lowering.lower import lower
from tapml.operators.program import OperatorProgram
from tapml.operators.sliced import Box, points, sliced

Build = Callable[..., relax.Expr]


def _program(build: Build, *shapes: tuple[int, ...]) -> OperatorProgram:
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{number}", relax.TensorType(shape, "float32")) for number, shape in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            out = builder.emit_output(build(*inputs))
        builder.emit_func_output(out)
    lowered = lower(builder.finalize(), len(shapes), ())
    (program,) = lowered.at({}, lowered.documents()).programs.values()
    assert isinstance(program, OperatorProgram)
    return program


def _part(array: np.ndarray, box: Box) -> np.ndarray:
    return np.ascontiguousarray(array[tuple(slice(*ends) for ends in box)])


@pytest.mark.parametrize(
    ("build", "shapes", "box"),
    [
        (lambda x, w: op.nn.conv2d(x, w, padding=1), [(1, 4, 9, 9), (6, 4, 3, 3)], ((0, 1), (2, 4), (0, 3), (7, 9))),
        (lambda x, w: op.nn.conv2d(x, w, strides=2), [(1, 4, 9, 9), (6, 4, 3, 3)], ((0, 1), (5, 6), (1, 3), (0, 4))),
        (lambda x: op.nn.softmax(x, axis=1), [(7, 11)], ((2, 4), (3, 9))),
        (lambda x, y: op.matmul(x, y), [(8, 5), (5, 9)], ((7, 8), (0, 4))),
        (lambda x, y: op.concat([x, y], axis=0), [(4, 3), (5, 3)], ((2, 6), (1, 3))),
        (lambda x: op.permute_dims(x, [2, 0, 1]), [(3, 4, 5)], ((1, 2), (0, 3), (2, 4))),
        (lambda x: op.reshape(x, (6, 10)), [(5, 12)], ((2, 3), (1, 9))),
        (lambda x: op.nn.max_pool2d(x, pool_size=3, strides=2), [(2, 2, 9, 9)], ((0, 1), (0, 2), (1, 3), (2, 4))),
        (lambda x: op.strided_slice(x, [0], [2], [9], [3]), [(10, 4)], ((1, 3), (0, 2))),
    ],
)  # fmt: skip
def test_a_box_is_what_all_of_it_has_there(build: Build, shapes: list[tuple[int, ...]], box: Box) -> None:
    program, random = _program(build, *shapes), np.random.default_rng(0)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    (whole,) = rounded(program, inputs, None)
    cut = sliced(program, [box])
    (found,) = rounded(cut.program, [_part(a, b) for a, b in zip(inputs, cut.inputs, strict=True)], None)
    (given,) = cut.outputs
    assert all(start <= a and b <= end for (start, end), (a, b) in zip(given, box, strict=True))
    np.testing.assert_allclose(found, _part(whole, given), rtol=1e-12)
    assert cut.program.turns <= program.turns


def test_of_a_large_product_little_is_left() -> None:
    program = _program(op.matmul, (256, 32), (32, 256))
    cut = sliced(program, [((10, 14), (200, 208))])
    assert cut.inputs == (((10, 14), (0, 32)), ((0, 32), (200, 208)))
    assert [points(box) for box in cut.outputs] == [32]
    assert cut.program.turns == 4 * 8 * 32
