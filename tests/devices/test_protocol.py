"""The protocol has one definition; its JSON Schema in docs/ is made from it, and what is sent fits it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from helpers import verdict
from tapml.devices import Blobs
from tapml.devices.messages import KernelMessages
from tapml.protocol import methods
from tapml.protocol.schema import schema
from tapml.protocol.session import Call
from tapml.suite import Suite

SCHEMA = Path(__file__).parents[2] / "docs" / "protocol.schema.json"


def test_the_schema_in_docs_is_the_definitions() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "run `make schemas`"


def messages(suite: Suite) -> dict[str, Any]:
    with KernelMessages(suite, Blobs()) as built:
        kernels, tests = map(built.kernel, suite.kernels), map(built.test, suite.tests)
        return methods.ValidateParams(kernels=list(kernels), tests=list(tests)).model_dump()


def test_what_is_sent_fits_the_protocol(suite: Suite) -> None:
    call = {"call": "c", "method": "validate", "hang_seconds": 30.0, "params": messages(suite)}
    TypeAdapter(Call).validate_python(call)
    with pytest.raises(ValidationError):
        TypeAdapter(Call).validate_python({**call, "method": "exec"})


def test_the_fake_runner_speaks_like_a_real_one(suite: Suite) -> None:
    found = verdict(messages(suite)["tests"][0])
    assert methods.TestVerdict.model_validate(found).model_dump()["outputs"] == found["outputs"]
