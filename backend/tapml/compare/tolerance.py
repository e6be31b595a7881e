"""Tolerances of carved tests: derived bounds for each element, and an estimate where none can be derived.

Bounds are derived by tapml.bounds. For an operator that it has no rules for, an output's tolerance is estimated as
`absolute + relative * |expected|`, made of
- the operator's sensitivity at the carved inputs: how far the reference itself moves when every floating-point
  input changes by one unit in the last place (Monte Carlo arithmetic), times a factor for the rounding inside:
  2 sqrt(K) for sums of K terms in any order (the random-walk growth of the worst-case K of gamma_K) and one for
  each further operation;
- what WGSL promises about the builtins used (WGSL specification, "Accuracy of concrete floating-point
  expressions"), in ULP and in absolute terms;
- u = 2^-23 for f32 and 2^-10 for f16: WGSL leaves the rounding mode open, so one operation may be off by a whole ULP.
Operators that only move values are exact, and so are integer outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapml.bounds import Bound
from tapml.compare.elements import largest
from tapml.operators.numerics import Numerics
from tapml.suite import TensorRef, Tolerance

UNIT = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
_INTEGER_VIEW = {"float32": np.int32, "float16": np.int16, "bfloat16": np.int16}

# WGSL's ULP bounds. Where they grow with the argument (exp: 3 + 2|x|) |x| up to 16 is assumed: beyond it exp of a
# shifted softmax argument is below 1e-7 and no longer seen. erf is no builtin: TVM writes a rational polynomial.
_BUILTIN_ULP = {
    "exp": 35.0, "exp2": 35.0, "exp10": 70.0, "sigmoid": 40.0, "log": 3.0, "log2": 3.0, "log10": 5.0, "log1p": 5.0,
    "sqrt": 3.0, "rsqrt": 2.0, "pow": 70.0, "tan": 8.0, "sinh": 40.0, "cosh": 40.0, "atan": 4096.0, "atan2": 4096.0,
    "asin": 4096.0, "acos": 4096.0, "erf": 16.0, "fmod": 2.0,
}  # fmt: skip
_BUILTIN_ABSOLUTE = {
    "tanh": 1e-5,
    "sin": 2.0**-11,
    "cos": 2.0**-11,
    "log": 2.0**-21,
    "log2": 2.0**-21,
    "erf": 1e-6,
}

# Nothing may hide behind a kernel that is chaotic at its inputs (a step function, say): the sensitivity part
# never exceeds this share of the largest output.
_CAP = {"float32": 1e-3, "float16": 3e-2, "bfloat16": 1e-1}

_AT_ONCE = 1 << 16
"""Elements: weights are large, and so would be what comes between them and what they are moved to."""


def perturb(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A copy with every finite, nonzero floating-point element moved by one ULP up or down at random."""
    view = _INTEGER_VIEW.get(str(array.dtype))
    if view is None:
        return array
    flat = array.reshape(-1)
    signs = np.unpackbits(np.frombuffer(random.bytes(-(-flat.size // 8)), np.uint8), count=flat.size).view(np.int8)
    perturbed = np.empty_like(flat)
    for start in range(0, flat.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        given = flat[part]
        moved = (given.view(view) + (2 * signs[part] - 1).astype(view)).view(array.dtype)
        keep = (given == 0) | ~np.isfinite(given.astype(np.float32, copy=False))
        perturbed[part] = np.where(keep, given, moved)
    return perturbed.reshape(array.shape)


def spread(expected: np.ndarray, moved: np.ndarray) -> float:
    """Largest finite distance between the reference's output and the output for perturbed inputs."""
    with np.errstate(invalid="ignore", over="ignore"):
        return largest(moved.astype(np.float64) - expected.astype(np.float64))


def derived(bound: Bound, put: Callable[[np.ndarray], TensorRef]) -> Tolerance:
    """The tolerance of a derived bound; `put` stores its tensors."""
    return Tolerance(
        bound.absolute,
        0.0,
        bound.reasons,
        None if bound.bound is None else put(bound.bound),
        None if bound.ties is None else put(bound.ties),
    )


def estimated(numerics: Numerics, expected: np.ndarray, moved: Sequence[np.ndarray]) -> Tolerance:
    """The tolerance of one output: `expected` is the reference's, `moved` its values for perturbed inputs."""
    dtype = str(expected.dtype)
    if dtype not in UNIT:
        return Tolerance(0.0, 0.0, (f"{dtype}: exact",))
    if numerics.exact:
        return Tolerance(0.0, 0.0, ("only moves or selects values: exact",))
    unit = UNIT[dtype]
    magnitude = largest(expected.astype(np.float32, copy=False))
    ulps = sum(_BUILTIN_ULP.get(name, 4.0) for name in numerics.builtins)
    terms = numerics.accumulation_length
    factor = 4.0 + numerics.operations + ulps + 2.0 * math.sqrt(terms)
    sensitivity = max((spread(expected, other) for other in moved), default=0.0)
    from_inputs = min(factor * sensitivity, _CAP[dtype] * magnitude)
    from_builtins = sum(_BUILTIN_ABSOLUTE.get(name, 0.0) for name in numerics.builtins) * max(1.0, magnitude)
    relative = (2.0 + numerics.operations + ulps) * unit
    reasons = [
        f"{dtype}: one unit in the last place is {unit:.3g} relative",
        f"sensitivity: one ULP at the inputs moves the output by up to {sensitivity:.3g}; times {factor:.3g} "
        f"(4 + {numerics.operations} operations + {ulps:g} ULP of builtins + 2 sqrt({terms}) for the sum) "
        f"gives {from_inputs:.3g} absolute",
        f"rounding: {relative / unit:.3g} ULP = {relative:.3g} relative",
    ]
    if numerics.builtins:
        reasons.append(
            f"builtins {', '.join(numerics.builtins)}: WGSL allows {ulps:g} ULP and {from_builtins:.3g} absolute"
        )
    # Any subnormal may be flushed to zero, at every step of a sum.
    flush = _SMALLEST_NORMAL[dtype] * (1 + terms)
    return Tolerance(from_inputs + from_builtins + flush, relative, tuple(reasons))


def shares(shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Of what each element of a tensor may differ by, a random one: float32 within -1 and 1."""
    found = np.empty(shape, np.float32)
    into = found.reshape(-1)
    for start in range(0, into.size, _AT_ONCE):
        part = into[start : start + _AT_ONCE]
        part[:] = random.uniform(-1.0, 1.0, part.shape)
    return found


def noisy(value: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """`value` with every element moved by so much, where that leaves it finite: a device just good enough, if they are
    `shares` of what it may differ by."""
    moved = np.empty(value.shape, value.dtype)
    into, given, by = moved.reshape(-1), value.reshape(-1), moves.reshape(-1)
    for start in range(0, given.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        with np.errstate(over="ignore", invalid="ignore"):  # masks hold the largest numbers, and infinities
            found: Any = given[part] + by[part]
            into[part] = np.where(np.isfinite(found), found, given[part])
    return moved
