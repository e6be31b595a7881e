"""When is there enough evidence that a rate is above its threshold, or below it?

A likelihood ratio of simple hypotheses (A. Wald, Sequential Tests of Statistical Hypotheses, 1945), mixed over several
alternatives. Where the true rate is at most `threshold`, the ratio of any higher rate to it is a supermartingale that
begins at 1, so the chance that it ever reaches 1 / e is at most e however often it is looked at (J. Ville, 1939; for
watching experiments: R. Johari, P. Koomen, L. Pekelis, D. Walsh, Always Valid Inference, Operations Research 2022).
That is what lets a release be watched every second without raising false alarms.

The devices are taken as independent of each other, each counted once a step.
"""

from __future__ import annotations

import math

_ABOVE = (1.25, 1.5, 2.0, 4.0, 8.0, 32.0, 128.0)
"""Odds of the alternatives, in those of the threshold."""
_BELOW = (0.8, 0.5, 0.25, 0.1, 0.01)


def shows_above(failed: int, devices: int, threshold: float, error: float) -> bool:
    """Is the rate above `threshold`? Says so wrongly, ever, with a chance of at most `error`."""
    return _log_evidence(failed, devices, threshold, _ABOVE) >= -math.log(error)


def shows_below(failed: int, devices: int, threshold: float, error: float) -> bool:
    """Is the rate below `threshold`? As `shows_above`. Of devices without a failure three divided by the threshold do
    at an error of 0.05, roughly."""
    return _log_evidence(failed, devices, threshold, _BELOW) >= -math.log(error)


def _log_evidence(failed: int, devices: int, threshold: float, odds: tuple[float, ...]) -> float:
    """The logarithm of the mean likelihood ratio."""
    terms = []
    for factor in odds:
        # p1 / p0 and (1 - p1) / (1 - p0), where p1 has `factor` times the odds of p0.
        well = 1.0 / (1.0 - threshold + factor * threshold)
        terms.append(failed * math.log(factor * well) + (devices - failed) * math.log(well))
    highest = max(terms)
    return highest + math.log(sum(math.exp(term - highest) for term in terms) / len(terms))
