"""Bounds of what an operator's outputs may differ by on a device, element by element."""

from tapml.bounds.derive import Bound, Operator
from tapml.bounds.expression import NotDerivable

__all__ = ["Bound", "NotDerivable", "Operator"]
