"""The tolerances of one operator's outputs, call by call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tapml.bounds import Bound, Converted, NotDerivable, Operator
from tapml.bounds.uncertain import FLOATS
from tapml.compare.tolerance import UNIT, derived, estimated
from tapml.operators.external import External
from tapml.operators.numerics import Numerics, numerics
from tapml.operators.program import OperatorProgram
from tapml.suite import TensorRef, Tolerance

Move = Callable[[int], list[list[np.ndarray]]]
"""The outputs of the reference for perturbed inputs, so many times over, by output."""

# Below this an output is too small for one perturbed run to show its sensitivity: several are made.
_SMALL_OUTPUT = 64
_SMALL_RUNS = 4


class OperatorTolerances:
    """Derives bounds as long as that can be done, and estimates from then on."""

    def __init__(
        self,
        program: OperatorProgram | External,
        wgsl: Sequence[str],
        put: Callable[[np.ndarray], TensorRef],
        said: Numerics,
        converted: Converted | None = None,
    ) -> None:
        """`wgsl`: of its kernel; `put` stores the tensors of bounds; `said`: by its kernel's document, which counts
        where there is no program; `converted`: inputs of this operator and of others.
        """
        self.numerics = said if isinstance(program, External) else numerics(program)
        self._put = put
        self._obstacle = ""
        self._operator: Operator | None = None
        if isinstance(program, External):
            self._obstacle = f"{program.who} computes it, and how is not known"
        else:
            self._operator = Operator(program, wgsl, converted)

    @property
    def rounds(self) -> bool:
        """False where every element is moved or selected, never computed."""
        return not self.numerics.exact

    def of_call(
        self, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray], move: Move
    ) -> tuple[Tolerance, ...]:
        """The tolerance of each output of one call."""
        discrete = any(str(array.dtype) not in FLOATS for array in expected)
        # An operator that only moves values and chooses none has nothing to derive.
        if self._operator is not None and (self.rounds or (discrete and self.numerics.accumulation_length > 1)):
            try:
                bounds: list[Bound] = self._operator.bounds(inputs, expected)
                return tuple(derived(bound, self._put) for bound in bounds)
            except NotDerivable as error:
                self._operator, self._obstacle = None, str(error)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                # An estimate is better than no suite; its reasons say what happened.
                what = f"{type(error).__name__}: {error}"
                self._operator, self._obstacle = None, f"the derivation has a defect, please report it ({what})"
        moved: list[list[np.ndarray]] = [[] for _ in expected]
        if self.rounds and any(str(array.dtype) in UNIT for array in expected):
            small = min(array.size for array in expected) < _SMALL_OUTPUT
            moved = move(_SMALL_RUNS if small else 1)
        found = [estimated(self.numerics, array, others) for array, others in zip(expected, moved, strict=True)]
        if not self.rounds or not self._obstacle:
            return tuple(found)
        why = f"estimated, for no bound can be derived: {self._obstacle}"
        return tuple(Tolerance(t.absolute, t.relative, (why, *t.reasons)) for t in found)
