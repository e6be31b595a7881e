"""What is wrong a million times is told once: no model looks for more."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tapml.errors import InputError
from tapml.protocol import Hello, Progress, Reply
from tapml.protocol.kernels import Requires
from tapml.sharing.document import ReproDocument
from tapml.strict_json import parse_json
from tapml.suite import tests_document
from tapml.suite.graph_document import GraphDocument
from tapml.suite.imported import ImportedDocument
from tapml.suite.locate_document import LocateDocument
from tapml.suite.manifest import Manifest
from tapml.suite.offload_document import OffloadDocument
from tapml.suite.result_documents import ValidationDocument

MANY = 300_000
FEW = 40
"""Errors: one for each field of a model may still be told."""


@pytest.mark.parametrize(
    ("form", "found"),
    [
        (Requires, {"features": [1] * MANY, "limits": {str(n): "x" for n in range(MANY)}}),
        (Requires, {str(n): 0 for n in range(MANY)}),
        (Hello, {"features": [1] * 190, "limits": {str(n): "x" for n in range(190)}}),
        (Hello, {str(n): 0 for n in range(MANY)}),
        (Progress, {"call": "x", "number": 0, "progress": {"kind": "verdict", "outputs": [1] * MANY}}),
        (Progress, {"call": "x", "progress": {"kind": "verdict", "outputs": [{"ulp_histogram": ["x"]}] * MANY}}),
        (Reply, {"call": "x", "number": 0, "ok": False, "error": {"arguments": [1] * MANY, "diagnostics": [1] * MANY}}),
        (ValidationDocument, {"tests": [{"tolerances": [1] * MANY}], "edited_kernels": [1] * MANY}),
        (OffloadDocument, {"steps": [1] * MANY, "kernel_digests": {str(n): 0 for n in range(MANY)}}),
        (LocateDocument, {"kernels": [{"nodes": [1] * MANY, "findings": [1] * MANY}]}),
        (tests_document.TestsDocument, {"tests": [{"inputs": [1] * MANY, "tolerances": [{"reasons": [1] * MANY}]}]}),
        (tests_document.TestsDocument, {"tests": [{"inputs": [{"digest": 1, "shape": ["x"] * MANY}]}]}),
        (ImportedDocument, {"tests": [{"outputs": [1] * MANY}], "sources": [1] * MANY}),
        (GraphDocument, {"values": [{"shape": ["x"] * MANY}], "nodes": [{"inputs": [1] * MANY}], "inputs": [1] * MANY}),
        (Manifest, {"steps": [{"outputs": [1] * MANY}], "parameters": {str(n): 0 for n in range(MANY)}}),
        (ReproDocument, {"inputs": [1] * 900, "files": [1] * 900}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else ",".join(list(value)[:3]),
)  # fmt: skip
def test_errors_are_few(form: type[BaseModel], found: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as error:
        form.model_validate(found)
    assert error.value.error_count() < FEW


def test_a_text_of_too_many_values_is_refused_before_they_are_made() -> None:
    with pytest.raises(InputError, match="more than 4000000 values"):
        parse_json(b"[" + b"0," * 5_000_000 + b"0]", "it", "mend it")
