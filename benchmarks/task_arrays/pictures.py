"""Cases of the functions of images, held against OpenCV: within one unit of 255."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from hypothesis import strategies as st

from benchmarks.task_arrays.drawn import Drawn

BORDERS = {
    "BORDER_CONSTANT": cv2.BORDER_CONSTANT,
    "BORDER_REPLICATE": cv2.BORDER_REPLICATE,
    "BORDER_REFLECT": cv2.BORDER_REFLECT,
    "BORDER_REFLECT_101": cv2.BORDER_REFLECT_101,
    "BORDER_WRAP": cv2.BORDER_WRAP,
}


@dataclass(frozen=True)
class Picture:
    name: str
    drawn: Drawn
    reference: Callable[..., Any]
    around: int | None = None
    """Of the first channel, values that are as near to 0 as this is: hues."""


@st.composite
def images(draw: Any, channels: tuple[int, ...] = (0, 1, 2, 3, 4), least: int = 1) -> np.ndarray:
    """uint8, or float32 from 0 to 1: noise, which hides no place that is wrong."""
    height, width = draw(st.integers(least, 24)), draw(st.integers(least, 24))
    count = draw(st.sampled_from(channels))
    shape = (height, width, count) if count else (height, width)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        return random.integers(0, 256, shape).astype(np.uint8)
    return random.random(shape).astype(np.float32)


def _kept(x: np.ndarray, found: np.ndarray) -> np.ndarray:
    """OpenCV drops an axis of one channel."""
    return found.reshape(*found.shape[:2], *x.shape[2:]) if x.ndim == 3 and x.shape[2] == 1 else found


def _resized(method: int) -> Drawn:
    sides = st.tuples(st.integers(1, 40), st.integers(1, 40))
    return st.tuples(images(), sides).map(lambda one: (one, {"interpolation": method}))


def _resize(x: np.ndarray, size: tuple[int, int], interpolation: int) -> np.ndarray:
    return _kept(x, cv2.resize(x, size, interpolation=interpolation))


@st.composite
def _warped(draw: Any, border: int, perspective: bool) -> Any:
    x = draw(images())
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    matrix = np.eye(3)[: 3 if perspective else 2] + random.normal(0, 0.3, (3 if perspective else 2, 3))
    matrix[:2, 2] = random.normal(0, 10, 2)
    if perspective:
        matrix[2] = [*random.normal(0, 0.002, 2), 1]
    flags = cv2.INTER_LINEAR | (cv2.WARP_INVERSE_MAP if draw(st.booleans()) else 0)
    top = 255 if x.dtype == np.uint8 else 1
    value = [float(round(one * top, 3)) for one in random.random(4)] if x.dtype != np.uint8 else [7.0, 99.0, 255.0, 0.0]
    size = draw(st.tuples(st.integers(1, 30), st.integers(1, 30)))
    return (x, matrix, size), {"flags": flags, "borderMode": border, "borderValue": value}


def _warp(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: np.ndarray, matrix: Any, size: Any, borderValue: list[float], **keywords: Any) -> Any:  # noqa: N803
        if x.shape[2:] != (2,):
            return _kept(x, function(x, matrix, size, borderValue=borderValue, **keywords))
        # Of two channels OpenCV rounds places to 1/32 of a pixel.
        both = zip(np.moveaxis(x, 2, 0), borderValue, strict=False)
        return np.stack([function(one.copy(), matrix, size, borderValue=[value], **keywords) for one, value in both], 2)

    return reference


@st.composite
def _blurred(draw: Any, border: int) -> Any:
    x = draw(images())
    sigma = draw(st.floats(0.3125, 4, width=32))
    side = st.sampled_from([1, 3, 5, 7, 9, 11, 13])
    given = draw(st.sampled_from([(0, 0), (draw(side), draw(side)), None]))
    if given is None:  # a sigma that follows from the size
        given, sigma = (draw(side), draw(side)), 0.0
    sigmas = {"sigmaX": sigma, "sigmaY": draw(st.sampled_from([0.0, 1.5])) if sigma else 0.0}
    return (x, given), {**sigmas, "borderType": border}


def _blur(x: np.ndarray, size: tuple[int, int], **keywords: Any) -> np.ndarray:
    return _kept(x, cv2.GaussianBlur(x, size, **keywords))


@st.composite
def _coloured(draw: Any, code: int, channels: int) -> Any:
    return (draw(images((0,) if channels == 1 else (channels,))), code), {}


_CHANNELS = {"BGR": 3, "RGB": 3, "BGRA": 4, "RGBA": 4, "GRAY": 1, "YCrCb": 3}


def picture_cases(codes: Iterable[str]) -> list[Picture]:
    """`codes`: the names of conversions, COLOR_FROM2TO."""
    methods = {
        "nearest": cv2.INTER_NEAREST,
        "linear": cv2.INTER_LINEAR,
        "cubic": cv2.INTER_CUBIC,
        "area": cv2.INTER_AREA,
    }
    found = [Picture(f"resize, {name}", _resized(method), _resize) for name, method in methods.items()]
    for name, border in BORDERS.items():
        found.append(Picture(f"warpAffine, {name}", _warped(border, False), _warp(cv2.warpAffine)))
        found.append(Picture(f"warpPerspective, {name}", _warped(border, True), _warp(cv2.warpPerspective)))
        if name != "BORDER_WRAP":
            found.append(Picture(f"GaussianBlur, {name}", _blurred(border), _blur))
    for name in codes:
        channels = _CHANNELS[name.removeprefix("COLOR_").partition("2")[0]]
        around = 180 if name.endswith("HSV") else None
        found.append(Picture(f"cvtColor, {name}", _coloured(getattr(cv2, name), channels), cv2.cvtColor, around))
    found.append(
        Picture(
            "getRotationMatrix2D",
            st.tuples(st.tuples(*[st.floats(-50, 50)] * 2), st.floats(-360, 360), st.floats(0.1, 4)).map(
                lambda one: (one, {})
            ),
            cv2.getRotationMatrix2D,
        )
    )
    kernels = st.tuples(st.sampled_from([1, 3, 5, 7, 9, 11, 31]), st.sampled_from([0.0, 0.5, 1.7, 6.0]))
    found.append(Picture("getGaussianKernel", kernels.map(lambda one: (one, {})), cv2.getGaussianKernel))
    return found


def apart(found: np.ndarray, expected: np.ndarray, around: int | None) -> float:
    """The largest difference in units of 255."""
    assert found.dtype == expected.dtype, f"{found.dtype} is not {expected.dtype}"
    assert found.shape == expected.shape, f"{found.shape} is not {expected.shape}"
    wide = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    if around is not None:
        period = around if found.dtype == np.uint8 else 2 * around
        wide[..., 0] = np.minimum(wide[..., 0], period - wide[..., 0])
        if found.dtype == np.float32:
            wide[..., 0] /= 360
    return float(wide.max()) * (1 if found.dtype == np.uint8 else 255)
