"""What is expected of inputs that nobody carved: the reference's result, and how far a device may be from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tapml.compare.elements import bound_of, errors
from tapml.compare.operators import OperatorTolerances
from tapml.compare.tolerance import perturb
from tapml.errors import InputError
from tapml.files import sha256
from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.numerics import Numerics
from tapml.operators.other_end import from_the_other_end
from tapml.operators.program import OperatorProgram
from tapml.platforms.reference import Reference, to_numpy
from tapml.program import Graph, TensorType
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

    def without_strays(self, inputs: Sequence[np.ndarray], expected: Sequence[Expected]) -> list[Expected]:
        """What is expected where nothing is promised for elements that come of data which point outside of a tensor;
        empty where there is none."""
        other = self._other_end()
        if other is None:
            return []
        values = self._call(inputs, other)
        found = [self._unbounded(one, value) for one, value in zip(expected, values, strict=True)]
        return found if any(one is not before for one, before in zip(found, expected, strict=True)) else []

    def _other_end(self) -> Reference | None:
        operator = self._operator
        turned = None if isinstance(operator.program, External) else from_the_other_end(operator.program)
        if turned is None:
            return None
        graph = Graph({}, [], (), (), sizes=dict(operator.sizes))
        try:
            return Reference(Model(graph, [], {operator.kernel: turned}))
        except InputError:
            return None  # what it cannot be told of stays as it is

    def _unbounded(self, found: Expected, other: np.ndarray) -> Expected:
        strays = errors(other, found.value) > 0
        if not strays.any():
            return found
        with np.errstate(over="ignore"):
            single = found.bound.astype(np.float32)
        # Not below what it was before.
        single = np.where(single < found.bound, np.nextafter(single, np.float32(np.inf)), single)
        ref = self._put(np.where(strays, np.float32(np.inf), single))
        why = f"{int(strays.sum())} elements come of data that point outside of a tensor: nothing is promised for them"
        tolerance = replace(found.tolerance, bound=ref, reasons=(why, *found.tolerance.reasons))
        return Expected(found.value, tolerance, np.where(strays, np.inf, found.bound))

    def _call(self, inputs: Sequence[np.ndarray], reference: Reference | None = None) -> list[np.ndarray]:
        found, reference = self._operator, reference or self._reference
        tensors = [reference.tensor(array) for array in inputs]
        results = reference.call(found.kernel, tensors, list(found.outputs), found.sizes)
        return [to_numpy(result, kind.dtype) for result, kind in zip(results, found.outputs, strict=True)]

    def _put(self, array: np.ndarray) -> TensorRef:
        dense = np.ascontiguousarray(array)
        digest = sha256(dense.tobytes())
        self.tensors[digest] = dense
        return TensorRef(digest, str(dense.dtype), tuple(array.shape))
