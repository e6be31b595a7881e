"""Calls that nobody carved, of a kernel whose tests fail: an explanation of its carved outputs has to hold on them.

The few calls of a suite leave much open: a row of 384 elements that follow from one sum is one number, and of 80,000
changes of a program some give that by chance, or where a weight is 1 everywhere. None gives it again for other numbers.
Nor does it for numbers in other places: what is read from a place where a zero happens to be is as good as left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tapml.bounds import NotDerivable, Operator, rounded
from tapml.encodings import held
from tapml.errors import InputError
from tapml.locating.evidence import Evidence
from tapml.locating.examine import Examiner
from tapml.locating.suspects import program_of
from tapml.operators.program import OperatorProgram
from tapml.suite import CarvedTest, Suite
from tapml.validation.context import JobContext

Vary = Callable[[Sequence[np.ndarray], int], list[np.ndarray] | None]

TRIALS = 3
_MOVED = 3
"""Every third has its numbers in other places."""

_MOST_BYTES = 16 << 20
"""Of a call's inputs and outputs: larger ones have elements enough."""

_LEAST, _MOST = 0.5, 1.6
"""What numbers are multiplied by: masks stay masks, and what is positive, under a root say, stays positive."""


def varied(inputs: Sequence[np.ndarray], seed: int) -> list[np.ndarray] | None:
    """Each number of them so many times as large, and every third time in another place of its input; None where there
    is none but integers, which may be places."""
    chance = np.random.default_rng(seed)
    found = []
    for carved in inputs:
        if carved.dtype.kind != "f":
            found.append(carved)
            continue
        found.append(scaled(carved if seed % _MOVED else chance.permuted(carved), chance))
    return found if any(not np.array_equal(a, b) for a, b in zip(found, inputs, strict=True)) else None


def scaled(array: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """Each finite number of a floating-point array so many times as large, at most the largest of its dtype; what has
    other numbers as it is."""
    if array.dtype.kind != "f":
        return array
    most = float(np.finfo(array.dtype).max)
    factors = chance.uniform(_LEAST, _MOST, array.shape)
    with np.errstate(invalid="ignore"):
        made = np.clip(array.astype(np.float64) * factors, -most, most).astype(array.dtype)
    return np.where(np.isfinite(array), made, array)


class Trials:
    """Of the kernels of one suite, on one device."""

    def __init__(self, context: JobContext, examiner: Examiner, vary: Vary = varied, count: int = TRIALS) -> None:
        """`vary`: (carved inputs, number of the trial) -> those of the trial; None where there is none."""
        self._context = context
        self._examiner = examiner
        self._vary = vary
        self._count = count

    def run(self, test: CarvedTest) -> list[list[Evidence]]:
        """For each trial the outputs as evidence, as far as the device runs it; none where the operator's program is
        not known or cannot be computed, where there is nothing to vary, or where tensors are large. Raises DeviceLost
        and Cancelled."""
        program = program_of(self._context.suite, test)
        if program is None or sum(ref.type.nbytes for ref in (*test.inputs, *test.outputs)) > _MOST_BYTES:
            return []
        carved = [self._context.suite.tensors.get(ref) for ref in test.inputs]
        varied = (self._vary(carved, seed) for seed in range(1, self._count + 1))
        given = [
            [held(array, ref.encoding) for ref, array in zip(test.inputs, made, strict=True)]
            for made in varied
            if made is not None
        ]
        try:
            found = [self._one(test, program, inputs) for inputs in given]
        except (InputError, NotDerivable, ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
            return []  # what cannot be computed for these numbers is not tried
        return [one for one in found if one]

    def _one(self, test: CarvedTest, program: OperatorProgram, inputs: list[np.ndarray]) -> list[Evidence]:
        self._context.cancel.check()
        pieces = [ref.type.encoded(array).tobytes() for ref, array in zip(test.inputs, inputs, strict=True)]
        with self._context.blobs.holding(pieces) as digests:
            refs = [replace(ref, digest=digest) for ref, digest in zip(test.inputs, digests, strict=True)]
            runs = self._examiner.run([replace(test, inputs=tuple(refs))], 1).get(test.id)
        if not runs:
            return []
        return judged(self._context.suite, test, program, inputs, runs[0])


def judged(
    suite: Suite, test: CarvedTest, program: OperatorProgram, inputs: list[np.ndarray], outputs: Sequence[np.ndarray]
) -> list[Evidence]:
    """What a device gave for inputs that nobody carved, held against what the operator's program says of them. Raises
    NotDerivable, and what computing with other numbers than the carved ones may raise."""
    # In float64 by the program: the reference platform would have to be loaded, and its kernel compiled.
    values = rounded(program, inputs, None)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = [
            np.broadcast_to(value, got.shape).astype(got.dtype) for value, got in zip(values, outputs, strict=True)
        ]
    texts = [file.text for file in suite.kernel_files(test.kernel)]
    bounds = Operator(program, texts).bounds(inputs, expected)
    return [
        _evidence(got, wanted, found.bound, inputs, place)
        for place, (got, wanted, found) in enumerate(zip(outputs, expected, bounds, strict=True))
    ]


def _evidence(
    got: np.ndarray, wanted: np.ndarray, bound: np.ndarray | None, inputs: list[np.ndarray], place: int
) -> Evidence:
    """Where the program itself gives no number nothing is said of the kernel."""
    most = np.zeros(wanted.shape) if bound is None else bound.astype(np.float64).reshape(wanted.shape)
    unknown = ~np.isfinite(wanted.astype(np.float64))
    return Evidence(got, wanted, most, inputs, accepted=unknown, output=place)
