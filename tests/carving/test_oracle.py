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
from tapml.carving.judge import checked
from tapml.carving.oracle import of_neighbours
from tapml.errors import InputError
from tapml.importing import ImportedModel, Step, import_model, onnx_operators
from tapml.importing.activations import rounded
from tapml.importing.kernel_calls import call
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


def test_an_inverse_hyperbolic_tangent_is_as_exact_near_zero(tmp_path: Path) -> None:
    x = np.array([-0.0264271, 1e-3, -1e-5, 1e-8, 0.5, -0.999, 0.99999], np.float32)
    types = [helper.make_tensor_value_info(name, 1, [7]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Atanh", ["x"], ["y"])], "atanh", types[:1], types[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "atanh.onnx")
    np.save(tmp_path / "x.npy", x)
    suite = carve(
        import_model(str(tmp_path / "atanh.onnx"), input_arrays={"x": tmp_path / "x.npy"}),
        tmp_path / "a.suite",
        name="a",
    )
    (y,) = suite.tests[0].outputs
    np.testing.assert_allclose(suite.tensors.get(y), np.arctanh(x.astype(np.float64)), rtol=3e-7)
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


def graph_of(folder: Path, nodes: list[onnx.NodeProto], x: np.ndarray, **constants: object) -> ImportedModel:
    """y of x, and whatever else the nodes give that nobody reads."""
    read = {name for node in nodes for name in node.input}
    given = [name for node in nodes for name in node.output if name not in read]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info(name, 1, None) for name in given],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), folder / "small.onnx")
    np.savez(folder / "x.npz", x=x)
    return import_model(str(folder / "small.onnx"), input_files=[folder / "x.npz"])


def by_itself(model: ImportedModel, right: ImportedModel) -> ImportedModel:
    """As an importer would give it that makes `model` of what `right` is of, where no other oracle is asked."""
    step = dataclasses.replace(model.steps[0], expected=right.steps[0].expected)
    return dataclasses.replace(model, steps=[step], second=None, in_detail=None, again=None)


def values(scale: float, rows: int = 64) -> np.ndarray:
    return (np.random.default_rng(5).standard_normal((rows, 64)) * scale).astype(np.float32)


@pytest.mark.parametrize("operator", ["Sigmoid", "Tanh", "Erf", "Gelu"])
@pytest.mark.parametrize(("least", "most"), [(-3, 3), (-30, -20), (-12, -6), (1e-6, 1e-4)])
def test_functions_are_as_exact_as_1_is(operator: str, least: float, most: float, tmp_path: Path) -> None:
    """ONNX Runtime's sigmoid(-20) is 0, and its tanh(1e-4) is another than TVM's by 1e-8."""
    x = np.linspace(least, most, 64 * 70).astype(np.float32).reshape(64, 70)
    model = graph_of(tmp_path, [helper.make_node(operator, ["x"], ["y"])], x)
    assert checked(by_itself(model, model)) == []


def test_what_functions_may_be_off_by_is_seen_behind_a_product(tmp_path: Path) -> None:
    """x * sigmoid(x) of large negative x is off by as many units as x is large, though all that it gives is tiny."""
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    model = graph_of(tmp_path, nodes, -10 - 10 * np.abs(values(1)))
    assert checked(by_itself(model, model)) == []


@pytest.mark.parametrize("operator", ["ReduceL2", "ReduceSumSquare"])
def test_squares_that_come_to_nothing_in_a_long_sum_are_no_fault(operator: str, tmp_path: Path) -> None:
    """The reference adds 165,099 squares one after the other: those near 0 are less than half of the sum's last place.
    A sum that is wrong by a thousandth is one."""
    x = np.random.default_rng(1).standard_normal((33, 5003)).astype(np.float32)
    model = graph_of(tmp_path, [helper.make_node(operator, ["x"], ["y"], keepdims=0)], x)
    assert checked(by_itself(model, model)) == []
    more = [helper.make_node(operator, ["x"], ["s"], keepdims=0), helper.make_node("Mul", ["s", "more"], ["y"])]
    wrong = graph_of(tmp_path, more, x, more=np.array(1.001, np.float32))
    (doubt,) = checked(by_itself(wrong, model), keep_disagreeing=True)
    assert "disagrees with onnxruntime" in doubt


def layer(operator: str, inputs: str = "x", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), ["y"], **attributes)


MASK = np.triu(np.full((64, 64), -1e9, np.float32), 1)
NORM = {"scale": np.ones(64, np.float32), "bias": np.zeros(64, np.float32)}
SPLIT = [helper.make_node("Softmax", ["x"], ["other"], axis=1)]

# What is right, what is wrong with it, the size of the inputs, and the constants of both.
WRONG: dict[str, tuple[list[onnx.NodeProto], list[onnx.NodeProto], float, dict[str, object], dict[str, object]]] = {
    "epsilon": (
        [layer("LayerNormalization", "x scale bias", epsilon=1e-5)],
        [layer("LayerNormalization", "x scale bias", epsilon=1e-6)],
        0.1, NORM, {},
    ),
    "alpha": ([layer("Elu", alpha=0.7)], [layer("Elu", alpha=0.707)], 1.0, {}, {}),
    "alpha behind a small slope": ([layer("LeakyRelu", alpha=0.01)], [layer("LeakyRelu", alpha=0.0101)], 1.0, {}, {}),
    "axis of one of two outputs": (
        [*SPLIT, layer("Softmax", axis=-1)], [*SPLIT, layer("Softmax", axis=0)], 1.0, {}, {},
    ),
    "mask": (
        [helper.make_node("Add", ["x", "mask"], ["masked"]), layer("Softmax", "masked", axis=-1)],
        [helper.make_node("Add", ["x", "mask"], ["masked"]), layer("Softmax", "masked", axis=-1)],
        1.0, {"mask": MASK}, {"mask": np.triu(np.full((64, 64), -1e9, np.float32), 2)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_constant_is_found_by_its_values(kind: str, tmp_path: Path) -> None:
    """And the right model, which nothing else differs in, is not in doubt."""
    right, wrong, scale, constants, other = WRONG[kind]
    model = graph_of(tmp_path, right, values(scale), **constants)
    assert checked(by_itself(model, model)) == []
    (doubt,) = checked(
        by_itself(graph_of(tmp_path, wrong, values(scale), **{**constants, **other}), model), keep_disagreeing=True
    )
    assert "disagrees with onnxruntime" in doubt


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


@pytest.mark.parametrize(("token", "agrees"), [(2, True), (0, False)])
def test_of_two_that_nearly_tie_the_oracle_may_choose_the_other(tmp_path: Path, token: int, agrees: bool) -> None:
    x = np.random.default_rng(3).standard_normal((1, 64)).astype(np.float32)
    weights = np.random.default_rng(4).standard_normal((64, 3)).astype(np.float32)
    weights[:, 1] = 0.05 * x[0]
    weights[:, 2] = weights[:, 1] * np.float32(1 - 1e-7)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits"]), helper.make_node("ArgMax", ["logits"], ["y"], axis=1)]
    model = graph_of(tmp_path, nodes, x, w=weights)
    step = model.steps[0]
    assert step.expected
    other = dataclasses.replace(step, expected=[np.array([[token]], step.expected[0].dtype)])
    model = dataclasses.replace(model, steps=[other], intermediates=None, second=None)
    doubts = checked(model, keep_disagreeing=True)
    assert not doubts if agrees else "element [0, 0] is 1, and " in doubts[0]


def rounded_rows(largest: int, down: int = 0, at_step: float = 6.5) -> ImportedModel:
    """Rows that are rounded to 8-bit integers, behind a product. Its oracle has so many steps, and gives of the numbers
    `at_step` so many a lower integer."""
    random = np.random.default_rng(0)
    x = random.uniform(-100, 100, (3, 64)).astype(np.float32)
    x[:, 0] = 127
    x[:, 5] = at_step
    one = np.eye(64, dtype=np.float32)
    builder = relax.BlockBuilder()
    given = [relax.Var(name, relax.TensorType(array.shape, "float32")) for name, array in (("x", x), ("w", one))]
    with builder.function("main", given):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(*given))
            result = builder.emit_output(call(builder, rounded, [product], name="rounded", alone=True))
        builder.emit_func_output(result)
    scale = np.float32(127) / np.float32(largest)
    integers = np.floor(x / scale + np.float32(0.5))
    integers[:down, 5] -= 1
    return ImportedModel(
        module=builder.finalize(),
        input_names=["x", "w"],
        parameters=[],
        steps=[Step("rows", {"x": x, "w": one}, False, [integers * scale])],
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "notes": []},
        outputs=["y"],
        oracle="numpy",
    )


def test_an_oracle_may_take_a_number_to_the_other_side_of_a_step() -> None:
    assert checked(rounded_rows(127)) == []
    assert checked(rounded_rows(127, down=1)) == []


def test_rounding_without_numbers_near_a_step_is_seen_as_before() -> None:
    with pytest.raises(InputError, match="the reference run disagrees with numpy"):
        checked(rounded_rows(64, at_step=6.4))
