"""Narrowing: arrays by property, operators by running them both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.assemble import assemble
from tapml.importing.dtypes import narrow_array
from tapml.importing.fold import fold
from tapml.importing.inputs import RawStep
from tapml.importing.narrow import narrow
from tapml.importing.weights import as_tvm_holds

INT32 = np.iinfo(np.int32)


@given(arrays.arrays(np.int64, arrays.array_shapes(max_dims=3), elements=st.integers(-(2**63), 2**63 - 1)))
def test_integers_keep_their_value_or_are_refused(array: np.ndarray) -> None:
    sentinels = {-(2**63), -(2**63) + 1, 2**63 - 1}
    fits = (array >= INT32.min) & (array <= INT32.max)
    if all(int(value) in sentinels for value in array[~fits]):
        result, note = narrow_array(array, "t")
        assert result.dtype == np.int32
        assert result.shape == array.shape
        np.testing.assert_array_equal(result[fits], array[fits])
        assert (note is None) == bool(fits.all())
    else:
        with pytest.raises(InputError, match="t: the value"):
            narrow_array(array, "t")


@given(arrays.arrays(np.float64, arrays.array_shapes(max_dims=2), elements=st.floats()))
def test_floats_round_or_are_refused(array: np.ndarray) -> None:
    try:
        result, _ = narrow_array(array, "t")
    except InputError:
        assert (np.abs(array[np.isfinite(array)]) > np.finfo(np.float32).max).any()
        return
    # Finite stays finite: a mask of -1.8e308 must not become an infinity.
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(array))
    small = np.abs(array) < 1e38
    np.testing.assert_array_equal(result[small], array[small].astype(np.float32))


@pytest.mark.parametrize("shape", [(3, 200), (130, 65), (128, 256)])
def test_what_is_transposed_lies_row_by_row_and_is_copied_once(shape: tuple[int, int]) -> None:
    array = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape).T
    found, note = narrow_array(array, "w")
    assert note is None
    assert found.flags.c_contiguous
    assert np.array_equal(found, array)
    if min(shape) > 64:
        assert as_tvm_holds(found) is found


@given(arrays.arrays(np.bool_, arrays.array_shapes(max_dims=2)))
def test_bool_becomes_zero_and_one(array: np.ndarray) -> None:
    result, note = narrow_array(array, "t")
    assert result.dtype == np.int32
    assert note is None
    np.testing.assert_array_equal(result, array)


def run(
    evaluate: Callable[..., list[np.ndarray]],
    inputs: dict[str, np.ndarray],
    body: Callable[..., Any],
) -> np.ndarray:
    """The value of `body` (from Relax variables to an expression) after an import."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(n, relax.TensorType(a.shape, str(a.dtype))) for n, a in inputs.items()]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(body(*variables)))
        builder.emit_func_output(result)
    model = assemble(
        builder.finalize(),
        tensors=[],
        steps=[RawStep("test", inputs, synthetic=True)],
        expected=None,
        outputs=["y"],
        oracle=None,
        oracle_missing="a test",
        provenance={},
    )
    (array,) = evaluate(model)
    return array


BITS = np.array([[True, False, True], [False, False, True]])
NUMBERS = np.array([[3, -1, 7], [0, 2, -5]], np.int64)
CASES: list[tuple[str, Callable[..., Any], Callable[..., np.ndarray]]] = [
    ("bitwise_not", lambda m, x: op.bitwise_not(m), lambda m, x: ~m),
    (
        "logical_and",
        lambda m, x: op.logical_and(m, op.greater(x, relax.const(0, "int64"))),
        lambda m, x: m & (x > 0),
    ),
    ("cast to bool", lambda m, x: op.astype(x, "bool"), lambda m, x: x != 0),
    ("cast from bool", lambda m, x: op.astype(m, "float32"), lambda m, x: m * 1.0),
    ("any", lambda m, x: op.max(op.astype(m, "int8"), axis=-1), lambda m, x: m.any(-1)),
    ("where", lambda m, x: op.where(m, x, op.negative(x)), lambda m, x: np.where(m, x, -x)),
    ("where of bool", lambda m, x: op.where(m, m, op.logical_not(m)), lambda m, x: m | ~m),
    ("concat of bool", lambda m, x: op.concat([m, m], axis=0), lambda m, x: np.concatenate([m, m])),
    ("add of bool", lambda m, x: op.add(m, m), lambda m, x: m),
    ("floor_divide", lambda m, x: op.floor_divide(x, relax.const(2, "int64")), lambda m, x: x // 2),
    (
        "divided by zero",
        lambda m, x: op.divide(op.astype(x, "float32"), relax.const(0.0)),
        lambda m, x: np.float32([[np.inf, -np.inf, np.inf], [np.nan, np.inf, -np.inf]]),
    ),
    ("sum", lambda m, x: op.sum(x, axis=1), lambda m, x: x.sum(1)),
    (
        "half-open clip",
        lambda m, x: op.clip(op.astype(x, "float32"), 0, np.inf),
        lambda m, x: x.clip(0),
    ),
    ("argmax", lambda m, x: op.argmax(x, axis=1), lambda m, x: x.argmax(1)),
    (
        "argmin of all",
        lambda m, x: op.argmin(x, keepdims=True),
        lambda m, x: x.argmin(keepdims=True),
    ),
    ("cumsum", lambda m, x: op.cumsum(x, axis=1), lambda m, x: x.cumsum(1)),
    ("sort", lambda m, x: op.sort(x, axis=1), lambda m, x: np.sort(x, 1)),
    (
        "argsort",
        lambda m, x: op.argsort(x, axis=0, descending=True),
        lambda m, x: np.argsort(-x, 0, kind="stable"),
    ),
    (
        "topk",
        lambda m, x: op.topk(x, 2, axis=1, ret_type="values"),
        lambda m, x: -np.sort(-x, 1)[:, :2],
    ),
    (
        "take",
        lambda m, x: op.take(x, relax.const(np.array([1, 0, 1]), "int64"), axis=0),
        lambda m, x: x[[1, 0, 1]],
    ),
    (
        "gather_elements",
        lambda m, x: op.gather_elements(x, op.astype(m, "int64"), axis=0),
        lambda m, x: np.take_along_axis(x, m * 1, 0),
    ),
    (
        "gather_nd",
        lambda m, x: op.gather_nd(x, op.astype(op.strided_slice(m, [1], [0], [2]), "int64")),
        lambda m, x: x[tuple((m[:, :2] * 1).T)],
    ),
]


@pytest.mark.parametrize(("body", "wanted"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_operators_mean_the_same(
    evaluate: Callable[..., list[np.ndarray]],
    body: Callable[..., Any],
    wanted: Callable[..., np.ndarray],
) -> None:
    result = run(evaluate, {"m": BITS, "x": NUMBERS}, body)
    assert result.dtype in (np.int32, np.float32)
    np.testing.assert_array_equal(result, wanted(BITS, NUMBERS))


@settings(max_examples=15, deadline=None)
@given(arrays.arrays(np.float32, (3, 5), elements=st.sampled_from([-np.inf, -2.0, 0.0, 1.0, np.inf])))
def test_ties_and_infinities(array: np.ndarray) -> None:
    """First of equals wins, as in numpy; isinf needs no infinity in the kernel's text."""
    x = relax.Var("x", relax.TensorType((3, 5), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            best = builder.emit(op.argmax(x, axis=1))
            infinite = builder.emit(op.isinf(x))
            result = builder.emit_output(relax.Tuple([best, infinite]))
        builder.emit_func_output(result)
    model = assemble(
        builder.finalize(),
        tensors=[],
        steps=[RawStep("test", {"x": array}, synthetic=True)],
        expected=None,
        outputs=["best", "infinite"],
        oracle=None,
        oracle_missing="a test",
        provenance={},
    )
    assert "inf" not in model.module.script().replace("isinf", "").replace("infinite", "")
    executable = relax.build(model.module, tvm.target.Target("llvm"))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    best_place, is_infinite = machine["main"](tvm.runtime.tensor(array))
    np.testing.assert_array_equal(best_place.numpy(), array.argmax(1))
    np.testing.assert_array_equal(is_infinite.numpy(), np.isinf(array))


@pytest.mark.parametrize("exponent", [2.0, 3.0, 4.0])
def test_powers_of_negative_numbers_are_products(evaluate: Callable[..., list[np.ndarray]], exponent: float) -> None:
    """RMS normalisation squares with pow, GELU cubes: WGSL's pow promises nothing for a negative base."""
    x = np.array([-1.5, 0.0, 2.5], np.float32)
    seen: list[str] = []

    def inspect(model: Any) -> list[np.ndarray]:
        seen.append(model.module.script())
        return evaluate(model)

    result = run(inspect, {"x": x}, lambda x: op.power(x, relax.const(exponent, "float32")))
    assert "power" not in seen[0]
    np.testing.assert_allclose(result, x**exponent, rtol=1e-6)


def test_large_constants_stay_kernels(evaluate: Callable[..., list[np.ndarray]]) -> None:
    """A causal mask is made of large repetitions, of an infinity and of a bool."""

    def body(x: Any) -> Any:
        low = op.triu(op.full((300, 300), relax.const(-np.inf, "float32"), "float32"), 1)
        all_true = op.full((300, 300), relax.const(True, "bool"), "bool")
        return op.where(all_true, op.add(x, low), x)

    x = np.ones((300, 300), np.float32)
    result = run(evaluate, {"x": x}, body)
    np.testing.assert_array_equal(result, x + np.triu(np.full((300, 300), -np.inf), 1))


LOWEST = np.finfo(np.float32).min


def test_masks_of_the_lowest_number_are_added_without_overflow(evaluate: Callable[..., list[np.ndarray]]) -> None:
    """For softmax, which makes the same of it; for whoever else reads the sum it stays what it is."""

    def masked(m: Any, x: Any) -> Any:
        zero, low = (relax.const(value, "float32") for value in (0.0, LOWEST))
        return op.add(op.where(m, x, low), op.where(op.greater(x, relax.const(-1.0)), zero, low))

    notes: list[list[str]] = []

    def noted(model: Any) -> list[np.ndarray]:
        notes.append(model.provenance["notes"])
        return evaluate(model)

    numbers = NUMBERS.astype(np.float32)
    given = {"m": BITS, "x": numbers}
    with np.errstate(over="ignore"):
        total = np.where(BITS, numbers, LOWEST) + np.where(numbers > -1, np.float32(0), LOWEST)
    weights = np.exp(total - total.max(axis=1, keepdims=True))
    result = run(noted, given, lambda m, x: op.nn.softmax(op.expand_dims(masked(m, x), [0])))
    np.testing.assert_allclose(result[0], weights / weights.sum(axis=1, keepdims=True), rtol=1e-6)
    assert "limited to half of the lowest number" in notes[0][-1]
    np.testing.assert_array_equal(run(noted, given, masked), total)
    assert np.isneginf(total).any()
    assert "limited" not in " ".join(notes[1])


def test_a_weight_that_must_not_be_read_is_no_mask() -> None:
    """Its memory need not exist: to look through that of a 7B for the lowest number took a sixth of the whole build."""
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    masks = [relax.const(np.full((2, 3), LOWEST, np.float32)) for _ in range(2)]
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            rows = [builder.emit(op.where(op.greater(x, relax.const(0.0)), x, mask)) for mask in masks]
            result = builder.emit_output(op.nn.softmax(builder.emit(op.add(*rows))))
        builder.emit_func_output(result)
    module = builder.finalize()
    addresses = {np.from_dlpack(mask.value).ctypes.data for mask in masks}
    assert any("limited to half" in note for note in narrow(fold(module), ()).notes)
    assert narrow(fold(module), (), addresses).notes == []


def test_masks_in_a_kernel_of_too_many_tensors_are_in_no_buffer_of_bools(
    evaluate: Callable[..., list[np.ndarray]],
) -> None:
    inputs = {f"x{number}": np.full(3, number, np.int64) for number in range(14)}

    def body(*tensors: Any) -> Any:
        found = tensors[0]
        for number, tensor in enumerate(tensors[1:], 1):
            found = op.where(op.equal(tensor, relax.const(number % 5, "int64")), tensor, found)
        return found

    np.testing.assert_array_equal(run(evaluate, inputs, body), [4, 4, 4])


def test_branch_on_data_is_refused(evaluate: Callable[..., list[np.ndarray]]) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    with builder.function("main", [x]):
        positive = builder.emit(op.greater(op.sum(x), relax.const(0.0)))
        branches = [relax.SeqExpr([], value) for value in (x, op.negative(x))]
        builder.emit_func_output(builder.emit(relax.If(positive, *branches)))
    with pytest.raises(InputError, match="branches on its input's values"):
        assemble(
            builder.finalize(),
            tensors=[],
            steps=[RawStep("test", {"x": np.ones(2, np.float32)}, synthetic=True)],
            expected=None,
            outputs=["y"],
            oracle=None,
            oracle_missing=None,
            provenance={},
        )
