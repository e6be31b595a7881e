"""Sums and products of several numbers: a device that takes them in another order is inside, and nothing else is."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rounding_device import Device, lowered, operator
from tvm import relax

from tapml.bounds import Bound, simulate
from tapml.bounds.chains import joined
from tapml.bounds.program import Run
from tapml.bounds.simulation import SUSPICIOUS_TIMES
from tapml.lowering.write import program_of
from tapml.operators.program import Axis, Block, Buffer, Expression, Loop, OperatorProgram, Store

op, f32 = relax.op, np.float32
Arrays = list[np.ndarray]

FIRST, SECOND = f32(-1.4327576), f32(-1.6676985)
"""float32 holds 1.5 + FIRST, and that + SECOND, but not FIRST + SECOND."""


def const(value: Any) -> Any:
    return relax.const(float(value), "float32")


def short(random: np.random.Generator, *shape: int, bits: int = 12) -> np.ndarray:
    """Of few digits, so that most sums and products of a few are exact; a power of two apart from each other."""
    scale = 2.0 ** random.integers(-6, 7, shape)
    return (random.integers(-(2**bits), 2**bits, shape) * scale / 2**bits).astype(f32)


def bound_of(function: Callable[..., Any], inputs: Arrays, expected: np.ndarray) -> Bound:
    types = [(array.shape, str(array.dtype)) for array in inputs]
    return operator(function, *types).bounds(inputs, [expected])[0]


@pytest.mark.parametrize(
    ("function", "written", "device"),
    [
        (lambda b, x: op.add(b.emit(op.add(x, const(FIRST))), const(SECOND)),
         lambda x: x + FIRST + SECOND, lambda x: x + (FIRST + SECOND)),
        (lambda b, x: op.subtract(b.emit(op.negative(b.emit(op.add(x, const(FIRST))))), const(SECOND)),
         lambda x: -(x + FIRST) - SECOND, lambda x: -x - (FIRST + SECOND)),
        (lambda b, x: op.add(b.emit(op.permute_dims(b.emit(op.add(x, const(FIRST))))), const(SECOND)),
         lambda x: x.T + FIRST + SECOND, lambda x: x.T + (FIRST + SECOND)),
        (lambda b, x: op.add(b.emit(op.strided_slice(b.emit(op.add(x, const(FIRST))), [1], [1], [3])), const(SECOND)),
         lambda x: x[:, 1:3] + FIRST + SECOND, lambda x: x[:, 1:3] + (FIRST + SECOND)),
    ],
    ids=["constants", "negated", "transposed", "sliced"],
)  # fmt: skip
def test_constants_that_a_device_adds_first(function: Any, written: Any, device: Any) -> None:
    x = np.full((3, 4), 1.5, f32)
    expected, got = written(x), device(x)
    assert (expected.astype(np.float64) == written(x.astype(np.float64))).all(), "each addition is exact"
    assert (got != expected).all()
    found = bound_of(function, [x], expected)
    assert found.bound is not None
    assert (np.abs(got - expected) <= found.bound).all()
    # Not by more than a unit of the largest partial sum for each addition.
    assert found.absolute <= 2 * 2.0**-22


def test_sums_in_any_order(random: np.random.Generator) -> None:
    inputs = [short(random, 500, bits=20) for _ in range(4)]
    functions: dict[str, Any] = {
        "one by one": lambda b, w, x, y, z: op.add(b.emit(op.add(b.emit(op.add(w, x)), y)), z),
        "by twos": lambda b, w, x, y, z: op.add(b.emit(op.add(w, x)), b.emit(op.add(y, z))),
    }
    expected = inputs[0] + inputs[1] + inputs[2] + inputs[3]
    device = Device(random)
    for name, function in functions.items():
        found = bound_of(function, inputs, expected)
        for order in itertools.permutations(inputs):
            total = order[0].astype(np.float64)
            for term in order[1:]:
                total = device.round(total + term)
            assert (np.abs(total - expected) <= found.bound).all(), name
        most = sum(np.abs(array.astype(np.float64)) for array in inputs)
        assert (found.bound <= 4 * 2.0**-23 * most).all(), name


def test_products_in_any_order(random: np.random.Generator) -> None:
    x, y, factor = short(random, 500, bits=11), short(random, 500, bits=11), f32(1.7)
    expected = x * y * factor
    found = bound_of(lambda b, x, y: op.multiply(b.emit(op.multiply(x, y)), const(factor)), [x, y], expected)
    device = Device(random)
    largest = 0.0
    for _ in range(8):
        got = device.round(device.round(x.astype(np.float64) * factor) * y)
        assert (np.abs(got - expected) <= found.bound).all()
        largest = max(largest, float(np.max(np.abs(got - expected)[x * y != 0] / np.abs(expected)[x * y != 0])))
    assert largest > 2.0**-23, "two roundings, of which the product as it is written has one"


@pytest.mark.parametrize(
    "function",
    [
        lambda b, x: op.add(b.emit(op.add(x, const(0.5))), const(-1.25)),
        lambda b, x: op.multiply(b.emit(op.multiply(x, const(3.0))), const(0.125)),
        lambda b, x: op.add(x, const(0.375)),
        lambda b, x: op.add(b.emit(op.add(x, const(0.0))), const(0.375)),
    ],
    ids=["few digits", "product", "one addition", "a zero"],
)
def test_what_is_exact_in_any_order_is_off_by_nothing(function: Any) -> None:
    x = np.arange(-40, 40, dtype=f32).reshape(8, 10) / 4
    found = operator(function, (x.shape, "float32"))
    (value,) = (output.value for output in _run(found, [x]))
    assert found.bounds([x], [value.astype(f32)])[0].bound is None


def _run(found: Any, inputs: Arrays) -> Any:
    return Run(found._program, inputs, found._functions).outputs


def test_one_addition_keeps_its_bound(random: np.random.Generator) -> None:
    x, y = (random.standard_normal(300).astype(f32) for _ in range(2))
    found = bound_of(lambda _, x, y: op.add(x, y), [x, y], x + y)
    exact = x.astype(np.float64) + y
    own = np.abs(x + y - exact)
    assert (found.bound <= (np.spacing(np.abs(exact).astype(f32)) + own) * (1 + 1e-6)).all()


def _program(function: Any, *shapes: tuple[int, ...]) -> Any:
    model = lowered(function, *((shape, "float32") for shape in shapes))
    (name,) = model.graph.kernels
    return program_of(name, model.programs[name])


def test_a_block_that_nobody_reads_any_more_is_not_run() -> None:
    program = _program(lambda b, x, y: op.add(b.emit(op.add(b.emit(op.add(x, y)), const(1))), y), (4, 8), (8,))
    assert len(program.blocks) == 3
    (block,) = joined(program).blocks
    assert block.name == program.blocks[-1].name


def _load(name: str, *indices: str) -> Expression:
    return Expression("load", "float32", tuple(Expression("variable", "int64", (), index) for index in indices), name)


def _block(stored: Expression, value: Expression, axes: str, first: tuple[Store, ...] = ()) -> Block:
    reduced = {*axes} - {str(index.value) for index in stored.operands}
    return Block(
        str(stored.value),
        tuple(Loop(axis, "int64", 4) for axis in axes),
        tuple(Axis(axis, "int64", 4, axis in reduced, Expression("variable", "int64", (), axis)) for axis in axes),
        first,
        (Store(str(stored.value), stored.operands, value),),
    )


def test_what_a_reduction_reads_too_stays_a_number_of_its_own() -> None:
    """As where a row and its mean are in one kernel."""

    def both(kind: str, *operands: Expression) -> Expression:
        return Expression(kind, "float32", operands)

    total, mean, result = _load("total", "i", "j"), _load("mean", "i"), _load("result", "i", "j")
    added = _block(total, both("add", _load("x", "i", "j"), _load("y", "j")), "ij")
    start = Store("mean", mean.operands, Expression("constant", "float32", (), 0.0))
    reduced = _block(mean, both("add", mean, total), "ij", (start,))
    centred = _block(result, both("sub", total, mean), "ij")
    shapes = {"x": (4, 4), "y": (4,), "result": (4, 4), "total": (4, 4), "mean": (4,)}
    buffers = [Buffer(name, "float32", shape) for name, shape in shapes.items()]
    program = OperatorProgram("centred", None, tuple(buffers[:3]), tuple(buffers[3:]), (added, reduced, centred))
    assert joined(program) is program
    # Where it reads something else, they are one sum.
    other = dataclasses.replace(reduced, body=(Store("mean", mean.operands, both("add", mean, _load("x", "i", "j"))),))
    (_, last) = joined(dataclasses.replace(program, blocks=(added, other, centred))).blocks
    assert last.body == (Store("result", result.operands, both("sub", added.body[0].value, mean)),)


def test_sums_of_sums_end_where_they_would_grow() -> None:
    names = ["x", *(f"doubled {number}" for number in range(1, 7))]
    loads = [_load(name, "i") for name in names]
    blocks = [
        _block(load, Expression("add", "float32", (before, before)), "i") for before, load in itertools.pairwise(loads)
    ]
    first, *between, last = (Buffer(name, "float32", (4,)) for name in names)
    found = joined(OperatorProgram("doubled", None, (first, last), tuple(between), tuple(blocks))).blocks
    assert [sum(node.kind == "load" for node in block.expressions) for block in found] == [8, 8]


def test_another_order_is_not_suspicious_and_another_constant_is(random: np.random.Generator) -> None:
    x = np.where(random.random((40, 20)) < 0.5, f32(1.5), random.standard_normal((40, 20)).astype(f32))
    program = _program(lambda b, x: op.add(b.emit(op.add(x, const(FIRST))), const(SECOND)), x.shape)
    expected = x + FIRST + SECOND
    bound = bound_of(lambda b, x: op.add(b.emit(op.add(x, const(FIRST))), const(SECOND)), [x], expected).bound
    (simulated,) = simulate(program, [x], [expected], [bound])
    assert simulated is not None
    assert simulated.times(expected) < 2
    assert simulated.times(x + (FIRST + SECOND)) < 2
    assert simulated.times(x + f32(1.000001) * FIRST + SECOND) > SUSPICIOUS_TIMES


ADDED, FACTOR = f32(-0.045088436), f32(0.05574522)


def _times_with_constants(x: np.ndarray, factor: np.floating[Any]) -> np.ndarray:
    """(x + ADDED) * factor as NVIDIA's compiler has it: fma(x, factor, ADDED * factor)."""
    return (x.astype(np.float64) * factor + f32(ADDED * factor)).astype(f32)


@pytest.mark.parametrize(
    ("function", "written", "device"),
    [
        (lambda b, x: op.multiply(b.emit(op.add(x, const(ADDED))), const(FACTOR)),
         lambda x: (x + ADDED) * FACTOR, lambda x: _times_with_constants(x, FACTOR)),
        (lambda b, x: op.multiply(const(FACTOR), b.emit(op.negative(b.emit(op.add(x, const(ADDED)))))),
         lambda x: FACTOR * -(x + ADDED), lambda x: _times_with_constants(x, -FACTOR)),
        (lambda b, x: op.multiply(b.emit(op.permute_dims(b.emit(op.add(x, const(ADDED))))), const(FACTOR)),
         lambda x: (x + ADDED).T * FACTOR, lambda x: _times_with_constants(x.T, FACTOR)),
        (lambda b, x: op.divide(b.emit(op.subtract(x, const(-ADDED))), const(FACTOR)),
         lambda x: (x + ADDED) / FACTOR, lambda x: _times_with_constants(x, 1 / FACTOR)),
    ],
    ids=["times", "negated", "transposed", "divided"],
)  # fmt: skip
def test_a_constant_factor_that_a_device_multiplies_each_term_by(
    random: np.random.Generator, function: Any, written: Any, device: Any
) -> None:
    near = -ADDED + random.standard_normal((40, 10)).astype(f32) * f32(1e-5)
    x = np.concatenate([near, random.standard_normal((40, 10)).astype(f32)], 1)
    expected, got = written(x), device(x)
    assert (np.abs(got - expected) > 8 * np.spacing(np.abs(expected))).any(), "the factor of each term is far off"
    bound = bound_of(function, [x], expected).bound
    assert (np.abs(got - expected) <= bound).all()
    (simulated,) = simulate(_program(function, x.shape), [x], [expected], [bound])
    assert simulated is not None
    assert simulated.times(got) < 2
    assert simulated.times(written(x + f32(1e-6))) > SUSPICIOUS_TIMES


def test_a_power_of_two_is_multiplied_into_a_sum_exactly() -> None:
    x = -ADDED + np.arange(-20, 20).astype(f32) * f32(2.0**-20)
    for factor in (0.25, -8.0):
        expected = (x + ADDED) * f32(factor)
        found = bound_of(lambda b, x, by=factor: op.multiply(b.emit(op.add(x, const(ADDED))), const(by)), [x], expected)
        assert found.absolute <= abs(factor) * 2.0**-22 * float(np.max(np.abs(x + ADDED)))


def test_constants_whose_product_is_no_number_of_the_dtype_have_a_bound() -> None:
    """As of a mask that is the lowest number."""
    x = np.array([-2.0, -1.0], f32)
    factor = f32(np.finfo(f32).min)
    found = bound_of(lambda b, x: op.multiply(b.emit(op.add(x, const(2.0))), const(factor)), [x], (x + f32(2)) * factor)
    assert found.absolute < 1e33
