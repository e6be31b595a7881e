"""The ONNX backend node tests of operators that a deployed model may hold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

_DOMAINS = ("", "ai.onnx")
_NOT_DEPLOYED = {
    "SoftmaxCrossEntropyLoss": "training",
    "NegativeLogLikelihoodLoss": "training",
    "Bernoulli": "random",
    "ImageDecoder": "decodes files",
    "TfIdfVectorizer": "text",
}
"""Operators that are left out, and why."""
_SMALL_FLOATS = ("float8", "float4", "int4", "uint4", "int2", "uint2")


@dataclass(frozen=True)
class Case:
    """One test of the `onnx` package: a model of (mostly) one operator, inputs and what it gives for them."""

    name: str
    operator: str
    opset: int
    test: Any

    @property
    def inputs(self) -> list[Any]:
        return list(self.test.data_sets[0][0])

    @property
    def expected(self) -> list[Any]:
        return list(self.test.data_sets[0][1])


@cache
def cases() -> dict[str, Case]:
    """By name. Left out are training, randomness, strings, sequences, optionals, types of less than 8 bits and operator
    sets of other domains, and the same cases with their operator written out by others.
    """
    return {test.name: _case(test) for test in _collected() if _deployed(test)}


def facts(name: str) -> dict[str, Any]:
    """Of a case, for its record."""
    case = cases()[name]
    return {"operator": case.operator, "opset": case.opset}


@cache
def _collected() -> list[Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the numbers that its cases are made of
        return list(collect_testcases(None))


def _case(test: Any) -> Case:
    (node, *_) = test.model.graph.node
    opset = max((entry.version for entry in test.model.opset_import if entry.domain in _DOMAINS), default=1)
    return Case(test.name, str(node.op_type), int(opset), test)


def _deployed(test: Any) -> bool:
    graph = test.model.graph
    if "_expanded" in test.name or not test.data_sets:
        return False
    if any(node.domain not in _DOMAINS or node.op_type in _NOT_DEPLOYED for node in graph.node):
        return False
    if any(node.op_type in ("BatchNormalization", "Dropout") and "train" in test.name for node in graph.node):
        return False
    return all(map(_plain, [*graph.input, *graph.output])) and all(map(_is_array, _arrays(test)))


def _plain(value: Any) -> bool:
    """Whether an input or output is a tensor of numbers that takes whole bytes."""
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        return False
    name = TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
    return name not in ("string", "undefined", "complex64", "complex128") and not name.startswith(_SMALL_FLOATS)


def _arrays(test: Any) -> Iterator[Any]:
    for inputs, outputs in test.data_sets[:1]:
        yield from inputs
        yield from outputs


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | float | int | bool)
