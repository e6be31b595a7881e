"""The tolerances of one operator's outputs, call by call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tapml.bounds import Bound, Call, Converted, NotDerivable, Operator
from tapml.bounds.converted import any_subnormal
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

_DEFECTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a derivation raises that is not right itself."""


_COMPARISONS = ("max", "min", "eq", "ne", "lt", "le", "gt", "ge")


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
        self.obstacle = ""
        """Why no bound can be derived, once that is known."""
        self._compares = not isinstance(program, External) and _compares(program)
        self._operator: Operator | None = None
        if isinstance(program, External):
            self.obstacle = f"{program.who} computes it, and how is not known"
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
        found = self.derived(inputs, expected)
        return self.estimated(expected, move) if found is None else found

    def derived(self, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> tuple[Tolerance, ...] | None:
        """Those of a call that follow from the operator's program; None where none do, and of all calls that come
        after one of which none did."""
        if self._operator is not None and self._has_bounds(inputs, expected):
            try:
                return self._stored(self._operator.bounds(inputs, expected))
            except NotDerivable as error:
                self._operator, self.obstacle = None, str(error)
            except _DEFECTS as error:
                # An estimate is better than no suite; its reasons say what happened.
                what = f"{type(error).__name__}: {error}"
                self._operator, self.obstacle = None, f"the derivation has a defect, please report it ({what})"
        return None

    def derived_together(self, calls: Sequence[Call]) -> list[tuple[Tolerance, ...]] | None:
        """What `derived` gives of each of these calls, in a fraction of its time; None where that cannot be, or it may
        give none of one."""
        if self._operator is None or not all(self._has_bounds(*call) for call in calls):
            return None
        try:
            return [*map(self._stored, self._operator.of_calls(calls))]
        except (NotDerivable, *_DEFECTS):
            return None

    def _has_bounds(self, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
        """An operator that only moves values and chooses none has nothing to derive. One that compares them may take
        subnormal numbers for zero."""
        discrete = any(str(array.dtype) not in FLOATS for array in expected)
        if self.rounds or (discrete and self.numerics.accumulation_length > 1):
            return True
        return self._compares and any(any_subnormal(array.reshape(-1), str(array.dtype)) for array in inputs)

    def _stored(self, bounds: Sequence[Bound]) -> tuple[Tolerance, ...]:
        return tuple(derived(bound, self._put) for bound in bounds)

    def estimated(self, expected: Sequence[np.ndarray], move: Move) -> tuple[Tolerance, ...]:
        """Those of a call of which none are derived."""
        moved: list[list[np.ndarray]] = [[] for _ in expected]
        if self.rounds and any(str(array.dtype) in UNIT for array in expected):
            small = min(array.size for array in expected) < _SMALL_OUTPUT
            moved = move(_SMALL_RUNS if small else 1)
        found = [estimated(self.numerics, array, others) for array, others in zip(expected, moved, strict=True)]
        if not self.rounds or not self.obstacle:
            return tuple(found)
        why = f"estimated, for no bound can be derived: {self.obstacle}"
        return tuple(Tolerance(t.absolute, t.relative, (why, *t.reasons)) for t in found)


def _compares(program: OperatorProgram) -> bool:
    """Whether it compares floating-point numbers."""
    return any(
        node.kind in _COMPARISONS and node.operands[0].dtype in FLOATS
        for block in program.blocks
        for node in block.expressions
    )
