"""What a verdict comes to in a few words, the same in every report: how much of its bound the worst element takes.

runner_js/kit/headline.ts is the same for pages; tests/vectors/headline.json holds both to the same words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tapml.protocol.base import JsonNumber
from tapml.protocol.fields import ToleranceDocument
from tapml.results.base import OutputElement

OUTSIDE = 1000
"""Times its bound, beyond which an error's size tells no more."""


def share_of(
    worst: OutputElement | None, tolerances: Sequence[ToleranceDocument], max_abs_error: float | None
) -> float | None:
    """The part of what it may differ by that the worst element takes: 1 for all of it, infinity for NaN where a number
    was expected. None where nothing was compared, or nothing is known that it may differ by."""
    if worst is None:
        # Where no element differs none is the worst.
        return 0.0 if max_abs_error == 0 else None
    expected, got = float(worst["expected"]), float(worst["got"])
    allowed = _allowed(worst, expected, tolerances)
    if allowed == math.inf:
        return None
    if str(worst["expected"]) == str(worst["got"]):
        return 0.0
    if allowed is None or not (math.isfinite(expected) and math.isfinite(got)):
        return None if worst["bound"] is None else math.inf
    return abs(got - expected) / allowed if allowed > 0 else math.inf


def _allowed(worst: OutputElement, expected: float, tolerances: Sequence[ToleranceDocument]) -> float | None:
    """Its own bound; without one what the tolerance's numbers say of the expected value, where that is a number."""
    if worst["bound"] is not None:
        return float(worst["bound"])
    if worst["output"] >= len(tolerances) or not math.isfinite(expected):
        return None
    tolerance = tolerances[worst["output"]]
    return float(tolerance["absolute"]) + float(tolerance["relative"]) * abs(expected)


def as_json(share: float | None) -> JsonNumber | None:
    """As documents tell it."""
    return "Infinity" if share == math.inf else share


def share_text(share: float) -> str:
    """ "354 ×", "12 %", "> 1000 ×": for the cell of a table."""
    if share > OUTSIDE:
        return f"> {OUTSIDE} ×"
    return f"{_digits(share, 3)} ×" if share > 1 else f"{_digits(share * 100, 2)} %"


def of_bound(result: Any) -> str | None:
    """ "354 × its bound", "12 % of its bound" of a test's result; None where nothing was compared or there is no
    bound."""
    share = share_of(result["worst"], result.get("tolerances", ()), result["max_abs_error"])
    return None if share is None else times_bound(share)


def times_bound(share: float) -> str:
    """ "354 × its bound", "12 % of its bound"."""
    if share > OUTSIDE:
        return f"more than {OUTSIDE} × its bound"
    return f"{share_text(share)} its bound" if share > 1 else f"{share_text(share)} of its bound"


def headed(result: Any) -> str:
    """A result's message; where elements are wrong, behind how far the worst one is beyond its bound."""
    headline = of_bound(result) if result["verdict"] == "fail" and result["mismatched"] else None
    return f"{headline}: {result['message']}" if headline and result["message"] else str(result["message"])


def _digits(value: float, digits: int) -> str:
    """At most so many significant ones, and all before the point; halves go up, as in JavaScript."""
    if value == 0:
        return "0"
    found = Decimal(value)
    places = digits if value < 1e-3 else max(digits, math.ceil(math.log10(value + 1)))
    rounded = found.quantize(Decimal(1).scaleb(found.adjusted() - places + 1), ROUND_HALF_UP)
    if value < 1e-3:
        mantissa, exponent = f"{rounded:e}".split("e")
        return f"{_trimmed(mantissa)}e{int(exponent)}"
    return _trimmed(f"{rounded:f}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
