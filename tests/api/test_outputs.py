"""Outputs that no kernel writes, and tensors in several places of one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from executing_runner import ExecutingRunner, kernels_of
from tvm import relax

import tapml as tml

op = relax.op
X = np.arange(1, 7, dtype=np.float32)


def several(build: Callable[..., Any]) -> tvm.IRModule:
    """f(x: float32[6]) -> what `build` gives, a tuple too."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((6,), "float32"))
    with builder.function("f", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(builder, x))
        builder.emit_func_output(out)
    return builder.finalize()


def with_views(builder: Any, x: Any) -> Any:
    doubled = builder.emit(op.add(x, x))
    return relax.Tuple([op.reshape(doubled, (2, 3)), doubled, op.reshape(x, (3, 2)), doubled])


CASES: dict[str, Callable[..., Any]] = {
    "an input": lambda builder, x: x,
    "a constant": lambda builder, x: relax.const(X, "float32"),
    "a view of an input": lambda builder, x: op.reshape(x, (2, 3)),
    "a view of a sum": lambda builder, x: op.reshape(op.add(x, x), (2, 3)),
    "one sum in many ways": with_views,
    "an input and a sum": lambda builder, x: relax.Tuple([x, op.add(x, x)]),
}


@pytest.fixture
def runner() -> ExecutingRunner:
    return ExecutingRunner()


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_tensors_of_their_own(runner: ExecutingRunner, case: str) -> None:
    module = several(CASES[case])
    runner.kernels |= kernels_of(tml.compile(module), "f")
    results = []
    for device in (tml.cpu(), runner.device):
        f = tml.upload(tml.compile(module, device), device)["f"]
        x = tml.tensor(X, device)
        outputs = [tml.allocate(kind.shape, kind.dtype, device) for kind in f.outputs]
        f(x, *outputs)
        results.append([output.numpy() for output in outputs])
        # Each may be written to without a change of another.
        for number, output in enumerate(outputs):
            overwrite = tml.upload(tml.compile(several(lambda b, x: op.multiply(x, x)), device), device)["f"]
            if output.shape == (6,):
                runner.kernels |= kernels_of(tml.compile(several(lambda b, x: op.multiply(x, x))), "f")
                overwrite(x, output)
                for other, before in zip(outputs[number + 1 :], results[-1][number + 1 :], strict=True):
                    np.testing.assert_array_equal(other.numpy(), before)
        np.testing.assert_array_equal(x.numpy(), X)
    for local, remote in zip(*results, strict=True):
        np.testing.assert_array_equal(remote, local)


def test_an_input_may_be_the_output(runner: ExecutingRunner) -> None:
    module = several(lambda builder, x: op.add(x, x))
    runner.kernels |= kernels_of(tml.compile(module), "f")
    f = tml.upload(tml.compile(module, runner.device), runner.device)["f"]
    x = tml.tensor(X, runner.device)
    f(x, x)
    np.testing.assert_array_equal(x.numpy(), 2 * X)
    call = next(command for commands in runner.messages for command in commands if command["op"] == "call")
    *read, written = call["arguments"]
    assert written not in read, "WebGPU refuses a buffer that one dispatch reads and writes"


def test_two_outputs_may_be_one_tensor(runner: ExecutingRunner) -> None:
    module = several(lambda builder, x: relax.Tuple([op.add(x, x), op.multiply(x, x)]))
    runner.kernels |= kernels_of(tml.compile(module), "f")
    results = []
    for device in (tml.cpu(), runner.device):
        f = tml.upload(tml.compile(module, device), device)["f"]
        y = tml.allocate((6,), "float32", device)
        f(tml.tensor(X, device), y, y)
        results.append(y.numpy())
    np.testing.assert_array_equal(*results)
