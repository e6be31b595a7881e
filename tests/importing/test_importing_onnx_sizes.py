"""Operators that move, choose and sample elements, in random shapes, against ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model
from tapml.lowering.lower import lower
from tapml.operators.program import OperatorProgram

Evaluate = Callable[[ImportedModel], list[np.ndarray]]

_RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def boxes(batch: int, count: int) -> np.ndarray:
    """Corners, in either order."""
    corners = _RANDOM.uniform(0, 1, (batch, count, 2, 2)).astype(np.float32)
    return corners.reshape(batch, count, 4)


def imported(
    folder: Path,
    operator: str,
    inputs: Mapping[str, np.ndarray],
    *,
    constants: Mapping[str, np.ndarray] | None = None,
    operands: str = "",
    outputs: int = 1,
    opset: int = 22,
    **attributes: Any,
) -> ImportedModel:
    """A model of one node: `operands` are names, in order, of inputs and constants ("-": none)."""
    names = (operands or " ".join([*inputs, *(constants or {})])).split()
    results = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(operator, ["" if name == "-" else name for name in names], results, **attributes)
    takes = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    gives = [onnx.ValueInfoProto(name=name) for name in results]
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph([node], "one", takes, gives, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model)
    for value, output in zip(inferred.graph.output, model.graph.output, strict=True):
        kind = value.type.tensor_type.elem_type or TensorProto.FLOAT
        output.CopyFrom(helper.make_tensor_value_info(value.name, kind, None))
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    return import_model(str(folder / "model.onnx"), input_files=[folder / "inputs.npz"])


def agrees(model: ImportedModel, evaluate: Evaluate) -> None:
    # Its reference implementation where ONNX Runtime has none of the operator's version.
    assert model.oracle
    assert model.steps[0].expected is not None
    for result, expected in zip(evaluate(model), model.steps[0].expected, strict=True):
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-4, atol=1e-5)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, **attributes)


def case(**fields: Any) -> dict[str, Any]:
    return fields


CASES: dict[str, dict[str, Any]] = {
    "max_pool_dilated": case(
        operator="MaxPool", inputs={"x": floats(2, 3, 13, 11)}, outputs=2, kernel_shape=[3, 2], strides=[2, 1],
        dilations=[2, 3], pads=[1, 1, 2, 0],
    ),
    "max_pool_ceil": case(
        operator="MaxPool", inputs={"x": floats(1, 2, 10, 9)}, outputs=2, kernel_shape=[3, 3], strides=[2, 2],
        ceil_mode=1, pads=[1, 0, 1, 1],
    ),
    "max_pool_column_major": case(
        operator="MaxPool", inputs={"x": floats(2, 2, 6, 7)}, outputs=2, kernel_shape=[2, 2], strides=[2, 2],
        storage_order=1,
    ),
    "max_pool_3d_same": case(
        operator="MaxPool", inputs={"x": floats(1, 2, 5, 6, 7)}, outputs=2, kernel_shape=[3, 2, 3], strides=[2, 2, 2],
        auto_pad="SAME_LOWER",
    ),
    "max_pool_1d_equals": case(
        operator="MaxPool", inputs={"x": np.ones((1, 2, 9), np.float32)}, outputs=2, kernel_shape=[4], strides=[2],
    ),
    "average_pool_beyond": case(
        operator="AveragePool", inputs={"x": floats(1, 3, 7, 7)}, kernel_shape=[1000, 1000], strides=[1000, 1000],
        ceil_mode=1,
    ),
    "average_pool_beyond_padded": case(
        operator="AveragePool", inputs={"x": floats(1, 2, 7, 6)}, kernel_shape=[9, 10], strides=[2, 3],
        pads=[3, 2, 5, 4], ceil_mode=1, count_include_pad=1,
    ),
    "average_pool_beyond_dilated": case(
        operator="AveragePool", inputs={"x": floats(1, 2, 7, 7)}, kernel_shape=[4, 8], strides=[2, 2],
        dilations=[2, 3], pads=[3, 7, 3, 7], ceil_mode=1,
    ),
    "average_pool_far_strides": case(
        operator="AveragePool", inputs={"x": floats(1, 2, 7, 7)}, kernel_shape=[3, 3], strides=[900, 900],
        pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1,
    ),
    "max_pool_beyond": case(
        operator="MaxPool", inputs={"x": floats(1, 2, 7, 7)}, kernel_shape=[300, 301], strides=[50, 50],
        pads=[150, 150, 150, 150],
    ),
    "max_pool_beyond_places": case(
        operator="MaxPool", inputs={"x": floats(1, 2, 7, 7)}, outputs=2, kernel_shape=[9, 10], strides=[2, 1],
        pads=[3, 2, 1, 4],
    ),
    "lp_pool_beyond": case(
        operator="LpPool", inputs={"x": floats(1, 2, 7, 7)}, kernel_shape=[1000, 8], strides=[1000, 3],
        pads=[0, 3, 0, 2], ceil_mode=1, p=3,
    ),
    "lp_pool_1d": case(operator="LpPool", inputs={"x": floats(2, 3, 9)}, kernel_shape=[3], strides=[2], p=1),
    "conv_transpose_output_shape": case(
        operator="ConvTranspose", inputs={"x": floats(1, 4, 5, 6), "w": floats(4, 3, 3, 3), "b": floats(6)}, group=2,
        strides=[3, 2], output_shape=[14, 11],
    ),
    "conv_transpose_same_lower": case(
        operator="ConvTranspose", inputs={"x": floats(2, 2, 5), "w": floats(2, 3, 4)}, strides=[3],
        auto_pad="SAME_LOWER",
    ),
    "conv_transpose_same_upper": case(
        operator="ConvTranspose", inputs={"x": floats(1, 2, 4, 5), "w": floats(2, 2, 5, 4)}, strides=[2, 3],
        auto_pad="SAME_UPPER",
    ),
    "deform_conv_groups": case(
        operator="DeformConv", inputs={"x": floats(2, 4, 7, 8), "w": floats(6, 2, 3, 2),
        "offset": 2 * floats(2, 24, 4, 8), "b": floats(6), "mask": floats(2, 12, 4, 8)}, group=2,
        offset_group=2, pads=[1, 0, 1, 1], strides=[2, 1],
        kernel_shape=[3, 2],
    ),
    "deform_conv_dilated": case(
        operator="DeformConv", inputs={"x": floats(1, 2, 9, 9), "w": floats(1, 2, 2, 2), "offset": floats(1, 8, 7, 7)},
        dilations=[2, 2], kernel_shape=[2, 2],
    ),
    "col2im_3d": case(
        operator="Col2Im", inputs={"x": floats(2, 3 * 8, 4 * 3 * 4)},
        constants={"image": np.array([5, 4, 5]), "block": np.array([2, 2, 2])},
    ),
    "col2im_strided": case(
        operator="Col2Im", inputs={"x": floats(1, 2 * 6, 5 * 3)}, constants={"image": np.array([9, 8]),
        "block": np.array([2, 3])}, strides=[2, 2], dilations=[1, 2], pads=[1, 0, 1, 1],
    ),
    "det": case(operator="Det", inputs={"x": floats(3, 2, 6, 6)}),
    "det_singular": case(operator="Det", inputs={"x": np.arange(16, dtype=np.float32).reshape(4, 4)}),
    "det_one": case(operator="Det", inputs={"x": floats(5, 1, 1)}),
    "eye_like": case(operator="EyeLike", inputs={"x": floats(4, 7)}, k=-2, dtype=int(TensorProto.INT64)),
    "pad_reflect": case(
        operator="Pad", inputs={"x": floats(3, 5, 4)}, constants={"pads": np.array([1, 0, 3, 2, 0, 1])}, mode="reflect",
    ),
    "pad_edge_axes": case(
        operator="Pad", inputs={"x": floats(3, 5, 4)}, constants={"pads": np.array([2, 0, 1, 3]),
        "axes": np.array([-1, 1])}, operands="x pads - axes", mode="edge",
    ),
    "pad_wrap": case(
        operator="Pad", inputs={"x": floats(4, 5)}, constants={"pads": np.array([3, 1, 2, 4])}, mode="wrap",
    ),
    "pad_negative": case(
        operator="Pad", inputs={"x": floats(4, 6), "value": np.array(2.5, np.float32)},
        constants={"pads": np.array([-1, 2, 1, -3])}, operands="x pads value",
    ),
    "pad_negative_edge": case(
        operator="Pad", inputs={"x": floats(4, 6)}, constants={"pads": np.array([-1, 2, 1, -3])}, mode="edge",
    ),
    "pad_int64": case(
        operator="Pad", inputs={"x": np.arange(6).reshape(2, 3)}, constants={"pads": np.array([1, 1, 0, 2]),
        "value": np.array(-7)},
    ),
    "pad_old": case(operator="Pad", inputs={"x": floats(2, 3)}, opset=2, pads=[1, 0, 0, 2], value=1.5),
    "roi_align_max": case(
        operator="RoiAlign", inputs={"x": floats(2, 3, 9, 8), "rois": np.array([[0, 1, 7, 8], [2, 2, 30, 20],
        [-4, -3, 3, 4]], np.float32), "batch": np.array([0, 1, 1])}, mode="max", output_height=3, output_width=2,
        sampling_ratio=2, spatial_scale=0.5,
    ),
    "roi_align_adaptive": case(
        operator="RoiAlign", inputs={"x": floats(2, 3, 9, 8), "rois": np.array([[0, 1, 7, 8], [2, 2, 60, 40],
        [-4, -3, 3, 4], [5, 5, 5, 5]], np.float32), "batch": np.array([0, 1, 1, 0])}, output_height=3, output_width=2,
        sampling_ratio=0,
    ),
    "roi_align_corner_pixel": case(
        operator="RoiAlign", inputs={"x": floats(1, 2, 6, 6), "rois": np.array([[0, 1, 5, 5], [2, 2, 2.5, 2.5]],
        np.float32), "batch": np.array([0, 0])}, output_height=2, output_width=2, sampling_ratio=0,
        coordinate_transformation_mode="output_half_pixel",
    ),
    "slice_backwards": case(
        operator="Slice", inputs={"x": floats(6, 7)}, constants={"starts": np.array([4, -1]),
        "ends": np.array([-(2**31), 0]), "axes": np.array([0, 1]), "steps": np.array([-2, -3])},
    ),
    "split_some_empty": case(
        operator="Split", inputs={"x": floats(3, 4)}, constants={"split": np.array([1, 3])}, axis=1, outputs=2,
    ),
    **{
        f"tile_{dtype}": case(
            operator="Tile", inputs={"x": np.arange(6).reshape(2, 3).astype(dtype)},
            constants={"repeats": np.array([2, 3])},
        )
        for dtype in ("float32", "int64", "int8", "uint8", "bool")
    },
    "upsample_7": case(
        operator="Upsample", inputs={"x": floats(1, 2, 3, 4)}, opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest",
    ),
    "upsample_9_linear": case(
        operator="Upsample", inputs={"x": floats(1, 2, 3, 4)}, constants={"scales": np.array([1, 1, 2, 3],
        np.float32)}, opset=9, mode="linear",
    ),
    "nonzero": case(operator="NonZero", inputs={"x": (floats(3, 7, 5) > 0.4) * floats(3, 7, 5)}),
    "nonzero_of_nothing": case(operator="NonZero", inputs={"x": np.zeros((2, 3), np.float32)}),
    "nonzero_of_bools": case(operator="NonZero", inputs={"x": floats(50) > 0}),
    "compress_axis": case(
        operator="Compress", inputs={"x": floats(3, 6, 2), "c": np.array([0, 1, 1, 0, 1], bool)}, axis=1,
    ),
    "compress_flat": case(operator="Compress", inputs={"x": np.arange(12).reshape(3, 4), "c": floats(12) > 0}),
    "unique": case(operator="Unique", inputs={"x": np.round(2 * floats(4, 9))}, outputs=4),
    "unique_unsorted": case(operator="Unique", inputs={"x": _RANDOM.integers(-3, 4, 40)}, outputs=4, sorted=0),
    "unique_rows": case(operator="Unique", inputs={"x": _RANDOM.integers(0, 2, (3, 20, 2))}, outputs=4, axis=-2),
    "unique_rows_unsorted": case(
        operator="Unique", inputs={"x": _RANDOM.integers(0, 2, (20, 3))}, outputs=4, axis=0, sorted=0,
    ),
    "suppression": case(
        operator="NonMaxSuppression", inputs={"boxes": boxes(2, 40), "scores": np.round(floats(2, 3, 40), 1)},
        constants={"most": np.array([7]), "overlap": np.array([0.3], np.float32), "least": np.array([0.2], np.float32)},
    ),
    "suppression_centred": case(
        operator="NonMaxSuppression", inputs={"boxes": np.abs(floats(1, 30, 4)), "scores": floats(1, 2, 30)},
        constants={"most": np.array([2**40]), "overlap": np.array([0.5], np.float32)}, center_point_box=1,
    ),
    "suppression_of_all": case(
        operator="NonMaxSuppression", inputs={"boxes": boxes(1, 5), "scores": floats(1, 1, 5)},
        constants={"most": np.array([3]), "overlap": np.array([0.5], np.float32), "least": np.array([9], np.float32)},
    ),
    "global_max_pool": case(operator="GlobalMaxPool", inputs={"x": floats(2, 3, 4, 5, 2)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gives_what_onnx_gives(name: str, tmp_path: Path, evaluate: Evaluate) -> None:
    agrees(imported(tmp_path, **CASES[name]), evaluate)


@pytest.mark.parametrize("name", [name for name in CASES if "pool_beyond" in name or "pool_far" in name])
def test_a_window_costs_no_more_than_its_data(name: str, tmp_path: Path) -> None:
    model = imported(tmp_path, **CASES[name])
    (data,) = model.steps[0].inputs.values()
    for operator in lower(model.module, 1).operators:
        program = operator.program
        assert isinstance(program, OperatorProgram)
        results = max(math.prod(buffer.shape) for buffer in program.parameters[1:])
        assert max((math.prod(buffer.shape) for buffer in program.temporaries), default=0) <= results
        assert program.turns <= 2 * results * (1 + data[0, 0].size)


GROWN = {
    "Range": [np.array(0), np.array(200), np.array(1)],
    "ConstantOfShape": [np.array([20, 10])],
    "Expand": [np.array(1), np.array([200])],
    "Tile": [np.array([1, 2]), np.array([100])],
    "OneHot": [np.array([1, 2]), np.array(100), np.array([0, 1])],
    "Pad": [np.array([1, 2]), np.array([0, 198]), np.array(0)],
}


@pytest.mark.parametrize("operator", GROWN)
def test_a_few_numbers_make_no_large_constant(
    operator: str, save_onnx: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before it is made."""
    operands = {f"c{number}": array for number, array in enumerate(GROWN[operator])}
    nodes = [node(operator, [*operands], ["large"]), node("Cast", ["large"], ["f"], to=1)]
    nodes += [node("ReduceMax", ["f"], ["most"], keepdims=0), node("Add", ["x", "most"], ["y"])]
    path = save_onnx(nodes, [("x", "float32", [2])], [("y", "float32", [2])], operands)
    np.savez(tmp_path / "in.npz", x=np.ones(2, np.float32))
    monkeypatch.setattr("tapml.importing.constants.MOST_BYTES", 300)
    with pytest.raises(InputError, match=rf"operator {operator} \(at large\) makes a constant of .* elements, 0 MB"):
        import_model(str(path), input_files=[tmp_path / "in.npz"])


@pytest.mark.parametrize("name", [pytest.param("suppression", marks=pytest.mark.slow), "compress_flat", "nonzero"])
def test_many_steps_are_several_blocks(
    name: str, tmp_path: Path, evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapml.importing.sequential.MOST_STEPS", 3)
    agrees(imported(tmp_path, **CASES[name]), evaluate)


def test_too_many_steps_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.importing.sequential.MOST_STEPS", 3)
    monkeypatch.setattr("tapml.importing.sequential.MOST_BLOCKS", 20)
    with pytest.raises(InputError, match=r"takes 280 steps one after the other.*give it smaller inputs"):
        imported(tmp_path, **CASES["suppression"])


def test_every_sequential_kernel_has_bounds(tmp_path: Path) -> None:
    """Each step is followed: what is chosen by comparing is exact where no comparison is in doubt."""
    suite = carve(imported(tmp_path, **CASES["suppression"]), tmp_path / "x.suite", name="x")
    (test,) = [test for test in suite.tests if test.kernel == "non_max_suppression"]
    assert [tolerance.reasons for tolerance in test.tolerances] == [("int32: exact",)] * 2


# What may take a tensor with a count, and what must not: NonZero's places are [2, at most 12].
TAKEN = {
    "rows of them": [node("Transpose", ["p"], ["t"]), node("GatherND", ["x", "t"], ["y"])],
    "arithmetic": [node("Cast", ["p"], ["f"], to=1), node("Exp", ["f"], ["e"]), node("Mul", ["e", "f"], ["y"])],
    "along the other axis": [node("ReduceMax", ["p", "first"], ["y"], keepdims=0)],
    "a part of the other axis": [
        node("Slice", ["p", "one", "two", "first"], ["s"]),
        node("Squeeze", ["s", "first"], ["y"]),
    ],
    "joined": [node("Concat", ["p", "p"], ["y"], axis=0)],
    "by a row": [node("Gather", ["p", "k"], ["g"], axis=0), node("Gather", ["x", "g"], ["y"], axis=1)],
    "a product": [node("Transpose", ["p"], ["t"]), node("Cast", ["t"], ["f"], to=1), node("MatMul", ["f", "w"], ["y"])],
    "unsqueezed": [node("Unsqueeze", ["p", "first"], ["y"])],
}
REFUSED = {
    "it reduces that axis": [node("ReduceSum", ["p", "one"], ["y"])],
    "goes along that axis": [node("Cast", ["p"], ["f"], to=1), node("Softmax", ["f"], ["y"], axis=1)],
    "would depend on them": [node("Shape", ["p"], ["y"])],
    "elements of that axis by their number": [node("Gather", ["p", "k"], ["y"], axis=1)],
    "takes a part of that axis": [node("Slice", ["p", "first", "one", "one"], ["y"])],
    "puts something behind that axis": [node("Concat", ["p", "p"], ["y"], axis=1)],
    "takes that axis apart": [node("Flatten", ["p"], ["y"], axis=0)],
    "may look at all": [node("TopK", ["p", "one"], ["v", "y"])],
    "with a tensor of fixed size": [node("Add", ["p", "many"], ["y"])],
    "counted twice": [node("NonZero", ["p"], ["y"])],
    "sums along that axis": [node("Cast", ["p"], ["f"], to=1), node("MatMul", ["f", "x12"], ["y"])],
}  # fmt: skip
_WEIGHTS = {
    **{"first": np.array([0]), "one": np.array([1]), "two": np.array([2]), "k": np.array(1)},
    **{"many": np.arange(12), "w": floats(2, 3), "x12": floats(12, 2)},
}


def chosen(save_onnx: Callable[..., Path], nodes: list[Any], tmp_path: Path) -> ImportedModel:
    x = (floats(3, 4) > 0).astype(np.float32)
    np.savez(tmp_path / "inputs.npz", x=x)
    takes, gives = [("x", "float32", (3, 4))], [("y", "float32", None)]
    path = save_onnx([node("NonZero", ["x"], ["p"]), *nodes], takes, gives, _WEIGHTS, opset=18)
    return import_model(str(path), input_files=[tmp_path / "inputs.npz"])


@pytest.mark.parametrize("name", TAKEN)
def test_a_count_goes_along(name: str, save_onnx: Callable[..., Path], tmp_path: Path, evaluate: Evaluate) -> None:
    model = chosen(save_onnx, TAKEN[name], tmp_path)
    assert model.outputs == ["y", "y.count"]
    assert "y.count of them count" in str(model.provenance["notes"])
    agrees(model, evaluate)


@pytest.mark.parametrize("why", REFUSED)
def test_what_would_mix_in_what_does_not_count_is_refused(
    why: str, save_onnx: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"takes \w+, whose size depends on the values of the input, .*{why}"):
        chosen(save_onnx, REFUSED[why], tmp_path)
