"""Inputs that index an axis: which elements a compiled model says that it takes, and what it says of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.call import call_of
from tapml.compiled.files import CompiledFiles
from tapml.errors import InputError
from tapml.importing import import_model
from tapml.platforms.compiled import run_on_cpu

ROWS = 7
TABLE = np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 4)
IDS = np.array([[0, 6, 3]], np.int64)


def built(folder: Path, *nodes: onnx.NodeProto) -> CompiledFiles:
    """Of `ids`, int64[1, 3], and a table: what the last of the nodes gives."""
    parameters = {"table": TABLE, "least": np.int64(0), "most": np.int64(ROWS - 1)}
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "x",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 3])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in parameters.items() if name in used],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "x.onnx")
    np.savez(folder / "x.npz", ids=IDS)
    suite = carve(import_model(str(folder / "x.onnx"), input_files=[folder / "x.npz"]), folder / "x.suite", name="x")
    return CompiledFiles(build(suite, folder / "x.tapml").path)


def test_the_rows_of_a_table_are_the_range_of_what_indexes_it(tmp_path: Path) -> None:
    """ONNX counts from the end, too."""
    files = built(tmp_path, helper.make_node("Gather", ["table", "ids"], ["y"]))
    (port,) = files.model.functions["main"].inputs
    assert port.range == (-ROWS, ROWS - 1)
    assert CompiledFiles(files.path).proven() == files.model
    (outputs,) = run_on_cpu(files, [{"ids": np.array([[-ROWS, -1, 6]], np.int64)}]).outputs
    np.testing.assert_array_equal(outputs["y"], TABLE[[[0, 6, 6]]])
    for wrong in (ROWS, -ROWS - 1):
        ids = np.array([[0, 1, wrong]], np.int32)
        with pytest.raises(InputError, match=rf"input ids is {wrong} at \[0, 2\], and must be from -7 to 6"):
            call_of(files.model, "main", {"ids": ids})


def test_an_index_that_the_model_computes_outside_of_its_axis_gives_the_nearest_element(tmp_path: Path) -> None:
    """ONNX leaves it undefined. On devices and in TVM's virtual machine it is the same: `every_carve` compares."""
    nodes = [
        helper.make_node("Cast", ["x"], ["ids"], to=TensorProto.INT32),
        helper.make_node("Gather", ["table", "ids"], ["y"]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])]
    gives = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "x", given, gives, [onnx.numpy_helper.from_array(TABLE, "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "x.onnx")
    np.savez(tmp_path / "x.npz", x=np.float32([6, 7, 1e6, -1e6]))
    imported = import_model(str(tmp_path / "x.onnx"), input_files=[tmp_path / "x.npz"])
    suite = carve(imported, tmp_path / "x.suite", name="x")
    assert "idx=7" in imported.oracle_missing
    (outputs,) = run_on_cpu(
        CompiledFiles(build(suite, tmp_path / "x.tapml").path), [{"x": np.float32([6, 7, 1e6, -1e6])}]
    ).outputs
    np.testing.assert_array_equal(outputs["y"], TABLE[[6, 6, 6, 0]])


def test_what_the_model_limits_itself_has_no_range(tmp_path: Path) -> None:
    clip = helper.make_node("Clip", ["ids", "least", "most"], ["limited"])
    files = built(tmp_path, clip, helper.make_node("Gather", ["table", "limited"], ["y"]))
    (port,) = files.model.functions["main"].inputs
    assert port.range is None
    (outputs,) = run_on_cpu(files, [{"ids": np.array([[-100, 3, 100]])}]).outputs
    np.testing.assert_array_equal(outputs["y"], TABLE[[[0, 3, 6]]])


def test_numbers_of_another_width_are_taken_where_they_fit(tmp_path: Path) -> None:
    files = built(tmp_path, helper.make_node("Gather", ["table", "ids"], ["y"]))
    for dtype in (np.int64, np.uint8, np.int16):
        (outputs,) = run_on_cpu(files, [{"ids": IDS.astype(dtype)}]).outputs
        np.testing.assert_array_equal(outputs["y"], TABLE[IDS])
    for refused in (IDS + 2**40, IDS.astype(np.float32), IDS > 1):
        with pytest.raises(InputError, match=r"input ids is .*\[1, 3\]: give int32\[1, 3\]"):
            run_on_cpu(files, [{"ids": refused}])


def test_what_only_a_branch_reads_is_no_index_in_the_other(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 17]>
    agraph (float[4] x, int64[3] ids, int64[3] others) => (float[3, 4] rows, float[3, 4] y) {
        sum = ReduceSum<keepdims = 0>(x)
        none = Constant<value = float {0}>()
        large = Greater(sum, none)
        rows = Gather<axis = 0>(table, ids)
        y = If(large) <
            then_branch = more () => (float[3, 4] a) { found = Gather<axis = 0>(table, others) a = Add(found, x) },
            else_branch = less () => (float[3, 4] b) { b = Sub(rows, x) }
        >
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(TABLE, "table"))
    onnx.save(model, tmp_path / "x.onnx")
    files = []
    for number, sign in enumerate((1, -1)):
        files.append(tmp_path / f"{number}.npz")
        np.savez(files[-1], x=np.full(4, sign, np.float32), ids=IDS[0], others=IDS[0])
    suite = carve(import_model(str(tmp_path / "x.onnx"), input_files=files), tmp_path / "x.suite", name="x")
    found = CompiledFiles(build(suite, tmp_path / "x.tapml").path)
    assert {port.name: port.range for port in found.model.functions["main"].inputs} == {
        "x": None,
        "ids": (-ROWS, ROWS - 1),
        "others": None,
    }
    x, ids, far = -np.ones(4, np.float32), IDS[0].astype(np.int32), np.full(3, ROWS, np.int32)
    (outputs,) = run_on_cpu(found, [{"x": x, "ids": ids, "others": far}]).outputs
    np.testing.assert_array_equal(outputs["y"], TABLE[IDS[0]] + 1)
    with pytest.raises(InputError, match=r"input ids is 7 at \[0\], and must be from -7 to 6"):
        run_on_cpu(found, [{"x": x, "ids": far, "others": ids}])


def test_an_axis_whose_size_differs_is_the_range_of_what_indexes_it(tmp_path: Path) -> None:
    """Also where a table of a fixed size is read by the same elements, or something is added to them before."""
    text = """<ir_version: 10, opset_import: ["": 17]>
    agraph (float[n, 4] x, int64[2] rows, int64[1] shared, int64[1] before) =>
        (float[2, 4] a, float[1, 4] b, float[1, 4] c, float[1, 4] d) {
        one = Constant<value = int64 {1}>()
        a = Gather<axis = 0>(x, rows)
        b = Gather<axis = 0>(x, shared)
        c = Gather<axis = 0>(table, shared)
        next = Add(before, one)
        d = Gather<axis = 0>(x, next)
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(TABLE, "table"))
    onnx.save(model, tmp_path / "x.onnx")
    files = []
    for n in (2, 9):
        files.append(tmp_path / f"{n}.npz")
        given = {"rows": np.array([0, n - 1]), "shared": np.array([1]), "before": np.array([0])}
        np.savez(files[-1], x=np.arange(4 * n, dtype=np.float32).reshape(n, 4), **given)
    suite = carve(import_model(str(tmp_path / "x.onnx"), input_files=files), tmp_path / "x.suite", name="x")
    found = CompiledFiles(build(suite, tmp_path / "x.tapml").path)
    counted, last = ["sub", 0, "n"], ["sub", "n", 1]
    assert {port.name: port.range for port in found.model.functions["main"].inputs} == {
        "x": None,
        "rows": (counted, last),
        "shared": (["max", counted, -ROWS], ["min", last, ROWS - 1]),
        "before": (["sub", -1, "n"], ["sub", "n", 2]),
    }
    assert CompiledFiles(found.path).proven() == found.model

    def call(n: int, rows: list[int], shared: int) -> dict[str, np.ndarray]:
        arrays = {"rows": rows, "shared": [shared], "before": [0]}
        x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        return {"x": x, **{name: np.array(array, np.int32) for name, array in arrays.items()}}

    (outputs,) = run_on_cpu(found, [call(9, [-9, 8], -7)]).outputs
    np.testing.assert_array_equal(outputs["a"][:, 0], [0, 32])
    np.testing.assert_array_equal(outputs["b"][:, 0], [8])
    for n, rows, shared, said in (
        (3, [0, 3], 0, r"input rows is 3 at \[1\], and must be from -3 \(0 - n\) to 2 \(n - 1\)"),
        (3, [-4, 0], 0, r"input rows is -4 at \[0\], and must be from -3"),
        (9, [0, 8], 7, r"input shared is 7 at \[0\], and must be from -7 \(max\(0 - n, -7\)\) to 6"),
        (1, [0, 0], 0, r"input before is 0 at \[0\], and must be from -2 .* to -1 \(n - 2\)"),
        (2, [0, 1], 2, r"input shared is 2 at \[0\], and must be from -2 .* to 1"),
    ):
        with pytest.raises(InputError, match=said):
            run_on_cpu(found, [call(n, rows, shared)])
