"""Arrays and images of tasks on a GPU (Dawn in node), held against numpy in float64, OpenCV, and the VM's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from benchmarks.task_arrays.held import hold_picture, names_of_codes
from benchmarks.task_arrays.pictures import picture_cases
from benchmarks.task_arrays.vm import Vm, started
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ULP = 2.0**-24
"""Half of a unit in the last place of 1, in float32."""


@pytest.fixture(scope="module")
def vm() -> Iterator[Vm]:
    with started("gpu", "0") as vm:
        yield vm


def answered(vm: Vm, name: str, *values: object, **keywords: object) -> NDArray[np.float64]:
    """What it gives, which has to come from the GPU."""
    before = vm.counts()
    found = vm.call(name, *values, **keywords)
    assert vm.counts() == {"answered": before["answered"] + 1, "failed": before["failed"]}, name
    return np.asarray(found)


def drawn(seed: int, *shape: int) -> Floats:
    """Numbers of many sizes, both signs."""
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) * 10.0 ** generator.uniform(-3, 3, shape)).astype(np.float32)


SHAPES = [
    ((1, 1), (1, 1)),
    ((1, 3000), (3000, 1)),
    ((64, 16), (16, 64)),
    ((63, 17), (17, 65)),
    ((130, 70), (70, 129)),
    ((5, 9, 33), (33, 2)),
    ((3, 1, 20, 30), (4, 30, 10)),
    ((200,), (200, 7)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_are_within_their_bound(vm: Vm, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = drawn(1, *shapes[0]), drawn(2, *shapes[1])
    found = answered(vm, "matmul", x, y)
    exact = np.matmul(x.astype(float), y.astype(float))
    bound = (shapes[0][-1] + 1) * ULP * np.matmul(np.abs(x).astype(float), np.abs(y).astype(float))
    assert found.dtype == np.float32
    assert found.shape == exact.shape
    assert np.all(np.abs(found - exact) <= bound)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_products_of_integers_are_the_same(vm: Vm, dtype: type) -> None:
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(3)
    x, y = (generator.integers(limits.min, limits.max, shape, dtype) for shape in ((40, 50), (50, 70)))
    np.testing.assert_array_equal(answered(vm, "matmul", x, y), np.matmul(x, y))


def _log(exact: NDArray[np.float64], x: Floats) -> NDArray[np.float64]:
    return np.where((x >= 0.5) & (x <= 2), 2.0**-21, 8 * ULP * np.abs(exact))


ONE: dict[str, tuple[Floats, Callable[[NDArray[np.float64], Floats], NDArray[np.float64]]]] = {
    "exp": (np.clip(drawn(4, 3000), -80, 80), lambda exact, x: (4 + 2 * np.abs(x)) * 2 * ULP * exact),
    "log": (np.abs(drawn(5, 3000)) + np.float32(1e-6), _log),
    "log2": (np.abs(drawn(6, 3000)) + np.float32(1e-6), _log),
    "sqrt": (np.abs(drawn(7, 3000)), lambda exact, x: 6 * ULP * exact),
    "tanh": (drawn(8, 3000), lambda exact, x: 16 * ULP * np.abs(exact)),
}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_element_are_within_their_bound(vm: Vm, name: str) -> None:
    x, bound = ONE[name]
    exact = getattr(np, name)(x.astype(float))
    assert np.all(np.abs(answered(vm, name, x) - exact) <= bound(exact, x))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic_is_what_numpy_gives(vm: Vm, name: str) -> None:
    x, y = drawn(9, 70, 50), drawn(10, 70, 50)
    found, expected = answered(vm, name, x, y), getattr(np, name)(x, y)
    # WGSL's quotients may be 2.5 units in the last place away.
    np.testing.assert_allclose(found, expected, rtol=5 * ULP if name == "divide" else 0)


@pytest.mark.parametrize(("shape", "axis"), [((100_003,), None), ((7, 40_001), 1), ((300, 5), 0), ((4, 1), 1)])
def test_reductions_are_within_their_bound(vm: Vm, shape: tuple[int, ...], axis: int | None) -> None:
    x = drawn(11, *shape)
    for name in ("max", "min"):
        np.testing.assert_array_equal(answered(vm, name, x, axis=axis), getattr(np, name)(x, axis=axis))
    exact = x.astype(float).sum(axis=axis)
    # 128 numbers one after the other, eight steps of a tree, and one rounding of what comes of all parts.
    bound = (128 + 8 + 1) * ULP * np.abs(x).astype(float).sum(axis=axis)
    assert np.all(np.abs(answered(vm, "sum", x, axis=axis) - exact) <= bound)


def test_images_are_within_one_unit_of_opencv(vm: Vm) -> None:
    before = vm.counts()
    for picture in picture_cases(names_of_codes(vm)):
        hold_picture(vm, picture, 3)
    after = vm.counts()
    assert after["answered"] > before["answered"] + 20
    assert after["failed"] == before["failed"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("matmul", [[[np.inf, 1]], [[1], [1]]]),
        ("matmul", [[[3e38, 3e38]], [[2], [-2]]]),
        ("exp", [[100.0, np.nan]]),
        ("log", [[0.0, -1.0, 1e-40]]),
        ("sqrt", [[-1.0, 1e-40]]),
        ("divide", [[1.0, 0.0, 1e-40], [0.0, 0.0, 1.0]]),
        ("add", [[3e38], [3e38]]),
        ("sum", [[np.inf, -np.inf]]),
        ("max", [[1.0, np.nan]]),
    ],
)
def test_what_is_no_ordinary_number_is_computed_by_the_vm(vm: Vm, name: str, values: list[list[float]]) -> None:
    arrays = [np.asarray(one, np.float32) for one in values]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*(one.astype(float) for one in arrays)).astype(np.float32)
    np.testing.assert_array_equal(vm.call(name, *arrays), expected)


@pytest.mark.parametrize("gpu", ["lost", "none"])
def test_without_a_gpu_the_vm_computes(gpu: str) -> None:
    x, y = drawn(12, 30, 40), drawn(13, 40, 20)
    with started(gpu) as vm, started() as other:
        for _ in range(5):
            np.testing.assert_array_equal(vm.call("matmul", x, y), other.call("matmul", x, y))
        # It is asked three times, and then no more.
        assert vm.counts() == {"answered": 0, "failed": 3}


def test_small_arrays_never_leave_the_vm() -> None:
    x = drawn(14, 50, 50)
    with started("gpu", "4") as vm:
        vm.call("matmul", x, x)
        assert vm.counts() == {"answered": 0, "failed": 0}
        large = drawn(15, 300, 300)
        vm.call("matmul", large, large)
        assert vm.counts() == {"answered": 1, "failed": 0}
