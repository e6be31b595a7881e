"""If, Loop and Scan as plain data flow, and recurrent layers, which are written out in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model
from tapml.importing.onnx_bodies import MOST_OPERATORS
from tapml.lowering.fuse import MOST_BUFFERS
from tapml.lowering.lower import lower

node = helper.make_node

HEAD = '<ir_version: 10, opset_import: ["": 17]>\n'

BRANCH = """agraph (float[4] x, float limit) => (float[4] y) {
    sum = ReduceSum<keepdims = 0>(x)
    large = Greater(sum, limit)
    y = If(large) <
        then_branch = more () => (float[4] a) { a = Exp(x) },
        else_branch = less () => (float[OTHER] b) { b = ELSE }
    >
}"""

LOOP = """agraph (float[3] x, int64 many, bool go) => (float[3] y, float[N, 3] rows) {
    y, rows = Loop(many, go, x) <
        body = turn (int64 i, bool going, float[3] before) => (bool goes, float[3] after, float[3] row) {
            two = Constant<value = float {2}>()
            half = Div(before, two)
            place = Cast<to = 1>(i)
            after = Add(half, place)
            row = Gather<axis = 0>(table, i)
            goes = Identity(going)
        }
    >
}"""

UNTIL = """agraph (float[3] x) => (float[3] y, int64 turns) {
    one = Constant<value = int64 {1}>()
    none = Constant<value = int64 {0}>()
    many = Constant<value = int64 {6}>()
    limit = Constant<value = float {9}>()
    y, turns = Loop(MANY, , x, none) <
        body = turn (int64 i, bool going, float[3] before, int64 n) => (bool goes, float[3] after, int64 m) {
            after = Add(before, before)
            m = Add(n, one)
            sum = ReduceSum<keepdims = 0>(after)
            goes = Less(sum, limit)
        }
    >
}"""

ROWS = """agraph (float[3] x) => (float[3] y, float[N, 3] rows, float[N] sums) {
    many = Constant<value = int64 {7}>()
    one = Constant<value = float {1}>()
    limit = Constant<value = float {40}>()
    all = ReduceSum<keepdims = 0>(x)
    less = Less(all, one)
    y, rows, sums = Loop(many, BEGIN, x) <
        body = turn (int64 i, bool going, float[3] before) => (bool goes, float[3] after, float[3] row, float sum) {
            after = Add(before, before)
            sum = ReduceSum<keepdims = 0>(after)
            row = Gather<axis = 0>(table, i)
            goes = Less(sum, limit)
        }
    >
}"""

SCAN = """agraph (float[2, 3] start, float[4, 2, 3] x, float[2, 5, 3] z) => (float[2, 3] last, float[2, 5, 3] rows) {
    turned = Transpose<perm = [1, 0, 2]>(z)
    last, rows = Scan(start, z) <
        num_scan_inputs = 1, scan_input_axes = [-2], scan_input_directions = [1],
        scan_output_axes = [1], scan_output_directions = [1],
        body = turn (float[2, 3] before, float[2, 3] row) => (float[2, 3] after, float[2, 3] out) {
            joined = Mul(before, row)
            after = Tanh(joined)
            out = Sub(after, row)
        }
    >
}"""


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., ImportedModel]:
    """A model of ONNX's text format, with tensors that it names, for inputs."""

    def made(text: str, tensors: Mapping[str, np.ndarray] | None = None, **inputs: Any) -> ImportedModel:
        model = parser.parse_model(HEAD + text)
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (tensors or {}).items())
        return _imported(model, tmp_path, inputs)

    return made


def _imported(model: Any, folder: Path, inputs: Mapping[str, Any]) -> ImportedModel:
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    return import_model(str(folder / "model.onnx"), input_files=[folder / "inputs.npz"])


@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_a_branch_by_values_is_chosen(
    limit: float, imported: Callable[..., ImportedModel], matches: Callable[..., None]
) -> None:
    text = BRANCH.replace("OTHER", "4").replace("ELSE", "Neg(x)")
    model = imported(text, x=np.arange(4, dtype=np.float32), limit=np.float32(limit))
    matches(model)
    assert model.input_names == ["x", "limit"], "what it depends on besides x stays an input"


def test_a_branch_by_turns_and_inputs_alone_is_taken_at_import(
    imported: Callable[..., ImportedModel], matches: Callable[..., None]
) -> None:
    text = """agraph (float[3] x, bool flag) => (float[3] y) {
        many = Constant<value = int64 {4}>()
        two = Constant<value = int64 {2}>()
        y = Loop(many, , x) <body = turn (int64 i, bool going, float[3] before) => (bool going, float[3] after) {
            late = Less(two, i)
            both = And(late, flag)
            after = If(both) <
                then_branch = more () => (float[3] a) { a = Exp(before) },
                else_branch = less () => (float[3] b) { b = Neg(before) }
            >
        }>
    }"""
    model = imported(text, x=np.ones(3, np.float32), flag=np.True_)
    matches(model)
    assert model.input_names == ["x"]
    assert not [kernel.name for kernel in lower(model.module, 1).operators if "choose" in kernel.name]


def test_branches_by_values_have_one_shape(imported: Callable[..., ImportedModel]) -> None:
    text = BRANCH.replace("OTHER", "8").replace("ELSE", "Concat<axis = 0>(x, x)")
    with pytest.raises(
        InputError, match=r"If \(ai\.onnx opset 17, node 'y'\) depends on the values of the input, and its"
    ):
        imported(text, x=np.ones(4, np.float32), limit=np.float32(9))


def test_a_loop_is_written_out(imported: Callable[..., ImportedModel], matches: Callable[..., None]) -> None:
    table = np.arange(24, dtype=np.float32).reshape(8, 3)
    model = imported(LOOP, {"table": table}, x=np.ones(3, np.float32), many=np.int64(5), go=np.True_)
    matches(model)
    assert model.input_names == ["x"]
    assert "input many is fixed to what was given: 5" in model.provenance["notes"]  # type: ignore[operator]
    kernels = lower(model.module, 1).operators
    assert sum("take" in kernel.name for kernel in kernels) == 1, "one for all turns"


@pytest.mark.parametrize("many", [6, 2])
def test_a_loop_may_end_by_values_before_a_most_of_turns(
    many: int, imported: Callable[..., ImportedModel], matches: Callable[..., None]
) -> None:
    text = UNTIL.replace("MANY", "many").replace("{6}", f"{{{many}}}")
    matches(imported(text, x=np.array([1, 0.5, 0], np.float32)))


@pytest.mark.parametrize(("x", "begin", "turns"), [(0.1, "", 7), (1.0, "", 4), (99.0, "", 1), (1.0, "less", 0)])
def test_how_many_rows_a_loop_gives_may_depend_on_values(
    x: float, begin: str, turns: int, imported: Callable[..., ImportedModel], matches: Callable[..., None]
) -> None:
    table = np.arange(24, dtype=np.float32).reshape(8, 3)
    model = imported(ROWS.replace("BEGIN", begin), {"table": table}, x=np.full(3, x, np.float32))
    matches(model, atol=2e-5)
    expected = dict(zip(model.outputs, model.steps[0].expected or [], strict=True))
    assert expected["rows.count"].tolist() == expected["sums.count"].tolist() == [turns]


def test_what_no_data_flow_does_is_refused(imported: Callable[..., ImportedModel]) -> None:
    x = np.ones(3, np.float32)
    forever = UNTIL.replace("MANY", "").replace("Less(sum, limit)", "Equal(one, one)")
    with pytest.raises(InputError, match=f"turn by turn, to more than {MOST_OPERATORS} operators"):
        imported(forever, x=x)
    idle = "Loop(, , x) <body = turn (int64 i, bool b, float[3] s) => (b, s) {}>"
    with pytest.raises(InputError, match=f"turn by turn, to more than {MOST_OPERATORS} operators"):
        imported(f"agraph (float[3] x) => (float[3] y) {{ y = {idle} }}", x=x)


def test_a_scan_goes_along_any_axis_either_way(
    imported: Callable[..., ImportedModel], matches: Callable[..., None]
) -> None:
    random = np.random.default_rng(1)
    arrays = {"start": (2, 3), "x": (4, 2, 3), "z": (2, 5, 3)}
    matches(imported(SCAN, **{name: random.standard_normal(shape, np.float32) for name, shape in arrays.items()}))


@pytest.mark.parametrize("steps", [7, 9])
def test_two_layers_in_both_directions(steps: int, tmp_path: Path, matches: Callable[..., None]) -> None:
    """As torch exports nn.LSTM and nn.GRU; as many steps as a kernel can join in one direction, and more."""
    random, hidden = np.random.default_rng(2), 4
    weights: dict[str, np.ndarray] = {
        "lengths": np.array([steps, 4], np.int32),
        "shape": np.array([0, 0, -1], np.int64),
    }
    nodes = []
    for layer, (kind, gates, size) in enumerate([("LSTM", 4, 3), ("GRU", 3, 8)]):
        shapes = {"W": (2, gates * hidden, size), "R": (2, gates * hidden, hidden), "B": (2, 2 * gates * hidden)}
        weights |= {f"{kind}{name}": random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
        operands = [f"x{layer}", f"{kind}W", f"{kind}R", f"{kind}B", "lengths"]
        more = {"linear_before_reset": 1} if kind == "GRU" else {}
        outputs = [f"all{layer}", f"last{layer}"]
        nodes.append(node(kind, operands, outputs, hidden_size=hidden, direction="bidirectional", **more))
        nodes.append(node("Transpose", [f"all{layer}"], [f"swapped{layer}"], perm=[0, 2, 1, 3]))
        nodes.append(node("Reshape", [f"swapped{layer}", "shape"], [f"x{layer + 1}"]))
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x0", floats, [steps, 2, 3])],
        [helper.make_tensor_value_info(name, floats, None) for name in ("x2", "last0", "last1")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    made = _imported(model, tmp_path, {"x0": random.standard_normal((steps, 2, 3), np.float32)})
    matches(made, atol=1e-5)
    assert max(len(kernel.arguments) for kernel in lower(made.module, 1).operators) <= MOST_BUFFERS
