"""A suite of a model that has no weights, with made-up ones: random numbers of the sizes that trained ones have.

They are 16 KiB of each kind again and again. So most shards of a compiled model have the same bytes, and a folder of
gigabytes on the device is some megabytes when it is packed; each weight has bytes of its own in the GPU's memory all
the same.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tapml.files import sha256
from tapml.program import TensorType, ValueKind
from tapml.program.generation import LOGITS, NEXT
from tapml.program.program import Function
from tapml.suite import Suite, TensorRef
from tapml.suite.suite import write_kernel
from tapml.suite.tensors import TensorStore
from tapml.suite.unweighted import Unweighted
from tapml.suite.writer import SuiteWriter

PERIOD = 1 << 14
"""Bytes: what gzip sees again at once."""
_PIECE = 1 << 20
_WORDS, _SCALES = ".words", ".scales"  # of quantised weights (docs/quantise.md)
_INTEGER = {4: 4.3, 8: 73.3}
"""The root of the mean square of an integer of so many bits."""


class _Weight(NamedTuple):
    """`ref`: with a digest that stands for the weight's bytes, which are `period` again and again."""

    ref: TensorRef
    period: bytes


def made_up_suite(found: Unweighted, path: Path) -> Suite:
    """Written at `path`, without tests and without a tensor: its weights are made when they are read."""
    weights = _weights(found)
    functions = found.program.functions
    inputs = [value for function in functions.values() for value in function.inputs]
    manifest = {
        "name": "llama",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "model": {
            "kind": "exported_program",
            "source": "config.json",
            "sha256": sha256(repr([*found.operators.items()]).encode()),
            "title": found.title,
            "notes": [*found.notes, "its weights are made up"],
        },
        "synthetic": True,
        "reference": {"platform": "none", "device": "none"},
        "generator": {"name": "tapml", "version": "none"},
        "parameters": {value: weight.ref.to_json() for value, weight in weights.items()},
        "arguments": [*inputs, *weights],
        "outputs": [name for function in functions.values() for name in _outputs(function)],
        "generation": found.generation.model_dump(),
        "steps": [],
        "oracle": None,
        "doubts": [],
    }
    with SuiteWriter(path) as writer:
        for name, document in found.kernels.items():
            write_kernel(writer.folder, document, found.texts[name])
        suite = writer.finish(manifest, found.program, [], found.operators)
    suite.tensors = _MadeUp(path / "tensors", weights.values())
    return suite


def _outputs(function: Function) -> list[str]:
    states = {after: name for name, (_, after) in function.states.items()}
    own = iter((LOGITS, NEXT))
    return [states[value] if value in states else next(own) for value in function.outputs]


def _weights(found: Unweighted) -> dict[str, _Weight]:
    """By value id. Those that the period divides come first, alike ones together, so that each begins where the period
    does, wherever it lies in a buffer."""
    values = {
        value.id: (value.name or value.id, value.type.at({}, value.name or value.id))
        for function in found.program.functions.values()
        for value in function.values.values()
        if value.kind is ValueKind.PARAMETER
    }
    words = {name.removesuffix(_WORDS): of.shape for name, of in values.values() if name.endswith(_WORDS)}
    bits = {
        name.removesuffix(_SCALES): 4 if of.shape[1] > 1 else 8
        for name, of in values.values()
        if name.endswith(_SCALES)
    }
    weights = {value: _weight(name, of, words, bits) for value, (name, of) in values.items()}
    return dict(sorted(weights.items(), key=lambda pair: (pair[1].ref.type.nbytes % PERIOD != 0, pair[1].period)))


def _weight(name: str, of: TensorType, words: Mapping[str, tuple[int, ...]], bits: Mapping[str, int]) -> _Weight:
    """`words`: shapes of those of quantised weights, by the weight's name; `bits`: of their integers."""
    stored = np.dtype(of.stored.dtype)
    count = PERIOD // stored.itemsize
    if name.endswith(_WORDS):
        numbers = made_up_words(bits[name.removesuffix(_WORDS)])
    elif name.endswith(_SCALES):
        weight = name.removesuffix(_SCALES)
        (rows, inner), each = words[weight], bits[weight]
        numbers = made_up_scales(each, min(rows, inner * 32 // each), count)
    elif len(of.shape) == 2:
        numbers = made_up_matrix(min(of.shape))
        numbers = np.tile(numbers, count // len(numbers))
    elif len(of.shape) == 3:
        numbers = np.tile(made_up_turns(of.shape[2] // 2, count // of.shape[2]), 2).ravel()
    else:
        numbers = made_up_norm(count)
    return _Weight(TensorRef(sha256(name.encode()), of.dtype, of.shape, of.encoding), numbers.astype(stored).tobytes())


def made_up_words(bits: int) -> np.ndarray:
    """A period of uint32 words of integers of 4 or 8 bits, from 0 to twice the one that stands for zero, as quantising
    gives them."""
    random = np.random.default_rng(0)
    if bits == 8:
        return random.integers(0, 255, PERIOD, np.uint8).view("<u4")
    low, high = random.integers(0, 15, (2, PERIOD), np.uint8)
    return (low | high << 4).view("<u4")


def made_up_scales(bits: int, least: int, count: int = PERIOD // 4) -> np.ndarray:
    """So many scales (float64) of integers of 4 or 8 bits. `least`: of rows and columns of the weight."""
    return np.random.default_rng(0).uniform(0.7, 1.3, count) / _INTEGER[bits] / math.sqrt(least)


def made_up_matrix(least: int) -> np.ndarray:
    """A quarter as many numbers (float16) for a matrix that is not quantised as a period has bytes: small ones are
    float32. `least`: of its rows and columns."""
    return (np.random.default_rng(0).standard_normal(PERIOD // 4) / math.sqrt(least)).astype(np.float16)


def made_up_turns(pairs: int, places: int = 1) -> np.ndarray:
    """Numbers (float64) [places, pairs] in place of the cosines of a table of positions, and of the sines."""
    return np.random.default_rng(0).uniform(0.5, 1, (places, pairs))


def made_up_norm(count: int = PERIOD // 4) -> np.ndarray:
    """So many numbers (float64) of a norm."""
    return np.random.default_rng(0).uniform(0.5, 1, count)


class _MadeUp(TensorStore):
    def __init__(self, folder: Path, weights: Iterable[_Weight]) -> None:
        super().__init__(folder)
        self._weights = {weight.ref.digest: weight for weight in weights}

    def verify(self, ref: TensorRef) -> None:
        """There is nothing that could be damaged."""

    def pieces(self, digest: str) -> Iterator[bytes]:
        weight = self._weights[digest]
        piece = weight.period * (_PIECE // PERIOD)
        for begin in range(0, weight.ref.type.nbytes, _PIECE):
            yield piece[: weight.ref.type.nbytes - begin]
