"""Encodings: the vectors that the runner's are tested with too, and values that kernels store in their own way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapml.errors import InputError
from tapml.program import Node, NodeKind, TensorType, ValueKind
from tapml.program.program import Function, Program, SymbolicType, SymbolicValue
from tapml.suite import TensorRef, Tolerance
from tapml.suite.program_document import read_program
from tapml.suite.tests_document import wrong_tolerance

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/encodings.json").read_text())


def array(vector: Any) -> np.ndarray:
    found = [float(e) if isinstance(e, str) else e for e in vector["elements"]]
    return np.array(found, vector["dtype"]).reshape(vector.get("shape", [-1]))


@pytest.mark.parametrize("vector", VECTORS["stored"], ids=lambda found: f"{found['dtype']} as {found['encoding']}")
def test_what_is_stored_is_what_the_runner_reads(vector: Any) -> None:
    tensor = TensorType(tuple(vector["shape"]), vector["dtype"], vector["encoding"])
    data = tensor.encoded(array(vector))
    assert (data.shape, str(data.dtype)) == (tensor.stored.shape, tensor.stored.dtype)
    assert data.tobytes().hex() == vector["bytes"]
    assert tensor.nbytes == len(bytes.fromhex(vector["bytes"]))
    back = tensor.decoded(bytes.fromhex(vector["bytes"]))
    np.testing.assert_array_equal(back, array(vector), strict=True)


@pytest.mark.parametrize("vector", VECTORS["lost"], ids=lambda found: f"{found['element']} as {found['encoding']}")
def test_nothing_is_rounded_in_silence(vector: Any) -> None:
    tensor = TensorType((len(vector["elements"]),), vector["dtype"], vector["encoding"])
    with pytest.raises(InputError, match=rf"^{vector['element']}\d* is no element .* stored as {vector['encoding']}"):
        tensor.encoded(array(vector))


def function() -> Function:
    """y = scale(view(q)), z = scale(y)."""
    values = {
        name: SymbolicValue(name, name, SymbolicType(shape, "int8"), kind)
        for name, shape, kind in (
            ("q", (2, 4), ValueKind.PARAMETER),
            ("v", (8,), ValueKind.INTERMEDIATE),
            ("y", (8,), ValueKind.INTERMEDIATE),
            ("z", (8,), ValueKind.INTERMEDIATE),
        )
    }
    nodes = [
        Node("n0", NodeKind.VIEW, "reshape", ("q",), ("v",)),
        Node("n1", NodeKind.KERNEL, "scale", ("v",), ("y",)),
        Node("n2", NodeKind.KERNEL, "shift", ("y",), ("z",)),
    ]
    return Function(values, nodes, (), ("z",))


def test_values_are_stored_as_their_kernels_take_them() -> None:
    found = function().stored_as({"scale": ["int4x8", "int8x4"], "shift": ["int8x4", None]})
    assert {name: value.type.encoding for name, value in found.values.items()} == {
        "q": "int4x8",
        "v": "int4x8",
        "y": "int8x4",
        "z": None,
    }
    document = Program((), {"main": found}).to_json()
    assert read_program("program.json", document).to_json() == document


def test_kernels_that_disagree_on_a_value_are_named() -> None:
    with pytest.raises(InputError, match=r"^y is stored by scale as int8x4, and shift as it is: let them agree$"):
        function().stored_as({"scale": ["int4x8", "int8x4"], "shift": [None, None]})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"encoding": "int2x16"}, r"values\[0\].encoding: .*int8x4"),
        ({"encoding": 4}, r"values\[0\].encoding: "),
        (
            {"encoding": "float16"},
            r"values\[0\]: .*a tensor of int8 is not stored as float16, which holds float16, float32",
        ),
        ({"encoding": "int8x4", "dtype": "int64"}, r"values\[0\]: .*a tensor of int64 is not stored as int8x4"),
        ({"encoding": "int8x4"}, r"view n0 shows int8\[2, 4\] as int8x4 as int8\[8\], which has other elements"),
    ],
)
def test_a_hostile_encoding_is_one_sentence(changed: Any, words: str) -> None:
    document = Program((), {"main": function()}).to_json()
    document["functions"]["main"]["values"][0] |= changed
    with pytest.raises(InputError, match=rf"^program\.json: .*{words}"):
        read_program("program.json", document)


def test_what_is_stored_has_the_sizes_of_a_call() -> None:
    tensor = SymbolicType((["mul", "n", 2], 3), "int8", "int4x8")
    assert str(tensor) == "int8[n * 2, 3] as int4x8"
    assert [tensor.at({"n": n}, "q").nbytes for n in (0, 1, 4, 5)] == [0, 4, 12, 16]


def test_what_a_tolerance_is_made_of_has_no_encoding() -> None:
    output = TensorRef("0" * 64, "int32", (2,))
    bound, ties = (
        TensorRef("0" * 64, "float32", (2,), "float16"),
        TensorRef("0" * 64, "int32", (5, 3), "int8x4"),
    )
    assert wrong_tolerance(Tolerance(0, 0, bound=bound), output) == (
        "bound: float32[2] as float16, and its output's shape wants float32[2]"
    )
    assert wrong_tolerance(Tolerance(0, 0, ties=ties), output) == (
        "ties: int32[5, 3] as int8x4, which is not int32[n, 3]"
    )


def test_a_tensor_without_encoding_is_written_as_before() -> None:
    assert TensorType((2,), "int8").to_json() == {"dtype": "int8", "shape": [2]}
    assert str(TensorType((2,), "int8", "int8x4")) == "int8[2] as int8x4"
