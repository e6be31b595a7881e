"""Which operators are faulty on a device, and how: operator-wise verdicts, patterns, determinism, the whole model."""

from tapml.locating.locate import Locate

__all__ = ["Locate"]
