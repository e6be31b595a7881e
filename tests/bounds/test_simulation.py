"""Simulated rounding explains float32 arithmetic, in any order, and no fault that hides inside the bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rounding_device import lowered
from tvm import relax

from tapml.bounds import Operator, Simulated, simulate
from tapml.bounds.simulation import SUSPICIOUS_TIMES
from tapml.lowering.write import program_of
from tapml.platforms.reference import Reference, to_numpy

op, f32 = relax.op, np.float32
Arrays = list[np.ndarray]
Kernel = Callable[..., np.ndarray]


def one_after_the_other(terms: np.ndarray) -> np.ndarray:
    """A float32 sum over the last axis as a loop makes it."""
    return np.cumsum(terms, axis=-1, dtype=f32)[..., -1:]


def group_norm(x: np.ndarray, epsilon: float) -> np.ndarray:
    """Of all elements of a row."""
    terms = f32(x.shape[-1])
    centred = x - one_after_the_other(x) / terms
    variance = one_after_the_other(centred * centred) / terms
    return centred * (f32(1) / np.sqrt(variance + f32(epsilon)))


def gelu(x: np.ndarray, cubic: float) -> np.ndarray:
    inner = f32(0.7978846) * (x + f32(cubic) * x * x * x)
    return f32(0.5) * x * (f32(1) + np.tanh(inner))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / one_after_the_other(e)


def rms_norm(x: np.ndarray, w: np.ndarray, epsilon: float) -> np.ndarray:
    square = one_after_the_other(x * x) / f32(x.shape[-1])
    return x * (f32(1) / np.sqrt(square + f32(epsilon))) * w


def product(a: np.ndarray, b: np.ndarray, terms: int | None = None) -> np.ndarray:
    return one_after_the_other((a[:, None, :] * b.T[None])[..., :terms])[..., 0]


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Arrays:
    random = np.random.default_rng(11)
    return [(scale * random.standard_normal(shape)).astype(f32) for shape in shapes]


CASES: dict[str, tuple[Callable[..., Any], Arrays, Kernel, Kernel | None]] = {
    # name: the operator, its inputs, a device that is right, and one with a fault that hides inside the bound
    "group norm of 1188 terms": (
        lambda _, x, w, b: op.nn.layer_norm(x, w, b, axes=[-1], epsilon=1e-5),
        [*normal((8, 1188)), np.ones(1188, f32), np.zeros(1188, f32)],
        lambda x, *_: group_norm(x, 1e-5),
        lambda x, *_: group_norm(x, 1e-6),
    ),
    # The sums of x and of x * x are one block.
    "group norm of 1188 terms in one pass": (
        lambda _, x, w, b: op.nn.group_norm(x, w, b, num_groups=2, channel_axis=1, axes=[2, 3], epsilon=1e-5),
        [*normal((1, 24, 9, 11)), np.ones(24, f32), np.zeros(24, f32)],
        lambda x, *_: group_norm(x.reshape(2, 1188), 1e-5).reshape(x.shape),
        lambda x, *_: group_norm(x.reshape(2, 1188), 1e-6).reshape(x.shape),
    ),
    "RMS norm": (
        lambda _, x, w: op.nn.rms_norm(x, w, axes=[-1], epsilon=1e-5),
        normal((8, 64), (64,), scale=2.0),
        lambda x, w: rms_norm(x, w, 1e-5),
        lambda x, w: rms_norm(x, w, 1e-6),
    ),
    "GELU": (
        lambda _, x: op.nn.gelu_tanh(x),
        normal((4, 256)),
        lambda x: gelu(x, 0.044715),
        lambda x: gelu(x, 0.0447),
    ),
    "softmax": (lambda _, x: op.nn.softmax(x), normal((4, 64)), softmax, None),
    "sigmoid": (lambda _, x: op.sigmoid(x), normal((512,)), lambda x: f32(1) / (f32(1) + np.exp(-x)), None),
    "log": (lambda _, x: op.log(x), [np.abs(*normal((512,)))], np.log, None),
    "square root": (lambda _, x: op.sqrt(x), [np.abs(*normal((512,)))], np.sqrt, None),
    "cosine": (lambda _, x: op.cos(x), normal((512,)), np.cos, None),
    "mean of few": (lambda _, x: op.mean(x, axis=[-1]), normal((1, 9)), lambda x: x.mean(-1, dtype=f32), None),
}


def simulated(function: Callable[..., Any], inputs: Arrays) -> tuple[Simulated, np.ndarray]:
    """Of a single kernel, and what the reference gives."""
    found = lowered(function, *((array.shape, str(array.dtype)) for array in inputs))
    (node,) = found.graph.kernel_nodes
    platform = Reference(found)
    types = [found.graph.values[value].type for value in node.outputs]
    tensors = [platform.tensor(array) for array in inputs]
    (result,) = platform.call(node.kernel, tensors[: len(node.inputs)], types)
    expected = to_numpy(result, types[0].dtype)
    program = program_of(node.kernel, found.programs[node.kernel])
    (bound,) = Operator(program).bounds(inputs, [expected])
    assert bound.bound is not None
    (simulation,) = simulate(program, inputs, [expected], [bound.bound])
    assert simulation is not None
    return simulation, expected


@pytest.mark.parametrize("name", CASES)
def test_rounding_is_explained_and_a_hidden_fault_is_not(name: str) -> None:
    function, inputs, right, wrong = CASES[name]
    simulation, expected = simulated(function, inputs)
    assert simulation.times(expected) < 1.2
    assert simulation.times(right(*inputs)) < 2.0
    if wrong is not None:
        got = wrong(*inputs)
        assert simulation.used(got) < 1, "no fault that hides"
        assert simulation.times(got) > SUSPICIOUS_TIMES


@pytest.mark.parametrize("terms", [16, 600])
def test_a_product_in_any_order(terms: int) -> None:
    a, b = normal((5, terms), (terms, 7))
    simulation, _ = simulated(lambda _, x, y: op.matmul(x, y), [a, b])
    random = np.random.default_rng(3)
    for _ in range(5):
        order = random.permutation(terms)
        assert simulation.times(product(a[:, order], b[order])) < 2.0
    assert simulation.times(a @ b) < 2.0  # in blocks


def test_equal_terms_round_alike_here_and_there() -> None:
    """A third, 3000 times: each partial sum is off in the same direction. The reference is so, too."""
    x = np.full((2, 3000), 1 / 3, f32)
    simulation, expected = simulated(lambda _, x: op.sum(x, axis=[-1]), [x])
    assert simulation.times(one_after_the_other(x)[..., 0]) < 2.0
    assert simulation.times(expected) < 2.0


def test_a_simulation_is_the_same_every_time() -> None:
    function, inputs, right, _ = CASES["GELU"]
    first, second = (simulated(function, inputs)[0] for _ in range(2))
    assert first.times(right(*inputs)) == second.times(right(*inputs))
    assert first.share == second.share


def test_what_has_no_bound_or_takes_too_long_is_not_simulated() -> None:
    inputs = normal((4, 4), (4, 4))
    found = lowered(lambda _, x, y: op.matmul(x, y), *(((4, 4), "float32"),) * 2)
    (node,) = found.graph.kernel_nodes
    program = program_of(node.kernel, found.programs[node.kernel])
    assert simulate(program, inputs, [inputs[0]], [None]) == [None]
