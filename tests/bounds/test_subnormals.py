"""Numbers below the least normal one, which a device may take for zero where it compares them, and not where it moves
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rounding_device import lowered
from tvm import relax

from tapml.compare.operators import OperatorTolerances
from tapml.lowering.write import program_of
from tapml.operators.numerics import numerics
from tapml.suite import TensorRef, Tolerance

op = relax.op
X = np.array([1.5, -3e-39, 2e-40, 1e-38, -1.5, 0.0], np.float32)
Y = np.array([0.5, 4e-40, -1e-39, 0.75, 2e-40, -2e-39], np.float32)


def _tolerance(function: Callable[..., Any], *inputs: np.ndarray) -> tuple[Tolerance, dict[str, np.ndarray]]:
    model = lowered(function, *((array.shape, str(array.dtype)) for array in inputs))
    (name,) = model.graph.kernels
    program = program_of(name, model.programs[name])
    put: dict[str, np.ndarray] = {}

    def keep(array: np.ndarray) -> TensorRef:
        put["bound"] = array
        return TensorRef("0" * 64, str(array.dtype), array.shape)

    tolerances = OperatorTolerances(program, (), keep, numerics(program))
    expected = np.where(X < Y, X, Y) if len(inputs) > 1 else inputs[0][::-1]
    (found,) = tolerances.of_call(inputs, [expected], lambda _: [])
    return found, put


def test_a_choice_by_comparing_subnormal_numbers_may_be_either() -> None:
    found, put = _tolerance(lambda b, x, y: op.where(b.emit(op.less(x, y)), x, y), X, Y)
    expected, flushed = np.where(X < Y, X, Y), [np.where(np.abs(a) < 2.0**-126, 0, a) for a in (X, Y)]
    other = np.where(flushed[0] < flushed[1], X, Y)
    assert (other != expected).any()
    assert (np.abs(other - expected) <= put["bound"]).all()
    assert (np.abs(np.minimum(*flushed) - expected) <= put["bound"]).all()
    assert found.absolute < 2.0**-125
    assert put["bound"][0] == put["bound"][4] == 0, "normal numbers are chosen exactly"


@pytest.mark.parametrize("inputs", [(np.abs(X) + 1, Y + 1), (X,)], ids=["normal numbers", "moved"])
def test_others_are_exact(inputs: tuple[np.ndarray, ...]) -> None:
    def function(b: Any, x: Any, *others: Any) -> Any:
        return op.where(b.emit(op.less(x, others[0])), x, others[0]) if others else op.flip(x, 0)

    found, put = _tolerance(function, *inputs)
    assert (found.absolute, found.relative, put) == (0.0, 0.0, {})
