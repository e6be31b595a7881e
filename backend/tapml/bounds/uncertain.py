"""Numbers with what they may be off by: running error analysis on whole arrays.

N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.3 (running error analysis):
beside each value, computed here in float64, goes a bound of how far a device's value may be from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

FLOATS = ("float16", "float32")
_UNIT = {"float32": 2.0**-23, "float16": 2.0**-10}
_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14}
_EXPONENT = 0x7FF0000000000000
"""Of a float64's bits, those of the exponent."""
_MAX = {"float32": float(np.finfo(np.float32).max), "float16": 65504.0}


class NotDerivable(Exception):
    """The operator's program has something that no bound can be derived for; says what."""


class Uncertain(NamedTuple):
    """`value`: float64 for floats, int64 or bool for the rest. `error`: float64, not negative, of a shape that
    broadcasts with it; Infinity where nothing is promised; None where the value is exact. `ends`: the least and the
    greatest that it may be, where that is known better: what was rounded to a whole number is often exact on one
    side."""

    value: np.ndarray
    error: np.ndarray | None = None
    ends: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def exact(self) -> bool:
        return self.error is None

    @property
    def spread(self) -> np.ndarray:
        """The error as an array, also where there is none; nobody may write to it."""
        return _no_error(self.value.ndim) if self.error is None else self.error

    @property
    def low(self) -> np.ndarray:
        if self.ends is not None:
            return self.ends[0]
        return self.value if self.error is None else self.value - self.error

    @property
    def high(self) -> np.ndarray:
        if self.ends is not None:
            return self.ends[1]
        return self.value if self.error is None else self.value + self.error


@functools.cache
def _no_error(rank: int) -> np.ndarray:
    zero = np.zeros((1,) * rank)
    zero.flags.writeable = False
    return zero


def elements(number: Uncertain, choose: Callable[[np.ndarray], np.ndarray]) -> Uncertain:
    """Some of its elements. `choose` takes an array of the value's shape."""
    ends = number.ends and (choose(number.ends[0]), choose(number.ends[1]))
    return Uncertain(choose(number.value), None if number.error is None else choose(number.error), ends)


def between(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> Uncertain:
    """A value, and the ends that it is between."""
    return Uncertain(value, distance(value, low, high), (low, high))


def unit(dtype: str) -> float:
    """2^-23 for float32, 2^-10 for float16: one unit in the last place of 1.

    WGSL leaves the rounding mode open ("correctly rounded" means either neighbour), so this is what one operation
    may be off by, relatively (WGSL specification, "Floating Point Accuracy").
    """
    return _UNIT[dtype]


def smallest_normal(dtype: str) -> float:
    return _NORMAL[dtype]


def largest(dtype: str) -> float:
    return _MAX[dtype]


def ulp(magnitude: np.ndarray, dtype: str) -> np.ndarray:
    """The distance of neighbours at a magnitude; below the smallest normal number that of normal numbers."""
    with np.errstate(invalid="ignore"):
        return _spacing(np.abs(magnitude), dtype)


def _spacing(size: np.ndarray, dtype: str) -> np.ndarray:
    """As `ulp`, of what is not negative."""
    power = np.asarray(np.maximum(size, _NORMAL[dtype]), np.float64)
    bits = power.view(np.int64)
    # Without its fraction a number is the power of two below it.
    bits &= _EXPONENT
    power *= _UNIT[dtype]
    return power


def rounded(value: np.ndarray, error: np.ndarray, dtype: str, ulps: float = 1.0) -> Uncertain:
    """The result of a floating-point operation that is off by `error` and then by `ulps` units in the last place.

    What may be subnormal may be flushed to zero; what may overflow, or is no number, has no bound (WGSL
    specification, "Floating Point Evaluation": overflow gives an indeterminate value). A sum that rounds to the
    largest number does not count as overflow: implementations round to nearest, and real models add a score to a mask
    of the lowest number.
    """
    return Uncertain(value, _off(value, error, dtype, ulps)[0])


def _off(value: np.ndarray, error: np.ndarray, dtype: str, ulps: float) -> tuple[np.ndarray, bool]:
    """What `rounded` is off by, and whether none of it may overflow (then all is finite).

    Most numbers are neither exact nor subnormal nor beyond the range: what they would need is computed where one is.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        least = np.abs(value)
        size = least + error
        total = error
        if ulps:
            total = _spacing(size, dtype)
            if ulps != 1.0:
                total *= ulps
            total += error
            # Comparisons of a whole's least and largest element are false where one is no number.
            if ulps <= 1.0 and not error.min(initial=np.inf) > 0:
                # Correctly rounded: what the dtype holds exactly stays as it is.
                total = np.where((value.astype(np.dtype(dtype)) == value) & (error == 0), 0.0, total)
        least = least - error
        if not least.min(initial=np.inf) >= _NORMAL[dtype]:
            total = total + _NORMAL[dtype] * ((least < _NORMAL[dtype]) & (size > 0))
        # Half a unit above the largest number still rounds down to it.
        most = _MAX[dtype] * (1.0 + _UNIT[dtype] / 4.0)
        if size.max(initial=0.0) < most:
            return np.broadcast_to(total, size.shape), True
        return np.where(size < most, total, np.inf), False


def add(a: Uncertain, b: Uncertain, dtype: str, sign: int = 1) -> Uncertain:
    """a + b, or a - b. Where an operand was rounded itself it may be a sum, and sums may be reassociated: off by a
    unit of the largest of the three then."""
    with np.errstate(invalid="ignore", over="ignore"):
        value = a.value + b.value if sign > 0 else a.value - b.value
        error = a.spread + b.spread
        off, inside = _off(value, error, dtype, 1.0)
        if not inside:
            off = _of_infinities(value, off, a, b)
        if a.exact and b.exact:
            return Uncertain(value, off)
        if _has_ends(a, b) and _are_whole(dtype, a, b):
            ends = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
            return between(value, a.low + ends[0], a.high + ends[1])
        larger = np.maximum(np.abs(a.value), np.abs(b.value))
        extra = _spacing(larger, dtype)
        extra -= _spacing(np.abs(value), dtype)
        # A sum that is larger than both needs nothing more, nor does one that is exact.
        np.fmax(extra, 0.0, out=extra)
        if not off.min(initial=np.inf) > 0:
            extra = extra * (off > 0)
        off = off + extra
        for operand in (a, b):
            # Adding nothing moves nothing, however the sum is ordered.
            off = _where_exactly(0.0, operand, error, off)
        return Uncertain(value, _beside_the_largest(larger, off, a, b, dtype))


def _beside_the_largest(larger: np.ndarray, off: np.ndarray, a: Uncertain, b: Uncertain, dtype: str) -> np.ndarray:
    """What a sum is off by, where the `larger` of both is the largest number, or the lowest, and the other is lost
    beside it: by what is lost, for it rounds to that number (`rounded`), and by no unit, which would be beyond it."""
    most = _MAX[dtype]
    near = most * _UNIT[dtype] / 4.0
    if not larger.max(initial=0.0) > most - near:
        return off
    lost = a.spread + b.spread + np.minimum(np.abs(a.value), np.abs(b.value))
    return np.where((np.abs(larger - most) < near) & (lost < near), np.minimum(off, lost), off)


def multiply(a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
    with np.errstate(invalid="ignore", over="ignore"):
        value = a.value * b.value
        error = product_error(a, b)
        off, inside = _off(value, error, dtype, 1.0)
        if not inside:
            off = _of_infinities(value, off, a, b)
        exact = off
        for operand in (a, b):
            exact = _where_exactly(1.0, operand, error, exact)
        return Uncertain(value, exact if inside else np.where(np.isfinite(value), exact, off))


def _where_exactly(size: float, number: Uncertain, error: np.ndarray, off: np.ndarray) -> np.ndarray:
    """`error` where a number is of this `size` and off by nothing, elsewhere `off`."""
    is_it = (np.abs(number.value) if size else number.value) == size
    if not is_it.any():
        return off
    return np.where(is_it if number.error is None else is_it & (number.error == 0), error, off)


def _of_infinities(value: np.ndarray, off: np.ndarray, a: Uncertain, b: Uncertain) -> np.ndarray:
    """An infinity that an operand is already, not one that the operation overflows to, stays what IEEE 754 makes of it:
    models mask with minus infinity, and what a kernel is given is not its own doing."""
    given = (np.isinf(a.value) & (a.spread == 0)) | (np.isinf(b.value) & (b.spread == 0))
    known = given & np.isinf(value) & np.isfinite(a.spread) & np.isfinite(b.spread)
    return np.where(known, 0.0, off) if known.any() else off


def product_error(a: Uncertain, b: Uncertain) -> np.ndarray:
    """What a product is off by because its factors are."""
    if a.exact and b.exact:
        return a.spread
    for exact, other in ((a, b), (b, a)):
        # An infinity times no error is no number: then as below.
        if exact.exact and np.isfinite(other.value).all() and np.isfinite(other.spread).all():
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.abs(exact.value) * other.spread
            break
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(a.value) * b.spread + np.abs(b.value) * a.spread + a.spread * b.spread
    # 0 * Infinity: what nothing is promised for stays so.
    return error if error.min(initial=0.0) >= 0 else np.where(np.isnan(error), np.inf, error)


def divide(a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
    """2.5 ULP for divisors within the normal range and no bound outside (WGSL specification, "x / y").

    0 / y is 0: units in the last place of 0 are subnormal numbers, which neither a division nor a product with the
    divisor's reciprocal gives. A condition may ask whether the quotient is 0, so as not to divide by it.
    """
    power = {"float32": 2.0**126, "float16": 2.0**14}[dtype]
    with np.errstate(all="ignore"):
        value = a.value / b.value
        least, most = np.abs(b.value) - b.spread, np.abs(b.value) + b.spread
        error = (a.spread + np.abs(value) * b.spread) / least
        outside = ~((least >= 1 / power) & (most <= power))
    if (unknown := np.isnan(value)).any():
        value = np.where(unknown, 0.0, value)
    found = rounded(value, error, dtype, 2.5)
    return without_bound(Uncertain(value, _where_exactly(0.0, a, np.zeros(()), found.spread)), outside)


def without_bound(number: Uncertain, where: np.ndarray) -> Uncertain:
    """Nothing is promised `where` this is true."""
    where = where | np.isnan(number.spread)
    return Uncertain(number.value, np.where(where, np.inf, number.spread)) if where.any() else number


def extremum(a: Uncertain, b: Uncertain, *, largest: bool) -> Uncertain:
    """The larger or the smaller of two."""
    choose = np.maximum if largest else np.minimum
    value = choose(a.value, b.value)
    if a.exact and b.exact:
        return Uncertain(value)
    found = between(value, choose(a.low, b.low), choose(a.high, b.high))
    return found if _has_ends(a, b) else Uncertain(value, found.error)


def distance(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far the ends of an interval are from a value within it."""
    with np.errstate(invalid="ignore"):
        error: np.ndarray = np.maximum(high - value, value - low)
        if np.isfinite(error).all():
            return error
        up = np.where(high == value, 0.0, high - value)
        down = np.where(low == value, 0.0, value - low)
        error = np.maximum(up, down)
    return np.where(np.isnan(error), np.inf, error)


def chosen(condition: np.ndarray, unsure: np.ndarray | None, yes: Uncertain, no: Uncertain) -> Uncertain:
    """`yes` where the condition holds, else `no`; where the condition is `unsure` it may be either."""
    value = np.where(condition, yes.value, no.value)
    if unsure is None and yes.exact and no.exact:
        return Uncertain(value)
    error = np.where(condition, yes.spread, no.spread)
    if unsure is None and not _has_ends(yes, no):
        return Uncertain(value, error)
    with np.errstate(invalid="ignore"):
        low, high = (np.where(condition, *pair) for pair in ((yes.low, no.low), (yes.high, no.high)))
        if unsure is not None:
            low = np.where(unsure, np.minimum(yes.low, no.low), low)
            high = np.where(unsure, np.maximum(yes.high, no.high), high)
            error = np.where(unsure, distance(value, low, high), error)
    return Uncertain(value, error, (low, high) if _has_ends(yes, no) else None)


def _are_whole(dtype: str, *numbers: Uncertain) -> bool:
    """Whether they are whole numbers, whichever they are, whose sums and differences the dtype holds exactly."""
    most = 0.5 / _UNIT[dtype]
    arrays = [array for number in numbers for array in (number.value, number.low, number.high)]
    known = all(number.exact or number.ends is not None for number in numbers)
    return known and all((np.abs(array) <= most).all() and np.array_equal(array, np.rint(array)) for array in arrays)


def _has_ends(*numbers: Uncertain) -> bool:
    return any(number.ends is not None for number in numbers)
