"""What WGSL promises of its builtin functions, and how TVM spells the functions that WGSL has not.

The numbers are those of the WGSL specification, "Accuracy of Concrete Floating Point Expressions", as the WebGPU
conformance suite tests them. A function takes its argument and its dtype and gives the result with what it may be
off by; Infinity where the specification promises nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from tapml.bounds import uncertain
from tapml.bounds.uncertain import Uncertain, add, divide, multiply, rounded, unit, without_bound

_PI = float(np.float32(math.pi))

# erf is TVM's own: a ratio of polynomials on [-4, 4] (tirx.fast_erf). Its distance from erf, found by evaluating it in
# float64, and the growth of rounding through its 13 steps: 0.37e-6 was measured where fma rounds once; it may twice.
_ERF_ABSOLUTE = {"float32": 1e-6, "float16": 4e-3}


def _constant(value: float, like: Uncertain) -> Uncertain:
    return Uncertain(np.full((1,) * like.value.ndim, value))


def _negative(x: Uncertain) -> Uncertain:
    return Uncertain(-x.value, x.error)


def exp(x: Uncertain, dtype: str) -> Uncertain:
    """3 + 2|x| ULP in f32, 1 + 2|x| in f16."""
    return _exponential(x, dtype, np.exp, np.minimum(x.spread, 700.0), 150.0)


def exp2(x: Uncertain, dtype: str) -> Uncertain:
    """As exp."""
    return _exponential(x, dtype, np.exp2, math.log(2.0) * np.minimum(x.spread, 1000.0), 160.0)


def _exponential(
    x: Uncertain, dtype: str, function: Callable[[np.ndarray], np.ndarray], spread: np.ndarray, underflows: float
) -> Uncertain:
    """`spread`: the argument's, as that of an exponent of e; beyond -`underflows` the result is flushed, however many
    units 2|x| would allow."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = function(x.value)
        size = np.minimum(np.abs(x.value) + x.spread, underflows)
        error = ((3.0 if dtype == "float32" else 1.0) + 2.0 * size) * uncertain.ulp(value, dtype)
        if not x.exact:
            error = value * np.expm1(spread) + error
    return _of_nothing(rounded(value, error, dtype, 0.0), x)


def _of_nothing(found: Uncertain, x: Uncertain) -> Uncertain:
    """exp of what is masked with minus infinity is 0."""
    finite = np.isfinite(x.high)
    if finite.all():
        return found
    found = without_bound(found, ~finite)
    masked = np.isneginf(x.value) & (x.spread == 0)
    return Uncertain(found.value, np.where(masked, 0.0, found.spread))


def log(x: Uncertain, dtype: str, scale: float = 1.0) -> Uncertain:
    """2^-21 (f16: 2^-7) absolute on [0.5, 2], else 3 ULP; `scale` 1 / ln(2) for log2."""
    with np.errstate(all="ignore"):
        value = np.log(x.value) * scale
        error = x.spread / np.maximum(x.low, 0.0) * scale
        near = (x.high >= 0.5) & (x.low <= 2.0)
        absolute = np.where(near, 2.0**-21 if dtype == "float32" else 2.0**-7, 0.0)
        value = np.where(np.isfinite(value), value, 0.0)
    found = rounded(value, error + absolute, dtype, 3.0)
    return without_bound(found, ~(x.low >= uncertain.smallest_normal(dtype)))


log2 = partial(log, scale=1.0 / math.log(2.0))


def rsqrt(x: Uncertain, dtype: str) -> Uncertain:
    """2 ULP for positive arguments, nothing for others."""
    with np.errstate(all="ignore"):
        value = 1.0 / np.sqrt(x.value)
        error = 1.0 / np.sqrt(np.maximum(x.low, 0.0)) - value
        value = np.where(np.isfinite(value), value, 0.0)
    return without_bound(rounded(value, error, dtype, 2.0), ~(x.low > 0))


def sqrt(x: Uncertain, dtype: str) -> Uncertain:
    """Inherited from 1 / inverseSqrt(x); 0 gives 0."""
    with np.errstate(all="ignore"):
        value = np.sqrt(np.maximum(x.value, 0.0))
        error = np.maximum(value - np.sqrt(np.maximum(x.low, 0.0)), np.sqrt(np.maximum(x.high, 0.0)) - value)
    zero = (x.value == 0) & (x.spread == 0)
    found = without_bound(rounded(value, error, dtype, 4.5), (x.low < 0) & ~zero)
    return Uncertain(found.value, np.where(zero, 0.0, found.spread))


def sine(x: Uncertain, dtype: str, function: Callable[[np.ndarray], np.ndarray] = np.sin) -> Uncertain:
    """2^-11 (f16: 2^-7) absolute within [-pi, pi], nothing outside."""
    with np.errstate(invalid="ignore"):
        value = function(np.where(np.isfinite(x.value), x.value, 0.0))
        outside = ~(np.abs(x.value) + x.spread <= _PI * (1 + 2 * unit(dtype)))
    absolute = 2.0**-11 if dtype == "float32" else 2.0**-7
    return without_bound(Uncertain(value, x.spread + absolute), outside)


cosine = partial(sine, function=np.cos)


def reduced_sine(x: Uncertain, dtype: str, function: Callable[[np.ndarray], np.ndarray] = np.sin) -> Uncertain:
    """tapml's own, of any finite argument: its rest within pi / 4 is off by 2^-22, the polynomial by as much."""
    with np.errstate(invalid="ignore"):
        value = function(np.where(np.isfinite(x.value), x.value, 0.0))
    found = without_bound(Uncertain(value, np.minimum(x.spread, 2.0) + 2.0**-20), ~np.isfinite(x.value + x.spread))
    return rounded(value, found.spread, dtype) if dtype == "float16" else found


reduced_cosine = partial(reduced_sine, function=np.cos)


def reduced_tangent(x: Uncertain, dtype: str) -> Uncertain:
    """The quotient of both."""
    found = divide(reduced_sine(x, "float32"), reduced_cosine(x, "float32"), "float32")
    return rounded(found.value, found.spread, dtype) if dtype == "float16" else found


def remainder(x: Uncertain, y: Uncertain, dtype: str) -> Uncertain:
    """fmod, which is exact; where rounding of its operands may turn the quotient, it may be anything below y."""
    with np.errstate(all="ignore"):
        value = np.fmod(x.value, y.value)
        if x.exact and y.exact:
            return Uncertain(value)
        turns = np.trunc(x.value / y.value)
        least, most = ((np.abs(x.value) + s * x.spread) / (np.abs(y.value) - s * y.spread) for s in (-1.0, 1.0))
        same = (np.trunc(least) == np.trunc(most)) & (least >= 0) & (np.abs(y.value) > y.spread)
        error = np.where(same, x.spread + np.abs(turns) * y.spread, 2.0 * (np.abs(y.value) + y.spread))
    return without_bound(Uncertain(value, error), ~np.isfinite(value))


def is_nan(x: Uncertain, dtype: str) -> Uncertain:
    """x != x: an implementation may take it that there is no NaN, and nothing is promised of one."""
    value = np.isnan(x.value)
    return Uncertain(value, np.where(value | ~np.isfinite(x.spread), np.inf, 0.0))


def is_nan_by_bits(x: Uncertain, dtype: str) -> Uncertain:
    """tapml's own. A NaN that the kernel was given is one; of what it computed itself nothing is promised."""
    unsure = ~np.isfinite(x.spread)
    return Uncertain(np.isnan(x.value), np.where(unsure, np.inf, 0.0) if unsure.any() else None)


def tan(x: Uncertain, dtype: str) -> Uncertain:
    """Inherited from sin(x) / cos(x)."""
    return divide(sine(x, dtype), cosine(x, dtype), dtype)


def tanh(x: Uncertain, dtype: str) -> Uncertain:
    """The builtin's 1e-5 absolute, or what TVM makes of it: (1 - e) / (1 + e) with e = exp(-2|x|), which has no end.

    The builtin alone ends where exp overflows: `tanh_builtin`.
    """
    return _at_least(tanh_by_exp(x, dtype), 1e-5 + x.spread)


def tanh_builtin(x: Uncertain, dtype: str) -> Uncertain:
    """Worse of 1e-5 absolute and sinh(x) / cosh(x); nothing once exp overflows (above 88.7, 11.09 in f16)."""
    end = math.log(uncertain.largest(dtype))
    return without_bound(tanh(x, dtype), ~(np.abs(x.value) + x.spread < end))


def tanh_by_exp(x: Uncertain, dtype: str) -> Uncertain:
    """TVM's tanh alone."""
    size = Uncertain(np.abs(x.value), x.error)
    e = exp(_negative(Uncertain(2.0 * size.value, 2.0 * size.spread)), dtype)
    one = _constant(1.0, x)
    found = divide(add(one, e, dtype, -1), add(one, e, dtype), dtype)
    return Uncertain(np.copysign(found.value, x.value), found.error)


def sigmoid(x: Uncertain, dtype: str) -> Uncertain:
    """TVM's 1 / (1 + exp(-x))."""
    one = _constant(1.0, x)
    return divide(one, add(one, exp(_negative(x), dtype), dtype), dtype)


def sigmoid_of_size(x: Uncertain, dtype: str) -> Uncertain:
    """tapml's own: (1 or e) / (1 + e) with e = exp(-|x|), in float32."""
    one, spread, right = _constant(1.0, x), x.spread, x.value >= 0
    exact = exp(Uncertain(-np.abs(x.value)), "float32")
    top = Uncertain(np.where(right, 1.0, exact.value), np.where(right, 0.0, exact.spread))
    below = add(one, exact, "float32")
    found = divide(top, below, "float32")
    error = found.spread
    if not x.exact:
        with np.errstate(all="ignore"):
            # Within `spread` the slope, and what rounding makes, grow by no more than this.
            moved = exact.value / np.square(below.value) * np.expm1(spread)
            moved += error * (1.0 + spread) * np.exp(2.0 * spread)
            # Between 0 and 1, whatever it is of.
            moved = np.fmin(moved, 1.0 + error)
        if not (finite := np.isfinite(x.high)).all():
            moved = np.where(finite, moved, np.inf)
        error = moved if spread.min(initial=np.inf) > 0 else np.where(spread == 0, error, moved)
    return rounded(found.value, error, dtype) if dtype == "float16" else Uncertain(found.value, error)


def erf(x: Uncertain, dtype: str) -> Uncertain:
    """TVM's ratio of polynomials."""
    value = _erf(x.value)
    slope = 2.0 / math.sqrt(math.pi)
    return rounded(value, slope * x.spread + _ERF_ABSOLUTE[dtype], dtype, 1.0)


def _erf(x: np.ndarray) -> np.ndarray:
    # numpy has none; errors of math.erf are below a unit of float64. Element by element: a million take 0.15 s.
    return np.fromiter(map(math.erf, x.reshape(-1).tolist()), np.float64, x.size).reshape(x.shape)


def power(x: Uncertain, y: Uncertain, dtype: str) -> Uncertain:
    """Inherited from exp2(y * log2(x)): nothing for negative x, whatever y is."""
    zero = (x.value == 0) & (x.spread == 0) & (y.low > 0)
    positive = Uncertain(np.where(zero, 1.0, x.value), x.error)
    found = exp2(multiply(y, log2(positive, dtype), dtype), dtype)
    return Uncertain(np.where(zero, 0.0, found.value), np.where(zero, 0.0, found.spread))


def atan(x: Uncertain, dtype: str) -> Uncertain:
    """4096 ULP, 5 in f16."""
    return rounded(np.arctan(x.value), x.spread, dtype, 4096.0 if dtype == "float32" else 5.0)


def whole(x: Uncertain, dtype: str, function: Callable[[np.ndarray], np.ndarray]) -> Uncertain:
    """floor, ceil, round, trunc: exact, and either neighbour where the argument may be on both sides of a step."""
    value = function(x.value)
    if x.exact:
        return Uncertain(value)
    return uncertain.between(value, function(x.low), function(x.high))


def absolute(x: Uncertain, dtype: str) -> Uncertain:
    return Uncertain(np.abs(x.value), x.error)


def _at_least(number: Uncertain, error: np.ndarray) -> Uncertain:
    return Uncertain(number.value, np.maximum(number.spread, error))


FUNCTIONS: Mapping[str, Callable[..., Uncertain]] = {
    "exp": exp,
    "exp2": exp2,
    "log": log,
    "log2": log2,
    "rsqrt": rsqrt,
    "sqrt": sqrt,
    "sin": sine,
    "cos": cosine,
    "tan": tan,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "atan": atan,
    "pow": power,
    "fabs": absolute,
    "floor": partial(whole, function=np.floor),
    "ceil": partial(whole, function=np.ceil),
    "round": partial(whole, function=np.round),
    "nearbyint": partial(whole, function=np.round),
    "trunc": partial(whole, function=np.trunc),
    "isnan": is_nan,
}
"""By TVM's name of the function: of its arguments and their dtype."""

REDUCED: Mapping[str, Callable[..., Uncertain]] = {
    "sin": reduced_sine,
    "cos": reduced_cosine,
    "tan": reduced_tangent,
}
"""Those of a kernel that brings their argument within pi / 4 itself."""

_OWN: Mapping[str, Callable[..., Uncertain]] = {
    **REDUCED,
    "fmod": remainder,
    "isnan": is_nan_by_bits,
    "sigmoid": sigmoid_of_size,
}
"""What a kernel declares itself, for WGSL promises less (compilers/tvm/functions.py)."""


def functions_of(texts: Sequence[str]) -> Mapping[str, Callable[..., Uncertain]]:
    """The functions as a kernel of these WGSL texts has them: its own, or WGSL's."""

    def called(name: str) -> bool:
        # A look for the word first: most texts are long, and have none of them.
        return any(name in text and re.search(rf"\b{name}\s*\(", text) for text in texts)

    own = {name: function for name, function in _OWN.items() if called(f"tapml_{name}") and not called(name)}
    return {**FUNCTIONS, **own} | ({"tanh": tanh_builtin} if called("tanh") else {})
