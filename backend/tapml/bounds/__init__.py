"""Bounds of what an operator's outputs may differ by on a device, element by element."""

from tapml.bounds.converted import Converted
from tapml.bounds.derive import Bound, Operator
from tapml.bounds.rounding import APPROXIMATED, COARSE
from tapml.bounds.simulation import Simulated, rounded, simulate
from tapml.bounds.stacked import Call
from tapml.bounds.uncertain import NotDerivable

__all__ = [
    "APPROXIMATED",
    "COARSE",
    "Bound",
    "Call",
    "Converted",
    "NotDerivable",
    "Operator",
    "Simulated",
    "rounded",
    "simulate",
]
