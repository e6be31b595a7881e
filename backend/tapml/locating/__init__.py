"""Which operators are faulty on a device, and how: operator-wise verdicts, patterns, determinism, the whole model."""

from tapml.locating.locate import FORMAT, Locate

__all__ = ["FORMAT", "Locate"]
