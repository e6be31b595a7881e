"""What is wrong a million times is told once: no model looks for more."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from tapml.errors import InputError
from tapml.protocol.kernels import Requires
from tapml.protocol.session import Hello, Progress, Reply
from tapml.results.checks import RESULTS
from tapml.sharing.document import ReproDocument
from tapml.strict_json import parse_json
from tapml.suite import tests_document
from tapml.suite.imported import ImportedDocument
from tapml.suite.manifest import Manifest
from tapml.suite.program_document import FunctionDocument

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
        (RESULTS["validation"], {"tests": [{"tolerances": [1] * MANY}], "edited_kernels": [1] * MANY}),
        (RESULTS["offload"], {"steps": [1] * MANY, "kernel_digests": {str(n): 0 for n in range(MANY)}}),
        (RESULTS["locate"], {"kernels": [{"nodes": [1] * MANY, "findings": [1] * MANY}]}),
        (tests_document.TestsDocument, {"tests": [{"inputs": [1] * MANY, "tolerances": [{"reasons": [1] * MANY}]}]}),
        (tests_document.TestsDocument, {"tests": [{"inputs": [{"digest": 1, "shape": ["x"] * MANY}]}]}),
        (ImportedDocument, {"tests": [{"outputs": [1] * MANY}], "sources": [1] * MANY}),
        (FunctionDocument, {"values": [{"shape": ["x"] * MANY}], "nodes": [{"inputs": [1] * MANY}], "inputs": [1]}),
        (Manifest, {"steps": [{"outputs": [1] * MANY}], "parameters": {str(n): 0 for n in range(MANY)}}),
        (ReproDocument, {"inputs": [1] * 900, "files": [1] * 900}),
    ],
    ids=lambda value: ",".join(list(value)[:3]) if isinstance(value, dict) else getattr(value, "__name__", "result"),
)  # fmt: skip
def test_errors_are_few(form: type[BaseModel] | TypeAdapter[Any], found: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as error:
        (form if isinstance(form, TypeAdapter) else TypeAdapter(form)).validate_python(found)
    assert error.value.error_count() < FEW


def test_a_text_of_too_many_values_is_refused_before_they_are_made() -> None:
    with pytest.raises(InputError, match="more than 4000000 values"):
        parse_json(b"[" + b"0," * 5_000_000 + b"0]", "it", "correct it")
