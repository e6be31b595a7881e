"""Arrays and images of tasks, in the VM they run in, held against NumPy and OpenCV."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from benchmarks.task_arrays.drawn import INTEGERS
from benchmarks.task_arrays.held import hold, hold_assignment, hold_indexing, hold_picture, names_of_codes
from benchmarks.task_arrays.numbers import number_cases
from benchmarks.task_arrays.pictures import picture_cases
from benchmarks.task_arrays.places import place_cases
from benchmarks.task_arrays.products import product_cases
from benchmarks.task_arrays.vm import Refused, Vm, started

TYPES = {"result_type", "can_cast", "isdtype", "finfo", "iinfo"}
"""Of what they are asked, below."""
CASES = {**number_cases(), **product_cases(), **place_cases()}


@pytest.fixture(scope="module")
def vm() -> Iterator[Vm]:
    with started() as vm:
        yield vm


@pytest.mark.parametrize("examples", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_functions_give_what_numpy_gives(vm: Vm, examples: int) -> None:
    wrong = {}
    for name, case in CASES.items():
        try:
            hold(vm, name, case, examples)
        except (AssertionError, Refused) as error:
            wrong[name] = str(error)
    assert wrong == {}
    hold_indexing(vm, 10 * examples)
    hold_assignment(vm, 10 * examples)


@pytest.mark.parametrize("examples", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_images_are_within_one_unit_of_opencv(vm: Vm, examples: int) -> None:
    wrong = {}
    for picture in picture_cases(names_of_codes(vm)):
        try:
            hold_picture(vm, picture, examples)
        except (AssertionError, Refused) as error:
            wrong[picture.name] = str(error)
    assert wrong == {}


def test_all_functions_are_held_against_numpy(vm: Vm) -> None:
    """What is callable, but for names of the same, types and what gives no array."""
    given = vm.evaluate("[name for name in dir(np) if callable(getattr(np, name)) and name[0] != '_']")
    others = {"Array", "array", "concatenate", "unique", "empty", "empty_like", "positive"}
    plain = {"DType", "of", "broadcast_shapes", *TYPES}
    assert set(given) - others - plain == set(CASES) - {"positive"}


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("np.zeros((2, 3)) + np.zeros((2, 2))", "ValueError", "cannot be broadcast together"),
        ("np.asarray([[1], [1, 2]])", "ValueError", "nested unevenly"),
        ("np.asarray([[1, 2], 3])", "ValueError", "nested unevenly"),
        ("np.asarray([1, [2]])", "ValueError", "nested unevenly"),
        ("np.asarray([2**31])", "OverflowError", "2147483648 does not fit int32"),
        ("np.asarray([1], dtype='int8') + 200", "OverflowError", "200 does not fit int8"),
        ("np.sum(np.full(3, 2**30, dtype='int32'))", "OverflowError", "sum is 3221225472, which int32 does not hold"),
        ("np.asarray(['x'])", "TypeError", "must be real number"),
        ("np.zeros(3, dtype='int64')", "TypeError", "'int64' is not one of bool, int8"),
        ("np.finfo(np.int8)", "TypeError", "int8 is no type of floats"),
        ("np.iinfo(np.zeros(2))", "TypeError", "float64 is no type of integers"),
        ("np.isdtype(np.int8, 'whole')", "ValueError", "'whole' is no kind of types"),
        ("np.diff(np.zeros(2), n=-1)", "ValueError", "n is -1: give 0 or more"),
        ("np.cumulative_prod(np.full(9, 100))", "OverflowError", "prod is 10000000000, which int32 does not hold"),
        ("np.zeros(10**13)", "MemoryError", "[Ii]nvalid"),
        ("np.zeros(-1)", "ValueError", "an extent below 0"),
        ("np.arange(0, 5, 0)", "ValueError", "a step is not 0"),
        ("np.zeros(3)[3]", "IndexError", "index 3 is out of bounds for axis 0 with size 3"),
        ("np.zeros(3)[0, 0]", "IndexError", "too many"),
        ("np.zeros(3)[np.asarray([0, 3])]", "IndexError", "there is no 3 among 3"),
        ("np.zeros(3)[np.asarray([True])]", "IndexError", "a mask of shape"),
        ("np.take(np.zeros(3), np.asarray([-4]))", "IndexError", "there is no -4 among 3"),
        ("np.reshape(np.zeros(3), (2, -1))", "ValueError", "has no shape"),
        ("np.matmul(np.zeros((2, 3)), np.zeros((2, 3)))", "ValueError", "have no product: 3 is not 2"),
        ("np.inv(np.ones((2, 2)))", "ValueError", "the matrix is singular"),
        ("np.cholesky(np.zeros((2, 2)))", "ValueError", "not positive definite"),
        ("np.pow(np.asarray([2]), np.asarray([-1]))", "ValueError", "no negative powers"),
        ("np.add(np.asarray([True]), np.asarray([True]))", "TypeError", "use astype"),
        ("np.asarray([1.0]) & 1", "TypeError", "bitwise_and takes integers"),
        ("np.max(np.zeros(0))", "ValueError", "max of nothing"),
        ("np.concat([np.zeros((1, 2)), np.zeros((1, 3))])", "ValueError", "do not fit behind each other"),
        ("bool(np.zeros(2))", "TypeError", "no single value"),
        ("{np.zeros(2)}", "TypeError", "unhashable"),
        ("np.split(np.zeros(5), 2)", "ValueError", "5 is not 2 times the same"),
        ("cv2.resize(np.zeros((2, 2)), (1, 1))", "TypeError", "of uint8 or float32, and not"),
        ("cv2.resize(np.zeros((2, 2, 5), dtype='uint8'), (1, 1))", "TypeError", "1 to 4"),
        ("cv2.resize(np.zeros((0, 2), dtype='uint8'), (1, 1))", "TypeError", "an image is"),
        ("cv2.resize(np.zeros((2, 2), dtype='uint8'), (0, 1))", "ValueError", "of at least 1"),
        ("cv2.resize(np.zeros((2, 2), dtype='uint8'), (1, 1), interpolation=4)", "ValueError", "interpolation 4"),
        ("cv2.cvtColor(np.zeros((2, 2), dtype='uint8'), cv2.COLOR_BGR2GRAY)", "ValueError", "has 1 channels"),
        ("cv2.cvtColor(np.zeros((2, 2), dtype='uint8'), 1000)", "ValueError", "code 1000"),
        ("cv2.GaussianBlur(np.zeros((2, 2), dtype='uint8'), (2, 3), 1)", "ValueError", "is not odd"),
        ("cv2.GaussianBlur(np.zeros((2, 2), dtype='uint8'), (3, 3), 1, 0, cv2.BORDER_WRAP)", "ValueError", "WRAP"),
        ("cv2.warpAffine(np.zeros((2, 2), dtype='uint8'), np.zeros((2, 3)), (1, 1))", "ValueError", "singular"),
        ("cv2.warpAffine(np.zeros((2, 2), dtype='uint8'), np.eye(2, 3), (1, 1), 0)", "ValueError", "INTER_LINEAR"),
    ],
)
def test_what_cannot_be_is_told(vm: Vm, expression: str, kind: str, message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        vm.evaluate(expression)
    assert refused.value.kind == kind


def test_types_are_told_as_numpy_tells_them(vm: Vm) -> None:
    names = ["bool", *INTEGERS, "float32", "float64"]
    found = vm.evaluate(f"[[np.can_cast(getattr(np, a), b) for b in {names}] for a in {names}]")
    assert found == [[np.can_cast(a, b) for b in names] for a in names]
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]
    found = vm.evaluate(f"[[np.isdtype(getattr(np, one), kind) for kind in {kinds}] for one in {names}]")
    assert found == [[np.isdtype(np.dtype(one), kind) for kind in kinds] for one in names]
    assert vm.evaluate("[np.isdtype(np.int8, np.int8), np.isdtype(np.int8, ('bool', np.uint8))]") == [True, False]
    for name, told, asked in (
        *((name, np.iinfo(name), "bits min max") for name in INTEGERS),
        *((name, np.finfo(name), "bits eps min max smallest_normal") for name in ("float32", "float64")),
    ):
        info = type(told).__name__
        found = vm.evaluate(f"[getattr(np.{info}('{name}'), one) for one in '{asked}'.split()]")
        assert found == [float(getattr(told, one)) for one in asked.split()]
    assert vm.evaluate("np.finfo(np.zeros(2)).dtype.name") == "float64"
    assert vm.evaluate("np.result_type(np.zeros(2, dtype='int8'), np.uint8).name") == "int16"


def test_numbers_of_python_take_the_arrays_type(vm: Vm) -> None:
    dtypes = (
        "[str((np.asarray([1], dtype=one) * two).dtype) for one in ('int8', 'uint32', 'float32') for two in (2, 2.0)]"
    )
    assert vm.evaluate(dtypes) == ["int8", "float64", "uint32", "float64", "float32", "float32"]
    assert vm.evaluate("(np.asarray([0.1], dtype='float32') == 0.1).tolist()") == [True]
    assert vm.evaluate("(2 - np.asarray([1, 5])).tolist()") == [1, -3]
    assert vm.evaluate("(np.asarray([200], dtype='uint8') < 300).tolist()") == [True]


def test_arrays_come_from_and_go_to_python(vm: Vm) -> None:
    assert vm.evaluate("np.asarray([[True, False]]).tolist()") == [[True, False]]
    assert vm.evaluate("[np.zeros((2, 0)).tolist(), np.zeros((0, 2)).tolist(), np.asarray(3).tolist()]") == [
        [[], []],
        [],
        3,
    ]
    assert vm.evaluate("np.asarray(memoryview(b'\\x01\\x02')).dtype.name") == "uint8"
    assert vm.evaluate("np.asarray([np.asarray([1, 2]), np.asarray([3, 4])]).tolist()") == [[1, 2], [3, 4]]
    found = vm.evaluate("np.asarray([[1, 2], [3, 4]], dtype=np.float32)")
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 2], [3, 4]]
