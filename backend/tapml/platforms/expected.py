"""What is expected of inputs that nobody carved: the reference's result, and how far a device may be from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tapml.compare.elements import bound_of
from tapml.compare.operators import OperatorTolerances
from tapml.compare.tolerance import perturb
from tapml.files import sha256
from tapml.operators.external import External
from tapml.operators.numerics import Numerics
from tapml.operators.program import OperatorProgram
from tapml.platforms.reference import Reference, to_numpy
from tapml.program import TensorType
from tapml.suite import TensorRef, Tolerance


@dataclass(frozen=True)
class Operator:
    """One operator at the `sizes` of a call. `outputs`: their types; `wgsl`: the texts of its kernel; `said`: its
    numerics by its kernel's document, which count where it has no program."""

    kernel: str
    program: OperatorProgram | External
    outputs: Sequence[TensorType]
    sizes: Mapping[str, int]
    wgsl: Sequence[str]
    said: Numerics


@dataclass(frozen=True)
class Expected:
    """One output: the reference's value, and what a device may differ by (`bound`: float64, for each element)."""

    value: np.ndarray
    tolerance: Tolerance
    bound: np.ndarray


class ExpectedOutputs:
    """An operator on a reference platform that has it, for any inputs of its types."""

    def __init__(self, reference: Reference, operator: Operator) -> None:
        self._reference = reference
        self._operator = operator
        self.tensors: dict[str, np.ndarray] = {}
        """Of the latest tolerances, by digest."""
        self._tolerances = OperatorTolerances(operator.program, operator.wgsl, self._put, operator.said)

    def of(self, inputs: Sequence[np.ndarray]) -> list[Expected]:
        """What a device has to give for `inputs`, output by output."""
        self.tensors.clear()
        values = self._call(inputs)
        random = np.random.default_rng(0)

        def moved(runs: int) -> list[list[np.ndarray]]:
            found = [self._call([perturb(array, random) for array in inputs]) for _ in range(runs)]
            return [list(outputs) for outputs in zip(*found, strict=True)]

        tolerances = self._tolerances.of_call(inputs, values, moved)
        return [
            Expected(value, tolerance, bound_of(tolerance, value, lambda ref: self.tensors[ref.digest]))
            for value, tolerance in zip(values, tolerances, strict=True)
        ]

    def _call(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = self._operator
        tensors = [self._reference.tensor(array) for array in inputs]
        results = self._reference.call(found.kernel, tensors, list(found.outputs), found.sizes)
        return [to_numpy(result, kind.dtype) for result, kind in zip(results, found.outputs, strict=True)]

    def _put(self, array: np.ndarray) -> TensorRef:
        dense = np.ascontiguousarray(array)
        digest = sha256(dense.tobytes())
        self.tensors[digest] = dense
        return TensorRef(digest, str(dense.dtype), tuple(array.shape))
