"""Models with axes that vary, at several sizes: one program, which gives at each size what the oracle gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper

from everywhere import check_everywhere
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model
from tapml.importing.inputs import InputSpec, RawStep
from tapml.importing.sizes import Sizes
from tapml.lowering.lower import lower
from tapml.platforms.reference import Reference, to_numpy
from tapml.program.program import sizes_of
from tapml.server import Server
from tapml.validation.context import JobContext
from tapml.validation.offload import Offload

node = helper.make_node
LENGTHS = (5, 9, 3)
ROWS = [("x", "float32", ("rows", 4))]


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def imported(path: Path, feeds: Sequence[Mapping[str, np.ndarray]]) -> ImportedModel:
    files = []
    for number, arrays in enumerate(feeds):
        files.append(path.with_name(f"{number}.npz"))
        np.savez(files[-1], **arrays)
    return import_model(str(path), input_files=files)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def agrees_at_all_sizes(model: ImportedModel) -> None:
    """The program at each step's sizes, on this machine, gives the oracle's outputs."""
    lowered = lower(model.module, len(model.input_names), model.symbols)
    operators, main = lowered.documents(), lowered.model.main
    inputs = [
        dict(zip(main.inputs, (step.inputs[name] for name in model.input_names), strict=True)) for step in model.steps
    ]
    models = [lowered.at(sizes_of(main, {v: array.shape for v, array in given.items()}), operators) for given in inputs]
    platform = Reference(*models)
    weights = [*(array for _, array in model.parameters), *lowered.constants.values()]
    for step, found, given in zip(model.steps, models, inputs, strict=True):
        arrays = {**given, **dict(zip(lowered.arguments[len(given) :], weights, strict=True))}
        values = platform.run(found.graph, platform.values(arrays))
        assert step.expected is not None, model.oracle_missing
        for value, wanted in zip(found.graph.outputs, step.expected, strict=True):
            result = to_numpy(values[value], found.graph.values[value].type.dtype)
            assert result.shape == wanted.shape
            np.testing.assert_allclose(result, wanted, rtol=0, atol=5e-6)


def symbols(model: ImportedModel) -> dict[str, tuple[int, int]]:
    return {symbol.name: (symbol.minimum, symbol.maximum) for symbol in model.symbols}


SHAPE = node("Shape", ["x"], ["shape"])
COUNT = node("Gather", ["shape", "zero"], ["count"], axis=0)
AS_VECTOR = node("Unsqueeze", ["count", "first"], ["counts"])
NUMBERS = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64), "first": int64(0), "second": int64(1)}

# By what it is about: nodes from x (float32 [rows, 4]) to y, and constants.
SMALL: dict[str, tuple[list[Any], dict[str, np.ndarray]]] = {
    "reshape with -1 and 0": (
        [node("Reshape", ["x", "to"], ["cut"]), node("Reshape", ["cut", "back"], ["y"])],
        {"to": int64(0, -1, 2), "back": int64(-1)},
    ),
    "concat with a constant": (
        [node("Concat", ["x", "head"], ["longer"], axis=0), node("Softmax", ["longer"], ["y"], axis=0)],
        {"head": floats(2, 4)},
    ),
    "slice of a table up to a size": (
        [
            SHAPE,
            COUNT,
            AS_VECTOR,
            node("Slice", ["table", "first", "counts"], ["top"]),
            node("Add", ["x", "top"], ["y"]),
        ],
        {"table": floats(12, 4)},
    ),
    "slices from the end": (
        [
            node("Slice", ["x", "minus", "end"], ["last"]),
            node("Slice", ["x", "first", "minus"], ["rest"]),
            node("Concat", ["last", "rest"], ["y"], axis=0),
        ],
        {"minus": int64(-1), "end": int64(2**63 - 1)},
    ),
    "a sum of nothing": (
        [node("Slice", ["x", "first", "end"], ["some"]), node("ReduceSum", ["some", "first"], ["y"], keepdims=0)],
        {"end": int64(-3)},
    ),
    "backwards, and every second": (
        [
            node("Slice", ["x", "minus", "end", "first", "minus"], ["turned"]),
            node("Slice", ["turned", "first", "far", "first", "two"], ["y"]),
        ],
        {"minus": int64(-1), "end": int64(-(2**63)), "far": int64(2**63 - 1), "two": int64(2)},
    ),
    "causal mask of Range, Less and Where": (
        [
            SHAPE,
            COUNT,
            node("Range", ["zero", "count", "one"], ["places"]),
            node("Unsqueeze", ["places", "second"], ["column"]),
            node("Less", ["column", "places"], ["ahead"]),
            node("Transpose", ["x"], ["turned"], perm=[1, 0]),
            node("MatMul", ["x", "turned"], ["scores"]),
            node("Where", ["ahead", "low", "scores"], ["kept"]),
            node("Softmax", ["kept"], ["y"], axis=-1),
        ],
        {"low": np.array(-1e9, np.float32)},
    ),
    "mask of ConstantOfShape, Expand and Trilu": (
        [
            SHAPE,
            COUNT,
            AS_VECTOR,
            node("Concat", ["counts", "counts"], ["square"], axis=0),
            node("ConstantOfShape", ["square"], ["ones"], value=helper.make_tensor("v", 1, [1], [1.0])),
            node("Trilu", ["ones"], ["triangle"], upper=0),
            node("Equal", ["square", "none"], ["is_none"]),
            node("Where", ["is_none", "square", "square"], ["wanted"]),
            node("Expand", ["triangle", "wanted"], ["mask"]),
            node("MatMul", ["mask", "x"], ["y"]),
        ],
        {"none": int64(-1)},
    ),
    "a size as a number": (
        [
            SHAPE,
            COUNT,
            node("Cast", ["count"], ["number"], to=1),
            node("ReduceSum", ["x", "first"], ["sum"]),
            node("Div", ["sum", "number"], ["y"]),
        ],
        {},
    ),
    "tile by a size, the last row": (
        [
            SHAPE,
            node("Gather", ["x", "last"], ["row"], axis=0),
            node("Gather", ["shape", "first"], ["times"], axis=0),
            node("Concat", ["times", "second"], ["repeats"], axis=0),
            node("Tile", ["row", "repeats"], ["many"]),
            node("Sub", ["x", "many"], ["y"]),
        ],
        {"last": int64(-1)},
    ),
    "arithmetic of sizes and a branch on it": (
        [
            SHAPE,
            node("ReduceProd", ["shape"], ["total"], keepdims=0),
            node("Div", ["total", "four"], ["quotient"]),
            node("Mod", ["total", "four"], ["rest"]),
            node("Equal", ["rest", "zero"], ["even"]),
            node(
                "If",
                ["even"],
                ["y"],
                then_branch=helper.make_graph(
                    [
                        node("Unsqueeze", ["quotient", "first"], ["rows_"]),
                        node("Concat", ["second", "rows_", "minus"], ["target"], axis=0),
                        node("Reshape", ["x", "target"], ["then_"]),
                    ],
                    "then",
                    [],
                    [helper.make_tensor_value_info("then_", 1, None)],
                ),
                else_branch=helper.make_graph(
                    [node("Neg", ["x"], ["else_"])], "else", [], [helper.make_tensor_value_info("else_", 1, None)]
                ),
            ),
        ],
        {"four": np.array(4, np.int64), "minus": int64(-1)},
    ),
    "ranks and running sums": (
        [
            node("CumSum", ["x", "zero"], ["sums"]),
            node("ArgMax", ["sums"], ["best"], axis=0, keepdims=0),
            node("Cast", ["best"], ["y"], to=1),
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_shape_arithmetic_of_a_size_that_varies(name: str, save_onnx: Callable[..., Path]) -> None:
    nodes, weights = SMALL[name]
    path = save_onnx(nodes, ROWS, [("y", "float32", None)], {**NUMBERS, **weights})
    model = imported(path, [{"x": floats(length, 4)} for length in LENGTHS])
    most = 12 if "table" in weights else 65_536
    assert list(symbols(model)) == ["rows"]
    assert symbols(model)["rows"][1] == most
    agrees_at_all_sizes(model)


def test_one_length_has_no_symbols(save_onnx: Callable[..., Path]) -> None:
    path = save_onnx([node("Relu", ["x"], ["y"])], ROWS, [("y", "float32", None)], {})
    assert imported(path, [{"x": floats(5, 4)}] * 2).symbols == []


def test_strides_and_resizes(save_onnx: Callable[..., Path]) -> None:
    nodes = [
        node("Conv", ["x", "kernel"], ["half"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("MaxPool", ["half"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["pooled", "", "scales"], ["large"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        node("GlobalAveragePool", ["large"], ["mean"]),
        node("Flatten", ["mean"], ["y"]),
    ]  # fmt: skip
    inputs = [("x", "float32", ("batch", 3, "height", "width"))]
    weights = {"kernel": floats(4, 3, 3, 3), "scales": np.array([1, 1, 2, 2], np.float32)}
    path = save_onnx(nodes, inputs, [("y", "float32", None)], weights)
    model = imported(path, [{"x": floats(b, 3, 8 * n, 8 * n + 4)} for b, n in ((1, 1), (2, 2), (3, 4))])
    assert list(symbols(model)) == ["batch", "height", "width"]
    agrees_at_all_sizes(model)


def test_two_names_for_one_size(save_onnx: Callable[..., Path]) -> None:
    """Exporters name the axes of each input by themselves."""
    inputs = [("x", "float32", ("rows", 4)), ("mask", "float32", ("mask_rows", 4))]
    path = save_onnx([SHAPE, node("Mul", ["x", "mask"], ["both"]), node("Reshape", ["both", "shape"], ["y"])], inputs,
                     [("y", "float32", None)], {})  # fmt: skip
    model = imported(path, [{"x": floats(n, 4), "mask": floats(n, 4)} for n in LENGTHS])
    assert list(symbols(model)) == ["rows"]
    agrees_at_all_sizes(model)


def test_a_size_that_is_named_by_arithmetic(save_onnx: Callable[..., Path]) -> None:
    inputs = [
        ("past", "float32", ("before", 4)),
        ("x", "float32", ("rows", 4)),
        ("mask", "float32", ("before + rows", 1)),
    ]
    nodes = [node("Concat", ["past", "x"], ["all"], axis=0), node("Mul", ["all", "mask"], ["y"])]
    path = save_onnx(nodes, inputs, [("y", "float32", None)], {})

    def feeds(extra: int) -> list[dict[str, np.ndarray]]:
        sizes = ((2, 3), (5, 1), (4, 4))
        return [{"past": floats(a, 4), "x": floats(b, 4), "mask": floats(a + b + extra, 1)} for a, b in sizes]

    model = imported(path, feeds(0))
    assert list(symbols(model)) == ["before", "rows"]
    agrees_at_all_sizes(model)
    with pytest.raises(InputError, match=r"^0\.npz: before \+ rows is 5, but mask has 6 along axis 0"):
        imported(path, feeds(1))


def test_sizes_on_both_sides_of_a_branch_are_refused(save_onnx: Callable[..., Path]) -> None:
    nodes = [SHAPE, COUNT, node("Less", ["count", "four"], ["short"]), node("Where", ["short", "x", "other"], ["y"])]
    path = save_onnx(nodes, ROWS, [("y", "float32", None)], {**NUMBERS, "four": np.array(4, np.int64),
                                                             "other": np.zeros(1, np.float32)})  # fmt: skip
    with pytest.raises(InputError, match=r"does one thing where rows < .*4.* and another where not: carve the sizes"):
        imported(path, [{"x": floats(length, 4)} for length in (3, 5)])
    model = imported(path, [{"x": floats(length, 4)} for length in (5, 9)])
    assert symbols(model) == {"rows": (4, 65_536)}


def test_a_shape_that_depends_on_values_is_refused(save_onnx: Callable[..., Path]) -> None:
    inputs = [("x", "float32", ("rows", 4)), ("to", "int64", (2,))]
    path = save_onnx([node("Reshape", ["x", "to"], ["y"])], inputs, [("y", "float32", None)], {})
    with pytest.raises(InputError, match=r"the shape that Reshape \(at y\) gives depends on the values of the input"):
        imported(path, [{"x": floats(5, 4), "to": int64(-1, 4)}, {"x": floats(9, 4), "to": int64(4, -1)}])


def test_integers_are_tiled_along_an_axis_of_any_size(save_onnx: Callable[..., Path]) -> None:
    inputs = [("x", "int64", ("rows", 4))]
    path = save_onnx([node("Tile", ["x", "many"], ["y"])], inputs, [("y", "int64", None)], {"many": int64(2, 3)})
    model = imported(path, [{"x": np.arange(rows * 4).reshape(rows, 4)} for rows in (3, 5)])
    assert list(symbols(model)) == ["rows"]
    agrees_at_all_sizes(model)


def test_edges_are_padded_along_an_axis_of_any_size(save_onnx: Callable[..., Path]) -> None:
    pads = {"pads": int64(2, 1, 1, -1)}
    path = save_onnx([node("Pad", ["x", "pads"], ["y"], mode="edge")], ROWS, [("y", "float32", None)], pads)
    model = imported(path, [{"x": floats(rows, 4)} for rows in (3, 5)])
    assert list(symbols(model)) == ["rows"]
    agrees_at_all_sizes(model)


@pytest.mark.parametrize(("mode", "rows", "least"), [("reflect", (4, 6), 4), ("wrap", (3, 6), 3)])
@pytest.mark.parametrize("before", [2, -1])
def test_an_axis_of_any_size_is_padded_by_its_own_elements(
    mode: str, rows: tuple[int, ...], least: int, before: int, save_onnx: Callable[..., Path]
) -> None:
    """`rows`: the smallest is the least that there may be with `before` of 2; one element is gone with -1."""
    pads = {"pads": int64(before, 1, 3 + min(before, 0), 2)}
    path = save_onnx([node("Pad", ["x", "pads"], ["y"], mode=mode)], ROWS, [("y", "float32", None)], pads)
    model = imported(path, [{"x": floats(count, 4)} for count in rows])
    (range_,) = symbols(model).values()
    assert range_ == (least, 65_536)
    agrees_at_all_sizes(model)


def test_a_mirror_of_more_than_there_is(save_onnx: Callable[..., Path]) -> None:
    pads = {"pads": int64(5, 0, 0, 0)}
    path = save_onnx([node("Pad", ["x", "pads"], ["y"], mode="reflect")], ROWS, [("y", "float32", None)], pads)
    with pytest.raises(InputError, match=r"Pad \(at y\) adds 5 elements \(reflect\) and has rows to take them from"):
        imported(path, [{"x": floats(count, 4)} for count in (3, 4)])


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_padding_up_to_a_size_is_refused(mode: str, save_onnx: Callable[..., Path]) -> None:
    nodes = [
        SHAPE,
        node("Gather", ["shape", "first"], ["rows_"], axis=0),
        node("Sub", ["nine", "rows_"], ["missing"]),
        node("Concat", ["none", "none", "missing", "none"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["y"], mode=mode),
    ]
    weights = {**NUMBERS, "nine": int64(9), "none": int64(0)}
    path = save_onnx(nodes, ROWS, [("y", "float32", None)], weights)
    agrees_at_all_sizes(imported(path, [{"x": floats(5, 4)}]))
    with pytest.raises(InputError, match=r"Pad \(at y\) adds as many elements as .* says: give inputs of one size$"):
        imported(path, [{"x": floats(rows, 4)} for rows in (3, 5)])


def spec(*shape: int | str | None) -> InputSpec:
    return InputSpec("x", "float32", shape)


@pytest.mark.parametrize(
    ("given", "sizes", "words"),
    [
        (spec("n", 4), [(3, 4), (9, 4)], r"^1: the size of x along axis 0 is 9, the model takes 1 to 8$"),
        (InputSpec("x", "float32", None), [(3, 4), (9,)], r"^input x is \[3, 4\] in 0 but \[9\] in 1: all steps need"),
    ],
)
def test_sizes_that_the_model_does_not_take(given: InputSpec, sizes: list[tuple[int, ...]], words: str) -> None:
    steps = [RawStep(str(number), {"x": np.zeros(shape)}, False) for number, shape in enumerate(sizes)]
    with pytest.raises(InputError, match=words):
        Sizes([given], steps, {"n": (1, 8)})


def test_names_of_symbols() -> None:
    steps = [RawStep(str(n), {"x": np.zeros((n, n + 1, n + 2, n + 2))}, False) for n in (3, 4)]
    assert [s.name for s in Sizes([spec("2 batch?", "x_dynamic_axes_2", None, None)], steps, {}).symbols] == [
        "_batch_",
        "x_1",
        "x_2",
    ]


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(16)
        self.places = torch.nn.Embedding(32, 16)
        self.register_buffer("ids", torch.arange(32).unsqueeze(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        x = x + self.places(self.ids[:, :length])
        mask = torch.triu(torch.full((length, length), -1e9), diagonal=1)
        attended, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        return self.norm(x + attended)[:, -1]


@pytest.mark.slow
def test_an_exported_program_at_several_sizes(tmp_path: Path) -> None:
    torch.manual_seed(1)
    sizes = {"x": {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", max=32)}}
    program = torch.export.export(Layer().eval(), (torch.randn(2, 5, 16),), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "layer.pt2")
    feeds = [{"x": floats(b, n, 16)} for b, n in ((1, 5), (3, 12), (2, 1))]
    model = imported(tmp_path / "layer.pt2", feeds)
    assert symbols(model) == {"x_0": (1, 8), "x_1": (1, 32)}
    agrees_at_all_sizes(model)
    with pytest.raises(InputError, match=r"2\.npz: the size of x along axis 1 is 40, the model takes 1 to 32"):
        imported(tmp_path / "layer.pt2", [*feeds[:2], {"x": floats(2, 40, 16)}])


@pytest.mark.slow
def test_a_model_with_two_symbols_passes_on_a_device(
    save_onnx: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the PATH without a compiler has no node either
    nodes = [
        node("Gather", ["table", "ids"], ["words"]),
        node("Shape", ["ids"], ["shape"]),
        node("Gather", ["shape", "one"], ["count"]),
        node("Range", ["zero", "count", "one"], ["places"]),
        node("Gather", ["table", "places"], ["positions"]),
        node("Add", ["words", "positions"], ["x"]),
        node("Concat", ["shape", "split"], ["heads"], axis=0),
        node("Reshape", ["x", "heads"], ["cut"]),
        node("Transpose", ["cut"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["cut"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Softmax", ["scores"], ["share"], axis=-1),
        node("MatMul", ["share", "q"], ["mixed"]),
        node("ReduceMean", ["mixed"], ["y"], axes=[2], keepdims=0),
    ]
    weights = {**NUMBERS, "table": floats(20, 8), "split": int64(2, -1)}
    path = save_onnx(nodes, [("ids", "int64", ("batch", "length"))], [("y", "float32", None)], weights)
    random = np.random.default_rng(2)
    model = imported(path, [{"ids": random.integers(0, 20, size)} for size in ((1, 5), (2, 16), (3, 3))])
    suite = carve(model, tmp_path / "two.suite", name="two")
    assert suite.manifest["oracle"]["agrees"]
    assert [step["sizes"] for step in suite.manifest["steps"]][1] == {"batch": 2, "length": 16}
    with Server([suite.path]) as server:
        found = Offload(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
        check_everywhere(suite, server, batch=(1, 4), length=(1, 32))
    with pytest.raises(InputError, match=r"GB, which no device has, where batch is .*--range batch=1:128"):
        build(suite, tmp_path / "two.tapml")
    assert [step["kept"] for step in found["steps"]] == [True] * len(suite.kernels)
    assert found["final"]["verdict"] == "pass"
