"""How much each element of an operator's outputs may differ on a device, derived from the operator's own program.

The bound of an element is made of
- what rounding in the program may do to it, given the exact carved inputs: running error analysis in float64 with
  WGSL's accuracy rules for every operation and builtin (uncertain.py, wgsl.py), sums in any order (program.py);
- how far the carved value, which the reference platform rounded too, is from the float64 result.
An element that depends on what WGSL promises nothing for has no bound: Infinity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapml.bounds.chains import joined
from tapml.bounds.converted import Converted
from tapml.bounds.program import Run, accumulation_factor
from tapml.bounds.stacked import Call, alike, of_call, stackable, stacked
from tapml.bounds.ties import alternatives, tie_groups
from tapml.bounds.uncertain import FLOATS, NotDerivable, Uncertain, unit
from tapml.bounds.wgsl import REDUCED, functions_of, tanh_builtin
from tapml.operators.numerics import numerics
from tapml.operators.program import OperatorProgram

# Choices among equals that are tried one by one.
_MOST_CHOICES = 64

_AT_ONCE = 1 << 16
"""Elements that are looked at together: their numbers in float64 stay in a processor's cache."""


@dataclass(frozen=True)
class Bound:
    """Of one output: `bound` (float32, the output's shape) is None where every bit counts; `ties` as in
    `Tolerance.ties`; `reasons` in words; `absolute` the largest bound there is."""

    bound: np.ndarray | None
    ties: np.ndarray | None
    absolute: float
    reasons: tuple[str, ...]


class Operator:
    """One operator's program, whose bounds are derived for one input after the other."""

    def __init__(self, program: OperatorProgram, wgsl: Sequence[str] = (), converted: Converted | None = None) -> None:
        """`wgsl`: the texts of the kernel that runs on the device; they tell whether it calls WGSL's tanh,
        and WGSL's sin or one of its own. `converted`: inputs of this operator and of others."""
        self._program = joined(program)
        self._converted = converted or Converted()
        self._numerics = numerics(program)
        self._functions = functions_of(wgsl)
        self._reduced = [name for name, function in REDUCED.items() if self._functions[name] is function]

    def bounds(self, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> list[Bound]:
        """The bound of each output for these inputs; `expected` is what the reference platform made of them.

        Raises NotDerivable where the program has something that is no map and no reduction, and where its float64
        result is not what the reference gives.
        """
        functions = self._functions
        first = Run(self._program, inputs, functions, converted=self._converted)
        found, rankings, choices = first.outputs, first.rankings, min(first.most_equals, _MOST_CHOICES)
        others = [
            Run(self._program, inputs, functions, number, converted=self._converted).outputs
            for number in range(1, choices)
        ]
        results = []
        for number, (output, carved) in enumerate(zip(found, expected, strict=True)):
            runs = [output, *(other[number] for other in others)]
            if str(carved.dtype) not in FLOATS:
                ties = alternatives([run.value for run in runs]) if others else None
                for ranking in rankings:
                    ties = tie_groups(ranking, output.value) if ties is None else ties
                results.append(_discrete(output, carved, ties))
            else:
                results.append(self._continuous(runs, carved))
        return results

    def of_calls(self, calls: Sequence[Call]) -> list[list[Bound]]:
        """The `bounds` of each of them, to the last bit, where calls that are alike are evaluated together. Raises
        NotDerivable where that cannot be, or one of them has none."""
        if not stackable(self._program):
            raise NotDerivable("calls that are evaluated one by one")
        found: dict[int, list[Bound]] = {}
        for numbers in alike(self._program, calls):
            together = [calls[number] for number in numbers]
            found |= zip(numbers, self._stacked(together), strict=True)
        return [found[number] for number in range(len(calls))]

    def _stacked(self, calls: Sequence[Call]) -> list[list[Bound]]:
        try:
            outputs = Run(*stacked(self._program, calls), self._functions).outputs if len(calls) > 1 else None
        except NotDerivable:  # they are not alike
            outputs = None
        if outputs is None:
            return [self.bounds(*call) for call in calls]
        return [
            [self._continuous([of_call(o, n)], carved) for o, carved in zip(outputs, expected, strict=True)]
            for n, (_, expected) in enumerate(calls)
        ]

    def _continuous(self, runs: Sequence[Uncertain], carved: np.ndarray) -> Bound:
        flat = carved.reshape(-1)
        values, spreads = ([_flat(array, carved.shape) for array in arrays] for arrays in _parts(runs))
        bound: np.ndarray = np.empty(flat.shape, np.float32)
        exact, wrong, largest = True, False, 0.0
        for start in range(0, flat.size, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            value, error = values[0][part], spreads[0][part]
            with np.errstate(invalid="ignore", over="ignore"):
                for other, spread in zip(values[1:], spreads[1:], strict=True):
                    # Either of the equals may have been taken.
                    apart = np.abs(other[part] - value) + spread[part]
                    error = np.maximum(error, np.where(np.isnan(apart), np.inf, apart))
                reference = flat[part].astype(np.float64)
                same = (reference == value) | (np.isnan(reference) & np.isnan(value))
                own = np.where(same, 0.0, np.abs(reference - value))
                own = np.where(np.isnan(own), np.inf, own)
                beyond = own > 4.0 * error + np.abs(value) * unit(str(carved.dtype))
            exact = exact and bool(same.all()) and not error.any()
            wrong = wrong or bool(beyond[np.isfinite(error)].any())
            largest = max(largest, _largest_finite(own))
            bound[part] = _rounded_up(error + own)
        if exact:
            return Bound(None, None, 0.0, ("nothing is rounded: exact",))
        if wrong:
            raise NotDerivable("its float64 result is not what the reference platform gives")
        bound = bound.reshape(carved.shape)
        return Bound(bound, None, _largest_finite(bound), self._reasons(bound, largest, str(carved.dtype)))

    def _reasons(self, bound: np.ndarray, own: float, dtype: str) -> tuple[str, ...]:
        """`own`: the most that the reference is off."""
        known = self._numerics
        finite = bound[np.isfinite(bound)]
        reasons = [
            f"{dtype}: one operation may be off by one unit in the last place, {unit(dtype):.3g} of its result "
            f"({known.operations} operations)"
        ]
        if known.accumulation_length > 1:
            factor = accumulation_factor(known.accumulation_length)
            reasons.append(
                f"sums of up to {known.accumulation_length} terms in any order: {factor:.4g} units of the "
                "largest partial sum"
            )
        if builtins := [name for name in known.builtins if name not in self._reduced]:
            reasons.append(f"WGSL's accuracy of {', '.join(builtins)} at these arguments")
        if reduced := [name for name in known.builtins if name in self._reduced]:
            reasons.append(
                f"{', '.join(reduced)} by the kernel's own function, which brings any argument within pi / 4 first: "
                "2^-20 absolute where WGSL's promises 2^-11, and nothing beyond pi"
            )
        reasons.append(f"the reference's own rounding: up to {own:.3g} from the float64 result, which is added")
        if finite.size:
            reasons.append(
                f"together {finite.min():.3g} to {finite.max():.3g} absolute, {_median(finite):.3g} for half "
                "of the elements"
            )
        if finite.size < bound.size:
            reasons.append(f"{bound.size - finite.size} of {bound.size} elements are unbounded: {self._unbounded()}")
        return tuple(reasons)

    def _unbounded(self) -> str:
        doubtful = [name for name in self._numerics.builtins if name in _UNBOUNDED and name not in self._reduced]
        if self._functions["tanh"] is tanh_builtin:
            doubtful.append("tanh")
        what = "; ".join(f"{name}: {_UNBOUNDED[name]}" for name in dict.fromkeys(doubtful))
        return f"WGSL promises nothing there ({what or 'overflow or a value that is no number'})"


_MEND = "the kernels that tapml makes bring the argument within pi / 4 themselves"

_UNBOUNDED = {
    "exp": "nothing once it overflows, above 88.7 (f16: 11.09)",
    "sigmoid": "1 / (1 + exp(-x)), whose exp overflows below -88.7 (f16: -11.09)",
    "sin": f"nothing beyond pi; {_MEND}",
    "cos": f"nothing beyond pi; {_MEND}",
    "tan": f"nothing beyond pi; {_MEND}",
    "tanh": "nothing once exp overflows, above 88.7 (f16: 11.09)",
    "pow": "exp2(y * log2(x)), nothing for x < 0",
    "log": "nothing for x <= 0",
    "log2": "nothing for x <= 0",
    "rsqrt": "nothing for x <= 0",
    "sqrt": "nothing for x < 0",
}


def _discrete(output: Uncertain, carved: np.ndarray, ties: np.ndarray | None) -> Bound:
    dtype = str(carved.dtype)
    low, high = (np.broadcast_to(end, carved.shape).astype(np.float64) for end in (output.low, output.high))
    # The reference may have rounded to the other side of a step, and a device to either.
    reference = carved.astype(np.float64)
    if ((reference < low) | (reference > high)).any():
        raise NotDerivable("its result is not what the reference platform gives")
    error = np.maximum(high - reference, reference - low)
    error = np.where(np.isnan(error), np.inf, error)
    reasons = [f"{dtype}: exact"] if not error.any() else [_steps(dtype, error)]
    if ties is not None:
        reasons.append(f"{int(ties[-1, 0]) + 1} groups of equals, any of which may be chosen")
    same = bool((error == error.reshape(-1)[:1]).all()) and np.isfinite(error).all()
    bound = None if same else _rounded_up(np.ceil(error))
    return Bound(bound, ties, float(np.ceil(_largest_finite(error))), tuple(reasons))


def _steps(dtype: str, error: np.ndarray) -> str:
    moved, unbounded = int(np.count_nonzero(error)), int(np.count_nonzero(np.isinf(error)))
    said = f"{dtype}: rounding may move {moved} of {error.size} elements, by up to {np.ceil(_largest_finite(error)):g}"
    return f"{said}; WGSL promises nothing for {unbounded}" if unbounded else said


def _rounded_up(bound: np.ndarray) -> np.ndarray:
    """In float32, and no less; of what is not negative."""
    with np.errstate(over="ignore"):
        narrow: np.ndarray = np.asarray(bound).astype(np.float32)
    # The bits of the next number are one more.
    bits = narrow.view(np.int32)
    bits += narrow < bound
    return narrow


def _median(values: np.ndarray) -> float:
    """As `np.median` of a row without NaN, which is put into another order: in half the time."""
    middle = values.size // 2
    values.partition(middle)
    if values.size % 2:
        return float(values[middle])
    return float(np.mean(np.array([values[:middle].max(), values[middle]])))


def _parts(runs: Sequence[Uncertain]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [run.value for run in runs], [run.spread for run in runs]


def _flat(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """As a row; what is the same everywhere is not written out."""
    if array.size == 1:
        return np.broadcast_to(array.reshape(1), (math.prod(shape),))
    return np.broadcast_to(array, shape).reshape(-1)


def _largest_finite(array: np.ndarray) -> float:
    return float(np.max(array[np.isfinite(array)], initial=0.0))
