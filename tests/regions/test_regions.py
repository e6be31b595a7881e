"""Regions of programs move what the programs move."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tvm import te, topi

from regions.moving import Array, chained, chains, moved, program
from tapml.operators.program import Axis, Block, Buffer, Expression, Loop, OperatorProgram, Store
from tapml.regions.read import MOST_REGIONS, regions_of
from tapml.regions.region import Region, View, merged


def of_output(found: OperatorProgram) -> list[Region]:
    regions = regions_of(found)
    assert regions is not None
    assert regions.keys() == {found.parameters[-1].name}
    return regions[found.parameters[-1].name]


def numbered(shape: tuple[int, ...]) -> Array:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


@settings(max_examples=60, deadline=None)
@given(chains())
def test_chains_of_moves_one_by_one(drawn: Any) -> None:
    shape, programs, arrays = drawn
    array = numbered(shape)
    for found, of_array in zip(programs, arrays, strict=True):
        regions = regions_of(found)
        wanted = of_array(array)
        if regions is None:  # of too many pieces, which a single move is not
            pytest.fail(f"no regions of {found.name}: {shape}")
        (made,) = regions.values()
        np.testing.assert_array_equal(moved(made, {"x0": array}, wanted.shape), wanted)
        array = wanted


@settings(max_examples=120, deadline=None)
@given(chains())
def test_chains_of_moves_merged_into_one(drawn: Any) -> None:
    shape, programs, arrays = drawn
    array = wanted = numbered(shape)
    for of_array in arrays:
        wanted = of_array(wanted)
    regions = regions_of(chained(programs))
    if regions is not None:
        (made,) = regions.values()
        assert len(made) <= MOST_REGIONS
        np.testing.assert_array_equal(moved(made, {"x0": array}, wanted.shape), wanted)
    else:
        assert len(programs) > 1


def of_inputs(made: Callable[..., Any], *shapes: tuple[int, ...]) -> list[Region]:
    return of_output(program(made, shapes))


def test_what_is_one_box_is_one_region() -> None:
    """Depth to space, windows of Swin, heads taken apart and put together: vertical merging."""

    def shuffled(x: Any) -> Any:
        return topi.reshape(topi.transpose(topi.reshape(x, (2, 3, 3, 4, 5)), [0, 3, 1, 4, 2]), (2, 12, 15))

    def there_and_back(x: Any) -> Any:
        apart = topi.transpose(topi.reshape(x, (7, 4, 8)), [1, 0, 2])
        return topi.reshape(topi.transpose(apart, [1, 0, 2]), (7, 32))

    (one,) = of_inputs(shuffled, (18, 4, 5))
    assert one.sizes == (2, 4, 3, 5, 3)
    assert one.read.strides == (180, 5, 60, 1, 20)
    (whole,) = of_inputs(there_and_back, (7, 32))
    assert (whole.sizes, whole.read) == ((224,), View(0, (1,)))


def test_a_reshape_across_what_was_turned_is_one_region_of_its_elements_in_a_row() -> None:
    def made(x: Any) -> Any:
        return topi.reshape(topi.transpose(x, [1, 0]), (8, 3))

    (one,) = of_inputs(made, (4, 6))
    assert one == Region((6, 4), View(0, (4, 1)), "x0", View(0, (1, 6)))


def test_regions_that_together_are_a_box_are_one() -> None:
    def rows(offset: int, count: int) -> Region:
        return Region((count, 4), View(10 * offset, (10, 1)), "x", View(4 * offset, (4, 1)))

    assert merged([rows(0, 2), rows(2, 1), rows(3, 3)]) == [rows(0, 6)]
    beside = Region((3, 2), View(2, (10, 1)), "x", View(2, (4, 1)))
    first = Region((3, 2), View(0, (10, 1)), "x", View(0, (4, 1)))
    assert merged([beside, first]) == [rows(0, 3)]
    apart = Region((3, 2), View(2, (10, 1)), "x", View(3, (4, 1)))
    assert merged([first, apart]) == [Region((2, 3, 2), View(0, (2, 10, 1)), "x", View(0, (3, 4, 1)))]
    assert len(merged([first, Region((3, 2), View(2, (10, 1)), "x", View(2, (5, 1)))])) == 2
    assert len(merged([first, Region((3, 2), View(2, (10, 1)), "y", View(2, (4, 1)))])) == 2


def test_what_computes_or_depends_on_data_is_no_region() -> None:
    for made, shapes in (
        (lambda x: topi.exp(x), [(3, 4)]),
        (lambda x: topi.cast(x, "float16"), [(3, 4)]),
        (lambda x: topi.sum(x, 1), [(3, 4)]),
        (lambda x, y: topi.take(x, topi.cast(y, "int32")), [(5,), (3,)]),
        (lambda x, y: topi.where(topi.greater(x, y), x, y), [(3,), (3,)]),
        (lambda x: te.compute((6, 6), lambda i, j: x[i * j]), [(26,)]),
    ):
        assert regions_of(program(made, shapes)) is None


def test_gathers_at_indices_that_are_known_are_regions() -> None:
    """Whatever its indices are made of: a clamped place, a choice, a remainder."""

    def clamped(x: Any) -> Any:
        return te.compute((9,), lambda i: x[te.min(te.max(i - 2, 0), 4)])

    found = of_inputs(clamped, (5,))
    array = numbered((5,))
    np.testing.assert_array_equal(moved(found, {"x0": array}, (9,)), np.pad(array, 2, "edge"))
    assert [region.read.strides for region in found] == [(0,), (1,), (0,)]

    def around(x: Any) -> Any:
        return te.compute((12,), lambda i: x[(i * 5 + 3) % 7])

    found = of_inputs(around, (7,))
    np.testing.assert_array_equal(
        moved(found, {"x0": numbered((7,))}, (12,)), numbered((7,))[(np.arange(12) * 5 + 3) % 7]
    )


def block(name: str, shape: tuple[int, ...], value: Callable[..., Expression]) -> Block:
    variables = [f"{name}{axis}" for axis in range(len(shape))]
    loops = tuple(Loop(f"l{variable}", "int64", extent) for variable, extent in zip(variables, shape, strict=True))
    axes = tuple(
        Axis(variable, "int64", loop.extent, False, Expression("variable", "int64", (), loop.variable))
        for variable, loop in zip(variables, loops, strict=True)
    )
    places = tuple(Expression("variable", "int64", (), variable) for variable in variables)
    return Block(name, loops, axes, (), (Store(name, places, value(*places)),))


def test_hostile_programs_are_no_regions_and_take_no_time() -> None:
    def load(buffer: str, *indices: Expression) -> Expression:
        return Expression("load", "float32", indices, buffer)

    def squared(i: Expression) -> Expression:
        return Expression("mul", "int64", (i, i))

    def chain(count: int, index: Callable[[Expression], Expression]) -> OperatorProgram:
        names = ["x", *(f"t{n}" for n in range(count)), "y"]
        blocks = [
            block(name, (8,), lambda i, before=before: load(before, index(i)))  # type: ignore[misc]
            for before, name in itertools.pairwise(names)
        ]
        buffers = [Buffer(name, "float32", (8,)) for name in names]
        return OperatorProgram("chain", None, (buffers[0], buffers[-1]), tuple(buffers[1:-1]), tuple(blocks))

    assert regions_of(chain(60, lambda i: i)) is not None
    assert regions_of(chain(3000, lambda i: i)) is None
    assert regions_of(chain(60, squared)) is None
    shape = Buffer("y", "float32", (8,))
    itself = OperatorProgram("itself", None, (shape,), (), (block("y", (8,), lambda i: load("y", i)),))
    assert regions_of(itself) is None
    large = Expression("constant", "int64", (), 2**62)

    def grown(i: Expression) -> Expression:
        return Expression("floormod", "int64", (Expression("mul", "int64", (i, large)), large))

    assert regions_of(chain(60, grown)) is not None  # it is 0
