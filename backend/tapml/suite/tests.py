"""Carved tests: t = (F, I, O), one operator call of one step of one real run (TapML paper, "Test Carving")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tapml.protocol.fields import ToleranceDocument
from tapml.suite.tensors import TensorRef


@dataclass(frozen=True)
class Tolerance:
    """What one output of a test may differ by; `reasons` say in words what that is made of.

    With `bound`, a float32 tensor of the output's shape, element e passes when |got - expected| <= bound[e]. Where
    bound[e] is Infinity the element is **unbounded**: WGSL promises nothing there, so it neither passes nor fails.
    `absolute` and `relative` are a summary then. Without it, e passes when
    |got - expected| <= absolute + relative * |expected|.

    With `ties`, for an output of indices: an int32 tensor of rows (group, kind, number), kind 0 for an element's
    position (row-major) and 1 for a value. The elements at a group's positions pass when all of them are among the
    group's values and no two are equal: the operator may choose among equals (argmax, top-k, sort).
    """

    absolute: float
    relative: float
    reasons: tuple[str, ...] = ()
    bound: TensorRef | None = None
    ties: TensorRef | None = None

    @property
    def refs(self) -> tuple[TensorRef, ...]:
        """The tensors it is made of."""
        return tuple(ref for ref in (self.bound, self.ties) if ref is not None)

    def to_json(self) -> ToleranceDocument:
        """JSON; `bound` and `ties` only where there are such."""
        document: ToleranceDocument = {
            "absolute": self.absolute,
            "relative": self.relative,
            "reasons": list(self.reasons),
        }
        if self.bound is not None:
            document["bound"] = self.bound.to_json()
        if self.ties is not None:
            document["ties"] = self.ties.to_json()
        return document


@dataclass(frozen=True)
class CarvedTest:
    """One recorded call: node, kernel, the step it was carved in, inputs, outputs and their tolerances, sizes."""

    id: str
    node: str
    kernel: str
    step: int
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    tolerances: tuple[Tolerance, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of the symbols of its kernel."""

    @property
    def refs(self) -> tuple[TensorRef, ...]:
        """Every tensor of it: inputs, outputs, and what its tolerances are made of."""
        return (*self.inputs, *self.outputs, *(ref for tolerance in self.tolerances for ref in tolerance.refs))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "node": self.node,
            "kernel": self.kernel,
            "step": self.step,
            "inputs": [ref.to_json() for ref in self.inputs],
            "outputs": [ref.to_json() for ref in self.outputs],
            "tolerances": [tolerance.to_json() for tolerance in self.tolerances],
            **({"sizes": dict(self.sizes)} if self.sizes else {}),
        }
