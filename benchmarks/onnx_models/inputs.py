"""Realistic inputs, made here: a page with text, a line of it, sound like speech, a chord, a file's bytes."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np

_CHECKOUT = Path(__file__).parents[2]
_PAGE = Path(__file__).with_name("page.png")
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Array = np.ndarray


@cache
def page() -> Array:
    """An image with much text, [height, width, 3] of 0 to 1: a screenshot of the studio."""
    return read_png(_PAGE.read_bytes()).astype(np.float32) / 255


def region(top: int, left: int, height: int, width: int) -> Array:
    """A part of the page."""
    return page()[top : top + height, left : left + width]


def resized(image: Array, height: int, width: int) -> Array:
    """Bilinear, pixel centres at half."""
    for axis, wanted in enumerate((height, width)):
        size = image.shape[axis]
        at = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(3)])
        high = np.minimum(low + 1, size - 1)
        image = np.take(image, low, axis) * (1 - share) + np.take(image, high, axis) * share
    return image.astype(np.float32)


def batch(image: Array, *, normalized: str = "", scale: float = 1.0) -> Array:
    """[1, 3, height, width]. `normalized`: "imagenet" by its mean and deviation, "half" to -1 to 1."""
    mean, deviation = {"imagenet": _IMAGENET, "half": ((0.5,) * 3, (0.5,) * 3), "": ((0.0,) * 3, (1.0,) * 3)}[
        normalized
    ]
    values = (image * scale - np.array(mean, np.float32)) / np.array(deviation, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None].astype(np.float32))


def grey(image: Array) -> Array:
    """[1, 1, height, width], -1 to 1."""
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    return ((image @ weights)[None, None] * 2 - 1).astype(np.float32)


def speech(samples: int, rate: int = 16_000) -> Array:
    """What sounds like vowels, -1 to 1: a voice's pulses, whose pitch falls, in the resonances of a, e, o and i."""
    random = np.random.default_rng(0)
    time = np.arange(samples) / rate
    pitch = 140 - 30 * time / max(time[-1], 1e-9) + 4 * np.sin(2 * np.pi * 5 * time)
    phase = np.cumsum(pitch / rate)
    source = np.diff(np.floor(phase), prepend=0.0) + 0.01 * random.standard_normal(samples)
    vowels = [(730, 1090, 2440), (530, 1840, 2480), (570, 840, 2410), (270, 2290, 3010)]
    sound = np.zeros(samples)
    each = -(-samples // len(vowels))
    for number, formants in enumerate(vowels):
        part = slice(number * each, (number + 1) * each)
        for order, frequency in enumerate(formants):
            sound[part] += _resonance(source[part], frequency, 60 + 40 * order, rate) / (1 + order)
    return (0.5 * sound / np.abs(sound).max()).astype(np.float32)


def _resonance(source: Array, frequency: float, width: float, rate: int) -> Array:
    radius = np.exp(-np.pi * width / rate)
    first, second = 2 * radius * np.cos(2 * np.pi * frequency / rate), -(radius**2)
    result = np.zeros(len(source) + 2)
    for place, value in enumerate(source):
        result[place + 2] = value + first * result[place + 1] + second * result[place]
    return result[2:]


def chord(samples: int, rate: int = 22_050) -> Array:
    """Notes of a piano, say: each begins later, has overtones and dies away."""
    time = np.arange(samples) / rate
    sound = np.zeros(samples)
    for number, pitch in enumerate((220.0, 277.18, 329.63, 440.0)):
        since = np.maximum(time - 0.35 * number, 0)
        for overtone in range(1, 6):
            sound += np.sin(2 * np.pi * pitch * overtone * since) * np.exp(-2 * since * overtone) / overtone
    return (0.8 * sound / np.abs(sound).max()).astype(np.float32)


def file_bytes(path: Path = _CHECKOUT / "README.md", size: int = 1024) -> Array:
    """[1, 2 * size] of int32: a file's first and last bytes without the white space around it, as Magika takes them."""
    content = path.read_bytes()
    first, last = content[: 4 * size].lstrip()[:size], content[-4 * size :].rstrip()[-size:]
    row = [*first, *[256] * (size - len(first)), *[256] * (size - len(last)), *last]
    return np.array([row], np.int32)


def read_png(data: bytes) -> Array:
    """[height, width, 3] of uint8. Raises ValueError for what is not 8-bit RGB without interlacing."""
    width, height, *kind = struct.unpack(">IIBBBBB", data[16:29])
    if data[:8] != b"\x89PNG\r\n\x1a\n" or kind != [8, 2, 0, 0, 0]:
        raise ValueError("not a PNG of 8-bit RGB without interlacing")
    packed, place = b"", 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += length + 12
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    image = np.zeros((height, width, 3), np.uint8)
    above = np.zeros((width, 3), np.int64)
    for number, row in enumerate(rows):
        above = _unfiltered(int(row[0]), row[1:].reshape(width, 3).astype(np.int64), above)
        image[number] = above
    return image


def _unfiltered(kind: int, line: Array, above: Array) -> Array:
    """A line of pixels, of the differences that PNG's filter `kind` left."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0) % 256
    if kind == 2:
        return (line + above) % 256
    result = np.zeros_like(line)
    left, corner = np.zeros(3, np.int64), np.zeros(3, np.int64)
    for place, (value, over) in enumerate(zip(line, above, strict=True)):
        left = result[place] = (value + ((left + over) // 2 if kind == 3 else _paeth(left, over, corner))) % 256
        corner = over
    return result


def _paeth(left: Array, over: Array, corner: Array) -> Array:
    to_left, to_over, to_corner = abs(over - corner), abs(left - corner), abs(left + over - 2 * corner)
    nearest = np.where(to_over <= to_corner, over, corner)
    return np.where((to_left <= to_over) & (to_left <= to_corner), left, nearest)
