"""Convolutions by Winograd's F(2x2, 3x3) are inside, wrong ones outside, and other sums keep the bounds they had."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rounding_device import lowered
from tvm import relax

from tapml.bounds import Bound, Operator, program, rounded, simulate
from tapml.bounds.simulation import SUSPICIOUS_TIMES
from tapml.lowering.write import program_of
from tapml.operators.program import OperatorProgram

op, f32 = relax.op, np.float32

# Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.1.
TO_IMAGE = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], f32)
TO_WEIGHTS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], f32)
TO_OUTPUT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], f32)


def transformed(matrix: np.ndarray, array: np.ndarray) -> np.ndarray:
    """matrix * array * transposed matrix of the last two axes, each sum one term after the other."""
    for axis in (-2, -1):
        lines = np.moveaxis(array, axis, 0)
        terms = [[factor * line for factor, line in zip(row, lines, strict=True) if factor] for row in matrix]
        array = np.moveaxis(np.stack([functools.reduce(np.add, row) for row in terms]), 0, axis)
    return array


def winograd(x: np.ndarray, w: np.ndarray, padding: int = 1) -> np.ndarray:
    """[n, c, y, x] and [f, c, 3, 3]; all of it in float32, but of float16 what is multiplied, and the result."""
    if x.dtype == np.float16:
        return _winograd(x.astype(f32), w.astype(f32), padding, halved=True).astype(np.float16)
    return _winograd(x, w, padding, halved=False)


def _winograd(x: np.ndarray, w: np.ndarray, padding: int, *, halved: bool) -> np.ndarray:
    height, width = (extent + 2 * padding - 2 for extent in x.shape[2:])
    rest = [(padding, padding + extent % 2) for extent in (height, width)]
    image = np.pad(x, [(0, 0), (0, 0), *rest])
    squares = np.lib.stride_tricks.sliding_window_view(image, (4, 4), axis=(2, 3))[:, :, ::2, ::2]
    v, u = transformed(TO_IMAGE, squares), transformed(TO_WEIGHTS, w)
    if halved:
        v, u = (4 * (v / 4).astype(np.float16).astype(f32)), u.astype(np.float16).astype(f32)
    channels = (v[:, None, c] * u[None, :, c, None, None] for c in range(x.shape[1]))
    found = transformed(TO_OUTPUT, functools.reduce(np.add, channels))
    n, f, rows, columns = found.shape[:4]
    assert found.dtype == f32
    return found.transpose(0, 1, 2, 4, 3, 5).reshape(n, f, 2 * rows, 2 * columns)[:, :, :height, :width]


def convolution(inputs: list[np.ndarray], **options: Any) -> OperatorProgram:
    convolve = options.pop("of", op.nn.conv2d)
    types = [(array.shape, str(array.dtype)) for array in inputs]
    found = lowered(lambda _, x, w: convolve(x, w, **options), *types)
    (name,) = found.graph.kernels
    return program_of(name, found.programs[name])


def bounded(inputs: list[np.ndarray], **options: Any) -> tuple[Bound, np.ndarray]:
    """The bound, and the result: rounded once, as none is better."""
    found = convolution(inputs, **options)
    dtype = options.get("out_dtype", inputs[0].dtype)
    expected = [array.astype(dtype) for array in rounded(found, inputs, None)]
    return Operator(found).bounds(inputs, expected)[0], expected[0]


def share(got: np.ndarray, bound: Bound, expected: np.ndarray) -> float:
    """Of their bounds, the largest that an element uses; Infinity where one without an error may have none."""
    assert bound.bound is not None
    error = np.abs(got.astype(np.float64) - expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(error > 0, error / bound.bound, 0.0)))


def without_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "windows_of", lambda *_: None)


def dense(random: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    return random.standard_normal((2, channels, 13, 14)), random.standard_normal((6, channels, 3, 3))


def in_blocks(random: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of 4x4 of the image are zeros, nine of ten."""
    x, w = dense(random, channels)
    kept = np.kron(random.random((*x.shape[:2], 4, 4)) > 0.9, np.ones((4, 4)))
    return x * kept[:, :, : x.shape[2], : x.shape[3]], w


def pruned(random: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """So are nine of ten weights."""
    x, w = in_blocks(random, channels)
    return x, w * (random.random(w.shape) > 0.9)


def alone(random: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Few elements of a single channel."""
    x, w = dense(random, channels)
    kept = random.random(x.shape) > 0.9
    kept[:, 1:] = False
    return x * kept, w


def of_all_sizes(random: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the image and of the weights."""
    x, w = dense(random, channels)
    return x * 10.0 ** random.uniform(-5, 5, x.shape), w * 10.0 ** random.uniform(-5, 5, w.shape)


def at_the_edge(random: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """The image's first row meets large weights in no window of the output."""
    x, w = dense(random, channels)
    x[:, :, 1:] = 0
    w[:, :, 2] *= 1e4
    return x, w


def edges(random: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights that look for edges, of an image that is zero here and there."""
    x, w = in_blocks(random, channels)
    return x * (random.random(x.shape) > 0.9), w * np.array([1, 0, 0])


CASES: dict[str, tuple[Callable[..., tuple[np.ndarray, np.ndarray]], bool]] = {
    # name: the image and the weights, and whether sums as they are written explain what Winograd's round
    "dense": (dense, True),
    "blocks": (in_blocks, True),
    "blocks, pruned": (pruned, False),
    "alone": (alone, False),
    "of all sizes": (of_all_sizes, False),
    "at the edge": (at_the_edge, False),
    "edges": (edges, False),
}


@pytest.mark.parametrize("channels", [8, 32])
@pytest.mark.parametrize("name", CASES)
def test_winograd_is_inside(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, name: str, channels: int
) -> None:
    make, explained = CASES[name]
    inputs = [array.astype(f32) for array in make(random, channels)]
    got = winograd(*inputs)
    assert share(got, *bounded(inputs, padding=1)) < 0.5
    without_windows(monkeypatch)
    assert (share(got, *bounded(inputs, padding=1)) < 1) is explained


def halved(name: str, random: np.random.Generator, channels: int) -> list[np.ndarray]:
    """Of which no sum is too large."""
    return [(array * (12 / np.abs(array).max())).astype(np.float16) for array in CASES[name][0](random, channels)]


@pytest.mark.parametrize("channels", [8, 32])
@pytest.mark.parametrize("name", CASES)
def test_winograd_of_float16_is_inside_and_not_suspicious(
    random: np.random.Generator, name: str, channels: int
) -> None:
    inputs = halved(name, random, channels)
    got, of = winograd(*inputs), bounded(inputs, padding=1)
    assert 0.001 < share(got, *of) < 0.5
    assert simulated(inputs, *of).times(got) < 2.0


@pytest.mark.parametrize("size", [2.0**-12, 2.0**-18])
def test_numbers_that_float16_has_no_normal_one_for(random: np.random.Generator, size: float) -> None:
    """Of which an implementation may make zeros."""
    x, w = (array.astype(np.float16) for array in dense(random, 16))
    inputs = [(x * size).astype(np.float16), (w * 64).astype(np.float16)]
    flushed = inputs[0] * (np.abs(inputs[0]) >= np.finfo(np.float16).tiny)
    of = bounded(inputs, padding=1)
    assert share(winograd(*inputs), *of) < 0.5
    assert share(winograd(flushed, inputs[1]), *of) < 1


def test_windows_of_zeros_beside_others_are_off_by_nothing(random: np.random.Generator) -> None:
    """Winograd's are: what an element has of the rest of its square is 0 times something."""
    x, w = (array.astype(f32) for array in dense(random, 16))
    x[:, :, 3:9, 4:10] = 0
    bound, expected = bounded([x, w], padding=1)
    assert bound.bound is not None
    zeros = ~expected.any(axis=1, keepdims=True)
    assert zeros.sum() == 2 * 4 * 4
    assert not (winograd(x, w) * zeros).any()
    assert np.array_equal(bound.bound > 0, np.broadcast_to(~zeros, bound.bound.shape))


@pytest.mark.parametrize(("extent", "halved"), [(3, True), (5, False), (1, False)])
def test_what_windows_become_may_be_float16_where_they_are(
    random: np.random.Generator, extent: int, halved: bool
) -> None:
    """Of other convolutions that give float16 the bound is little more than the rounding of a result."""
    inputs = [random.standard_normal(shape).astype(np.float16) for shape in ((1, 32, 8, 8), (4, 32, extent, extent))]
    bound, expected = bounded(inputs, padding=extent // 2)
    assert bound.bound is not None
    units = np.median(bound.bound / np.abs(expected).astype(np.float64)) * 2**10
    assert units > 5 if halved else 0.5 < units < 1.5


Shape = tuple[int, ...]


def both_bounds(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, x: Shape, w: Shape, options: dict[str, Any]
) -> list[np.ndarray]:
    """With the rule for windows, and without."""
    # Of sizes that differ much: where the rule is taken, some element shows it.
    inputs = [(random.standard_normal(shape) * 10.0 ** random.uniform(-3, 3, shape)).astype(f32) for shape in (x, w)]
    if options.pop("half", False):
        inputs = [np.clip(array, -8, 8).astype(np.float16) for array in inputs]
    found = []
    for _ in range(2):
        bound = bounded(inputs, **options)[0].bound
        assert bound is not None
        found.append(bound)
        without_windows(monkeypatch)
    return found


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 8, 7, 6), (4, 8, 3, 3), {"padding": 1}),
        ((2, 8, 7, 6), (4, 8, 3, 3), {"padding": 0}),
        ((2, 16, 7, 6), (4, 8, 3, 3), {"padding": 1, "groups": 2}),
        ((2, 7, 6, 8), (4, 3, 3, 8), {"padding": 1, "data_layout": "NHWC", "kernel_layout": "OHWI"}),
        ((2, 8, 7, 6), (8, 4, 3, 3), {"of": op.nn.conv2d_transpose, "padding": (1, 1)}),
        ((2, 8, 7, 6), (4, 8, 3, 3), {"padding": 1, "half": True, "out_dtype": "float32"}),
    ],
    ids=["images", "no padding", "groups", "channels last", "transposed", "converted"],
)
def test_windows_of_every_form(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, x: Shape, w: Shape, options: dict[str, Any]
) -> None:
    windows, plain = both_bounds(random, monkeypatch, x, w, dict(options))
    assert (windows >= plain).all()
    assert (windows > 1.5 * plain).any()


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 8, 9, 9), (4, 8, 3, 3), {"padding": 1, "strides": 2}),
        ((2, 8, 9, 9), (4, 8, 3, 3), {"padding": 1, "strides": (1, 2)}),
        ((2, 8, 9, 9), (4, 8, 3, 3), {"padding": 2, "dilation": 2}),
        ((2, 8, 9, 9), (4, 8, 5, 5), {"padding": 2}),
        ((2, 8, 9, 9), (4, 8, 3, 1), {"padding": 0}),
        ((2, 72, 9, 9), (4, 72, 1, 1), {"padding": 0}),
        ((2, 7, 9, 9), (4, 7, 3, 3), {"padding": 1}),
        ((2, 8, 9, 9), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
        ((2, 24, 9), (4, 24, 3), {"of": op.nn.conv1d, "padding": 1}),
        ((1, 8, 5, 5, 5), (4, 8, 3, 3, 3), {"of": op.nn.conv3d, "padding": (1, 1, 1)}),
        ((9, 72), (72, 9), {"of": op.matmul}),
    ],
    ids=["by two", "by two along one axis", "dilated", "5x5", "3x1", "1x1", "few channels", "depthwise", "of a row",
         "of a volume", "matrix product"],
)  # fmt: skip
def test_other_sums_keep_their_bounds(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, x: Shape, w: Shape, options: dict[str, Any]
) -> None:
    windows, plain = both_bounds(random, monkeypatch, x, w, dict(options))
    assert windows.tobytes() == plain.tobytes()


def test_an_image_in_parts_gives_the_same(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [array.astype(f32) for array in pruned(random, 8)]
    whole, _ = bounded(inputs, padding=1)
    monkeypatch.setattr("tapml.bounds.blocks.POINTS", 1 << 10)
    parts, _ = bounded(inputs, padding=1)
    assert whole.bound is not None
    assert parts.bound is not None
    np.testing.assert_allclose(whole.bound, parts.bound, rtol=1e-6)


def test_calls_together_have_the_bounds_that_each_has_alone(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = random.standard_normal((24, 96, 3, 3)).astype(f32)
    images = [random.standard_normal((1, 96, 6, 7)).astype(f32) for _ in range(3)]
    found = convolution([images[0], w], padding=0)
    calls = [([x, w], [array.astype(f32) for array in rounded(found, [x, w], None)]) for x in images]
    alone = [Operator(found).bounds(*call)[0].bound for call in calls]
    monkeypatch.delattr(Operator, "bounds")  # of one call
    for own, (bound,) in zip(alone, Operator(found).of_calls(calls), strict=True):
        assert own is not None
        assert bound.bound is not None
        assert own.tobytes() == bound.bound.tobytes()


@pytest.mark.parametrize("fault", ["a weight of the windows", "a channel"])
def test_a_term_too_few_is_outside(random: np.random.Generator, fault: str) -> None:
    x, w = (array.astype(f32) for array in dense(random, 64))
    bound, expected = bounded([x, w], padding=1)
    assert bound.bound is not None
    wrong = w.copy()
    if fault == "a channel":
        wrong[:, -1] = 0
    else:
        wrong[:, :, 0, 2] = 0
    # At the image's edge it may be a weight of zeros only.
    outside = (np.abs(winograd(x, wrong) - expected) > bound.bound)[:, :, 1:-1, 1:-1]
    assert outside.mean() > 0.99


def simulated(inputs: list[np.ndarray], bound: Bound, expected: np.ndarray) -> Any:
    (found,) = simulate(convolution(inputs, padding=1), inputs, [expected], [bound.bound])
    return found


@pytest.mark.parametrize("channels", [8, 32])
@pytest.mark.parametrize("name", CASES)
def test_winograd_is_not_suspicious(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, name: str, channels: int
) -> None:
    inputs = [array.astype(f32) for array in CASES[name][0](random, channels)]
    of, got = bounded(inputs, padding=1), winograd(*inputs)
    assert simulated(inputs, *of).times(got) < 2.0
    if name == "at the edge":
        without_windows(monkeypatch)
        assert simulated(inputs, *of).times(got) > SUSPICIOUS_TIMES
