"""Sums of integers as an oracle takes them: the same numbers, off by what a sum of float32 is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from quantised_models import normal, saved
from tapml.bounds import rounded
from tapml.carving.float_sums import in_floats
from tapml.carving.prepare import lowered_with_documents
from tapml.importing import ImportedModel, import_model
from tapml.operators.program import OperatorProgram

INNER, OUT = 300, 40


def program(model: ImportedModel, name: str) -> OperatorProgram:
    lowered, _ = lowered_with_documents(model)
    (found,) = [operator.program for operator in lowered.operators if name in operator.name]
    assert isinstance(found, OperatorProgram)
    return found


@pytest.fixture(params=["q8", "q4f16"])
def product(request: pytest.FixtureRequest, tmp_path: Path) -> OperatorProgram:
    """Of int8 rows and a weight, with a bias."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    weights = {"w": normal(INNER, OUT), "b": normal(OUT)}
    path = saved(tmp_path / "x.onnx", nodes, {"x": (TensorProto.FLOAT, (2, INNER))}, ["y"], weights)
    return program(import_model(str(path), random_inputs=True, quantise=request.param, activations="int8"), "_matmul")


def test_it_is_the_same_but_for_roundings(product: OperatorProgram) -> None:
    random = np.random.default_rng(0)
    inputs = [
        random.integers(1, 2**32, buffer.shape).astype(np.uint32)
        if buffer.dtype == "uint32"
        else random.uniform(0.5, 1, buffer.shape).astype(np.float32)
        for buffer in product.parameters[:-1]
    ]
    wide = in_floats(product)
    held = {buffer.name: buffer.dtype for buffer in wide.temporaries}
    # What is filled with zeros to whole groups is made of integers as ever.
    assert all(dtype == "float32" or f"{name}_of_groups" in held for name, dtype in held.items())
    (exact,), (same,) = (rounded(found, inputs, None) for found in (product, wide))
    np.testing.assert_array_equal(same, exact)
    off = {
        found: max(float(np.abs(rounded(found, inputs, seed)[0] - exact).mean()) for seed in range(3))
        for found in (product, wide)
    }
    size = float(np.abs(exact).mean()) * 2**-24
    assert off[product] < 3 * size
    assert 3 * size < off[wide] < np.sqrt(INNER) * 3 * size


def test_integers_that_are_anything_else_stay(tmp_path: Path) -> None:
    """The sum itself is given."""
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
    weights = {"w": np.random.default_rng(0).integers(-9, 9, (64, 48)).astype(np.int8)}
    shape = {"x": (TensorProto.INT8, (2, 64))}
    path = saved(tmp_path / "x.onnx", nodes, shape, ["y"], weights, TensorProto.INT32)
    found = program(import_model(str(path), random_inputs=True), "matmul")
    assert in_floats(found) is found
