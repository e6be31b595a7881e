"""Calls that are evaluated together have the bounds that each has alone, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rounding_device import operator
from tvm import relax

from tapml.bounds import Bound, NotDerivable, stacked
from tapml.bounds.contraction import Product
from tapml.bounds.derive import Operator
from tapml.bounds.program import Run
from tapml.bounds.stacked import Call

op = relax.op

SIZE = 40
INFO = np.finfo(np.float32)


def _gates(_: Any, x: Any, state: Any) -> Any:
    """A step of a recurrence."""
    gates = [op.strided_slice(x, [1], [SIZE * n], [SIZE * (n + 1)]) for n in range(3)]
    kept = op.multiply(op.sigmoid(gates[0]), state)
    return op.add(kept, op.multiply(op.sigmoid(gates[1]), op.tanh(op.maximum(gates[2], state))))


def _functions(_: Any, x: Any, y: Any) -> Any:
    square = op.multiply(x, x)
    found = op.divide(op.subtract(op.exp(x), y), op.sqrt(op.add(square, op.abs(y))))
    return op.add(op.erf(found), op.multiply(op.log(square), op.rsqrt(square)))


def _chains(_: Any, x: Any, y: Any) -> Any:
    """Sums and products that a device may take in any order."""
    total = op.add(op.subtract(x, y), relax.const(1.5, "float32"))
    return op.add(op.add(total, op.multiply(op.multiply(x, x), y)), op.negative(op.add(total, x)))


def _recurrent(_: Any, state: Any, weights: Any, x: Any) -> Any:
    return op.tanh(op.add(op.matmul(state, weights), x))


def _arrays(random: np.random.Generator, *shape: int) -> list[np.ndarray]:
    """Of every kind: numbers, zeros, subnormal numbers, what has no bound, and all of them in one."""
    plain = random.standard_normal(shape).astype(np.float32)
    found = [plain, plain * 0, plain * 30, np.float32(INFO.smallest_subnormal) * (plain > 0), plain * 0 + 1]
    for number in (0.0, -0.0, 1.0, INFO.tiny / 4, INFO.max, np.inf, -np.inf, np.nan):
        array = random.standard_normal(shape).astype(np.float32)
        array.reshape(-1)[random.integers(array.size, size=3)] = number
        found.append(array)
    return found


def _calls(of: Operator, inputs: list[list[np.ndarray]]) -> list[Call]:
    runs = [Run(of._program, given, of._functions) for given in inputs]
    return [(given, [o.value.astype(np.float32) for o in run.outputs]) for given, run in zip(inputs, runs, strict=True)]


def _same(one: Bound, other: Bound) -> bool:
    bits = [None if found.bound is None else found.bound.tobytes() for found in (one, other)]
    return bits[0] == bits[1] and repr(one.absolute) == repr(other.absolute) and one.reasons == other.reasons


def _check(of: Operator, inputs: list[list[np.ndarray]]) -> None:
    with np.errstate(all="ignore"):
        calls = _calls(of, inputs)
        alone = [of.bounds(*call) for call in calls]
        together = of.of_calls(calls)
    assert len(together) == len(calls)
    for number, (ones, others) in enumerate(zip(alone, together, strict=True)):
        assert all(_same(*pair) for pair in zip(ones, others, strict=True)), number


@pytest.mark.parametrize("function", [_gates, _functions, _chains])
def test_element_by_element(random: np.random.Generator, function: Any) -> None:
    shapes = [(1, 3 * SIZE), (1, SIZE)] if function is _gates else [(2, 1, SIZE), (3, 1)]
    of = operator(function, *((shape, "float32") for shape in shapes))
    kinds = [_arrays(random, *shape) for shape in shapes]
    inputs = [[a, kinds[1][(place + turn) % len(kinds[1])]] for turn in (0, 1, 5) for place, a in enumerate(kinds[0])]
    # Several calls of one kind, too.
    inputs += [[random.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(9)]
    _check(of, inputs)


def test_products_with_weights_that_all_share(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    of = operator(_recurrent, *((shape, "float32") for shape in ((1, 128), (128, 160), (1, 160))))
    both = [random.standard_normal((128, 160)).astype(np.float32) for _ in range(2)]
    states = [*_arrays(random, 1, 128), *(random.standard_normal((1, 128)).astype(np.float32) for _ in range(9))]
    inputs = [[state, weights, random.standard_normal((1, 160)).astype(np.float32)] for state in states
              for weights in both]  # fmt: skip
    _check(of, inputs)
    # As large matrices are cut.
    monkeypatch.setattr("tapml.bounds.blocks.POINTS", 1 << 10)
    _check(of, inputs)


def test_how_many_are_evaluated_together(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    of = operator(_gates, ((1, 3 * SIZE), "float32"), ((1, SIZE), "float32"))
    inputs = [[random.standard_normal((1, 3 * SIZE)).astype(np.float32), np.ones((1, SIZE), np.float32)]
              for _ in range(7)]  # fmt: skip
    calls = _calls(of, inputs)
    assert stacked.alike(of._program, calls) == [[*range(7)]]
    monkeypatch.setattr(stacked, "_MOST", 3 * 3 * SIZE)
    assert stacked.alike(of._program, calls) == [[0, 1, 2], [3, 4, 5], [6]]
    _check(of, inputs)
    assert of.of_calls([]) == []


@pytest.mark.parametrize(
    "function",
    [
        lambda _, x: op.nn.softmax(x),
        lambda _, x: op.sum(x, axis=[1]),
        lambda _, x: op.floor(x),
        lambda _, x: op.astype(op.multiply(x, x), "int32"),
    ],
    ids=["softmax", "sum", "floor", "cast"],
)
def test_others_are_evaluated_one_by_one(random: np.random.Generator, function: Any) -> None:
    of = operator(function, ((1, SIZE), "float32"))
    array = random.standard_normal((1, SIZE)).astype(np.float32)
    with pytest.raises(NotDerivable, match="one by one"):
        of.of_calls([([array], [array])] * 4)


def test_products_of_each_call_round_as_alone(random: np.random.Generator) -> None:
    a, b = random.standard_normal((9, 1, 1, 300)), random.standard_normal((1, 1, 70, 300))
    alone = np.concatenate([Product(one[None], b, (1, 1, 70, 300), (3,)).sum() for one in a])
    assert np.array_equal(Product(a, b, (9, 1, 70, 300), (3,), 0).sum(), alone)
    assert np.array_equal(Product(b, b, (9, 1, 70, 300), (3,), 0).sum(), Product(b, b, (1, 1, 70, 300), (3,)).sum())
    with pytest.raises(NotDerivable, match="no matrix products"):
        Product(a, np.ones((1, 1, 70, 1)), (9, 1, 70, 300), (3,), 0)
