"""One model at several sizes: one suite, one set of kernels, and the reference at each of them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tvm import relax, tirx

from everywhere import check_everywhere
from helpers import WIDTH, small_model, small_module, small_oracle
from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.importing import import_model
from tapml.importing.model import ImportedModel, Step
from tapml.lowering.model import read_model
from tapml.program import ValueKind
from tapml.program.program import Function, SymbolicType, SymbolicValue, sizes_of
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.offload import Offload

ROWS = Symbol(name="rows", minimum=1, maximum=64)
SIZES = (3, 17, 6)


def at(sizes: tuple[int, ...], symbol: Symbol = ROWS) -> ImportedModel:
    random = np.random.default_rng(5)
    steps = []
    for rows in sizes:
        x = random.standard_normal((rows, WIDTH)).astype(np.float32)
        steps.append(Step(f"{rows} rows", {"x": x}, False, [small_oracle(x)]))
    module = small_module(tirx.Var("rows", "int64"))
    return dataclasses.replace(small_model(), module=module, steps=steps, symbols=[symbol])


@pytest.fixture(scope="module")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return carve(at(SIZES), tmp_path_factory.mktemp("sizes") / "rows.suite", name="rows")


def test_several_sizes_have_the_kernels_of_one(carved: Suite, tmp_path: Path) -> None:
    one = carve(at(SIZES[:1]), tmp_path / "one.suite", name="one")
    assert carved.kernels == one.kernels
    assert len(carved.tests) == len(SIZES) * len(one.tests)
    assert carved.manifest["oracle"]["agrees"]
    assert [step["sizes"] for step in carved.manifest["steps"]] == [{"rows": rows} for rows in SIZES]
    assert {tuple(test.sizes.items()) for test in carved.tests} == {(("rows", rows),) for rows in SIZES}
    assert [graph.values[graph.inputs[0]].type.shape for graph in carved.graphs] == [(rows, WIDTH) for rows in SIZES]


@pytest.mark.slow
def test_all_sizes_pass_on_a_device_and_move_there(carved: Suite) -> None:
    with Server([carved.path]) as server:
        found = Offload(JobContext(carved, [server.state.device("node-dawn")], server.state.blobs)).run()
        check_everywhere(carved, server)
    assert [step["kept"] for step in found["steps"]] == [True] * len(carved.kernels)
    assert found["final"]["verdict"] == "pass"


def test_an_edited_kernel_is_not_left_out_of_the_whole_model_in_silence(carved: Suite, tmp_path: Path) -> None:
    shutil.copytree(carved.path, tmp_path / "x.suite")
    file = next((tmp_path / "x.suite" / "kernels").glob("softmax*.wgsl"))
    file.write_text(file.read_text() + "\n// mine\n")
    suite = Suite(tmp_path / "x.suite")
    with Server([suite.path]) as server:
        found = Offload(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
    assert [step["kept"] for step in found["steps"]] == [True] * len(suite.kernels)
    assert found["final"]["verdict"] == "error"
    assert "takes no edited kernel (softmax" in found["final"]["message"]


def test_a_step_is_read_at_its_own_sizes(carved: Suite) -> None:
    for graph, rows in zip(carved.graphs, SIZES, strict=True):
        model = read_model(carved, graph)
        softmax = next(name for name in carved.kernels if "softmax" in name)
        assert [buffer.shape for buffer in model.programs[softmax].parameters] == [(rows, WIDTH)] * 2
        turns = model.programs[softmax].blocks[0].turns
        assert turns == rows * WIDTH


def test_no_step_is_judged_by_what_a_smaller_one_may_differ_by(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weight = numpy_helper.from_array(random.standard_normal((256, 8)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    given, made = (helper.make_tensor_value_info(name, 1, ["rows", size]) for name, size in (("x", 256), ("y", 8)))
    graph = helper.make_graph(nodes, "sums", [given], [made], [weight])
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "sums.onnx")
    files = []
    for rows, size in ((1, 1e-3), (5, 1e3)):
        files.append(tmp_path / f"{rows}.npz")
        np.savez(files[-1], x=(size * random.standard_normal((rows, 256))).astype(np.float32))
    suite = carve(import_model(str(tmp_path / "sums.onnx"), input_files=files), tmp_path / "s.suite", name="s")
    tolerance = suite.manifest["model_tolerance"]["max_abs_error"]
    for test in suite.tests:
        (bound,) = test.tolerances
        assert bound.bound is not None
        assert tolerance >= suite.tensors.get(bound.bound).max() > 0
    with Server() as server:
        document = Offload(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
    assert document["summary"]["kept_on_reference"] == []


def test_a_size_outside_the_symbols_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rows is 17, and must be from 1 to 16"):
        carve(at(SIZES, Symbol(name="rows", minimum=1, maximum=16)), tmp_path / "x.suite", name="x")
    assert list(tmp_path.iterdir()) == []


def test_a_suite_whose_step_lies_about_its_sizes_is_refused(carved: Suite, tmp_path: Path) -> None:
    shutil.copytree(carved.path, tmp_path / "x.suite")
    path = tmp_path / "x.suite" / "suite.json"
    manifest = json.loads(path.read_text())
    for sizes, words in (
        ({"rows": 4}, r"steps\[0\]\.inputs: float32\[3, 16\], and its value v000 is float32\[4, 16\]"),
        ({"rows": 65}, r"steps\[0\]: rows is 65, and must be from 1 to 64"),
        ({}, r"steps\[0\]: no size is given for rows \(1 to 64\)"),
        ({"rows": 3, "n": 1}, r"there is no symbol n here"),
    ):
        manifest["steps"][0]["sizes"] = sizes
        path.write_text(json.dumps(manifest))
        with pytest.raises(InputError, match=words):
            Suite(tmp_path / "x.suite")


def test_inputs_that_disagree_are_named_with_both_shapes() -> None:
    values = {
        name: SymbolicValue(name, name, SymbolicType(("n", 4), "float32"), ValueKind.INPUT) for name in ("ids", "mask")
    }
    function = Function(values, [], ("ids", "mask"), ())
    assert sizes_of(function, {"ids": (3, 4), "mask": (3, 4)}) == {"n": 3}
    with pytest.raises(InputError, match=r"^two inputs disagree on n: ids \[3, 4\] and mask \[5, 4\]$"):
        sizes_of(function, {"ids": (3, 4), "mask": (5, 4)})
    with pytest.raises(InputError, match=r"^ids \[3, 5\]: the model takes float32\[n, 4\]$"):
        sizes_of(function, {"ids": (3, 5)})


def test_a_view_between_kernels_is_no_kernel_of_the_whole_model(tmp_path: Path) -> None:
    """TVM would fuse it with an operator that is scheduled already, and run that on the host, into any memory."""
    rows, heads, width = "rows", 12, 32
    x = np.random.default_rng(7).standard_normal((4, heads * width)).astype(np.float32)
    variable = tirx.Var(rows, "int64")
    builder = relax.BlockBuilder()
    given = relax.Var("x", relax.TensorType((variable, heads * width), "float32"))
    with builder.function("main", [given]):
        with builder.dataflow():
            soft = builder.emit(relax.op.nn.softmax(given, axis=-1))
            split = builder.emit(relax.op.reshape(soft, (1, variable, heads, width)))
            turned = builder.emit(relax.op.permute_dims(split, (0, 2, 1, 3)))
            out = builder.emit_output(relax.op.nn.softmax(turned, axis=-1))
        builder.emit_func_output(out)
    expected = softmax(softmax(x).reshape(1, 4, heads, width).transpose(0, 2, 1, 3))
    model = dataclasses.replace(
        small_model(),
        module=builder.finalize(),
        parameters=[],
        steps=[Step("x", {"x": x}, False, [expected])],
        symbols=[ROWS],
    )
    suite = carve(model, tmp_path / "view.suite", name="view")
    assert "view" in [node.kind for node in suite.model_graph.nodes]
    with Server([suite.path]) as server:
        found = Offload(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
        check_everywhere(suite, server)
    assert found["final"]["verdict"] == "pass", found["final"]["message"]


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
