"""Whether a reference run can be believed: what the oracle comparison finds, and what it lets be."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tvm import relax

import tapml as tml
from helpers import small_model
from tapml.carving.carve import carve
from tapml.carving.oracle import of_neighbours
from tapml.errors import InputError
from tapml.importing import ImportedModel, Step, import_model, onnx_operators
from tapml.operators.program import Axis, Block, Buffer, Expression, Loop, OperatorProgram, Store
from tapml.operators.written import doubtful


def detector(folder: Path) -> Path:
    """Boxes in pixels and scores below 1 in one tensor, behind two operators."""
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((8, 12)), "scale": np.array([320.0] * 4 + [1.0] * 8)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "first"),
        helper.make_node("Celu", ["product"], ["bent"], "second"),
        helper.make_node("Sigmoid", ["bent"], ["share"], "third"),
        helper.make_node("Mul", ["share", "scale"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("x", 1, [100, 8])],
        [helper.make_tensor_value_info("y", 1, [100, 12])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "d.onnx")
    return folder / "d.onnx"


def test_a_right_import_agrees(tmp_path: Path) -> None:
    suite = carve(import_model(str(detector(tmp_path)), random_inputs=True), tmp_path / "d.suite", name="d")
    assert suite.manifest["oracle"]["agrees"]
    assert suite.doubts == []


def test_a_wrong_operator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1e-4 beside boxes of 320 pixels: a score may be off by no more than scores are by rounding."""
    right = onnx_operators.OPERATORS["Celu"]

    def wrong(builder: object, inputs: object, attributes: object) -> object:
        return relax.op.add(right(builder, inputs, attributes), relax.const(4e-4, "float32"))

    monkeypatch.setitem(onnx_operators.OPERATORS, "Celu", wrong)
    model = import_model(str(detector(tmp_path)), random_inputs=True)
    words = (
        r"output y of random inputs, seed 0: element \[\d+, \d+\] is .*the first value that differs is 'bent', which "
    )
    with pytest.raises(InputError, match=words + r"Celu \(ai\.onnx opset 17, node 'second'\) gives: element"):
        carve(model, tmp_path / "d.suite", name="d")
    with pytest.raises(InputError, match="disagrees with onnxruntime"):
        tml.load(detector(tmp_path), random_inputs=True)
    assert not (tmp_path / "d.suite").exists()


def test_neighbours_are_those_along_the_axis_where_all_are_small() -> None:
    values = np.ones((100, 12))
    values[:, :4] = 1000.0
    found = of_neighbours(values)
    assert (found[:, :4] == 1000).all()
    assert (found[:, 4:] == 1).all()


def test_another_shape_is_a_disagreement(tmp_path: Path) -> None:
    model = small_model()
    step = model.steps[0]
    assert step.expected
    model.steps[0] = Step(step.description, step.inputs, False, [step.expected[0][:3]])
    with pytest.raises(
        InputError, match=r"output probabilities of step 0: it is \[6, 16\], and numpy float64 gives \[3"
    ):
        carve(model, tmp_path / "shape.suite", name="shape")
    suite = carve(model, tmp_path / "shape.suite", name="shape", keep_disagreeing=True)
    assert suite.manifest["oracle"]["cosine"] is None


def test_where_onnx_runtime_is_wrong_itself_another_oracle_is_asked(tmp_path: Path) -> None:
    """Its Resize by align_corners scales down as no definition says (onnxruntime 1.31)."""
    scales = numpy_helper.from_array(np.array([1, 1, 0.6, 0.6], np.float32), "scales")
    how = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **how)
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 1, 2, 4]), ("y", [1, 1, 1, 2])))
    graph = helper.make_graph([node], "resize", [x], [y], [scales])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "r.onnx")
    np.savez(tmp_path / "x.npz", x=np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4))
    model = import_model(str(tmp_path / "r.onnx"), input_files=[tmp_path / "x.npz"])
    suite = carve(model, tmp_path / "r.suite", name="r")
    assert suite.manifest["oracle"]["agrees"]
    assert suite.manifest["oracle"]["name"].startswith("onnx.reference ")


def random_numbers(folder: Path) -> ImportedModel:
    node = helper.make_node("RandomNormalLike", ["x"], ["noise"], "dice")
    add = helper.make_node("Add", ["x", "noise"], ["y"])
    value, result = (helper.make_tensor_value_info(name, 1, [4, 4]) for name in "xy")
    model = helper.make_model(
        helper.make_graph([node, add], "dice", [value], [result]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, folder / "dice.onnx")
    return import_model(str(folder / "dice.onnx"), random_inputs=True)


def test_random_numbers_are_found(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"operator RandomNormalLike \(node n000\) gives another .*16 of 16 elements"):
        carve(random_numbers(tmp_path), tmp_path / "dice.suite", name="dice")


def test_an_oracle_that_draws_random_numbers_is_no_judge(tmp_path: Path) -> None:
    model = small_model()
    step = model.steps[0]
    assert step.expected
    model.steps[0] = Step(step.description, step.inputs, False, [step.expected[0] + 1])
    model = dataclasses.replace(model, again=lambda: [[np.zeros((6, 16), np.float32)]])
    with pytest.raises(InputError, match="numpy float64 itself gives something else each time"):
        carve(model, tmp_path / "dice.suite", name="dice")


def of_half(extent: int, step: int = 1) -> OperatorProgram:
    """y[i * step] = x[i], for the first `extent` of 8."""
    i, n = Expression("variable", "int64", (), "i"), Expression("variable", "int64", (), "n")
    index = n if step == 1 else Expression("mul", "int64", (n, Expression("constant", "int64", (), step)))
    store = Store("y", (index,), Expression("load", "float32", (n,), "x"))
    block = Block("b", (Loop("i", "int64", extent),), (Axis("n", "int64", extent, False, i),), (), (store,))
    return OperatorProgram("half", None, (Buffer("x", "float32", (8,)), Buffer("y", "float32", (8,))), (), (block,))


def test_what_is_not_written_whole_is_in_doubt() -> None:
    assert doubtful(of_half(8), 1) == []
    assert [buffer.name for buffer in doubtful(of_half(7), 1)] == ["y"]
    assert [buffer.name for buffer in doubtful(of_half(4, step=2), 1)] == ["y"]
    assert doubtful(of_half(0), 1) == [Buffer("y", "float32", (8,))]


def test_elements_that_nothing_writes_are_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8,), "float32"))
    with whole.function("main", [x]):
        with whole.dataflow():
            out = whole.emit_output(relax.op.nn.relu(x))
        whole.emit_func_output(out)
    array = np.arange(8, dtype=np.float32)
    model = ImportedModel(
        module=whole.finalize(), input_names=["x"], parameters=[], steps=[Step("x", {"x": array}, False, [array])],
        provenance={"kind": "test", "source": "x", "sha256": "0" * 64}, outputs=["y"], oracle="numpy",
    )  # fmt: skip
    monkeypatch.setattr("tapml.lowering.operator.program_of", lambda *_: dataclasses.replace(of_half(6), name="relu"))
    with pytest.raises(
        InputError, match=r"operator relu \(node n000\) gives another .*it does not write all of its elem"
    ):
        carve(model, tmp_path / "half.suite", name="half")
