"""Carved tests: t = (F, I, O), one operator call of one step of one real run (TapML paper, "Test Carving")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tapml.suite.tensors import TensorRef


@dataclass(frozen=True)
class Tolerance:
    """Element e of an output passes when |got - expected| <= absolute + relative * |expected|.

    `reasons` say in words what the bound is made of.
    """

    absolute: float
    relative: float
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"absolute": self.absolute, "relative": self.relative, "reasons": list(self.reasons)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Tolerance:
        return Tolerance(float(document["absolute"]), float(document["relative"]), tuple(document.get("reasons", ())))


@dataclass(frozen=True)
class CarvedTest:
    """One recorded call: node, kernel, the step it was carved in, inputs, outputs and their tolerances."""

    id: str
    node: str
    kernel: str
    step: int
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    tolerances: tuple[Tolerance, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "node": self.node,
            "kernel": self.kernel,
            "step": self.step,
            "inputs": [ref.to_json() for ref in self.inputs],
            "outputs": [ref.to_json() for ref in self.outputs],
            "tolerances": [tolerance.to_json() for tolerance in self.tolerances],
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> CarvedTest:
        return CarvedTest(
            document["id"],
            document["node"],
            document["kernel"],
            int(document["step"]),
            tuple(TensorRef.from_json(ref) for ref in document["inputs"]),
            tuple(TensorRef.from_json(ref) for ref in document["outputs"]),
            tuple(Tolerance.from_json(tolerance) for tolerance in document["tolerances"]),
        )
