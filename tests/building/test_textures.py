"""Kernels of a compiled model have textures of one size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tapml.building.kernels import compiled_kernels, kernel_documents
from tapml.errors import InputError
from tapml.suite import Suite


def with_texture(suite: Suite, symbols: list[Any], size: list[Any]) -> str:
    """The first kernel's variant says that it has one, whether or not a launch binds it."""
    name = suite.kernels[0]
    path = suite.path / "kernels" / f"{name}.json"
    document = json.loads(path.read_text())
    document["symbols"] = symbols
    document["variants"][0]["textures"] = [{"dimension": "2d", "format": "r32float", "size": size}]
    path.write_text(json.dumps(document))
    return name


def test_sizes_are_numbers_in_a_compiled_model(suite: Suite) -> None:
    name = with_texture(suite, [], [["ceildiv", 9, 4], 2, 1])
    documents = kernel_documents(suite)
    _, kernels = compiled_kernels(suite, {name: documents[name]})
    assert kernels[0]["variants"][0]["textures"] == [{"dimension": "2d", "format": "r32float", "size": [3, 2, 1]}]


def test_those_of_sizes_that_calls_decide_are_refused(suite: Suite) -> None:
    name = with_texture(suite, [], [4, 2, 1])
    document = kernel_documents(suite)[name]
    document["variants"][0]["textures"][0]["size"][0] = "n"
    with pytest.raises(InputError, match=rf"kernel {name}: variant 256 has textures of sizes that calls decide"):
        compiled_kernels(suite, {name: document})
