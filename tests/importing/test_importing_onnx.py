"""ONNX files as exporters write them: int64 inputs, dynamic axes, shape arithmetic, masks."""

from __future__ import annotations

import builtins
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tapml.errors import InputError
from tapml.importing import import_model, onnx_model
from tapml.importing.onnx_run import OnnxRuntime

node = helper.make_node
IDS = [("ids", "int64", ("batch", "seq")), ("mask", "int64", ("batch", "seq"))]


@pytest.fixture
def tiny(save_onnx: Callable[..., Path]) -> Path:
    """Embedding, a mask with -inf, a reshape whose shape is computed, a tied projection, argmax."""
    random = np.random.default_rng(3)
    weights = {
        "table": random.standard_normal((20, 8), np.float32),
        "zero": np.array(0, np.int64),
        "one": np.array([1], np.int64),
        "rest": np.array([-1], np.int64),
        "end": np.array([2**63 - 1], np.int64),
        "eight": np.array([8], np.int64),
        "low": np.array(-np.inf, np.float32),
    }
    nodes = [
        node("Gather", ["table", "ids"], ["words"]),
        node("Shape", ["ids"], ["shape"]),
        node("Slice", ["shape", "one", "end"], ["length"]),
        node("Concat", ["rest", "length", "eight"], ["target"], axis=0),
        node("Reshape", ["words", "target"], ["rows"], name="by_computed_shape"),
        node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        node("MatMul", ["rows", "turned"], ["scores"]),
        node("Equal", ["mask", "zero"], ["hidden"]),
        node("Unsqueeze", ["hidden", "rest"], ["column"]),
        node("Where", ["column", "low", "scores"], ["kept"]),
        node("Softmax", ["scores"], ["probability"], axis=-1),
        node("ArgMax", ["kept"], ["best"], axis=-1, keepdims=0),
        node("Not", ["hidden"], ["visible"]),
    ]
    outputs = [
        ("probability", "float32", ("batch", "seq", 20)),
        ("best", "int64", ("batch", "seq")),
        ("visible", "bool", ("batch", "seq")),
    ]
    return save_onnx(nodes, IDS, outputs, weights)


def feed(path: Path, **arrays: np.ndarray) -> list[Path]:
    file = path.with_suffix(".npz")
    np.savez(file, **arrays)
    return [file]


def test_the_oracle_runs_beside_the_conversion(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converting, convert, run = threading.Event(), onnx_model._convert, OnnxRuntime.run

    def begun(*arguments: Any) -> Any:
        converting.set()
        return convert(*arguments)

    def waiting(*arguments: Any) -> Any:
        assert converting.wait(60), "it ends before the conversion begins"
        return run(*arguments)

    monkeypatch.setattr(onnx_model, "_convert", begun)
    monkeypatch.setattr(OnnxRuntime, "run", waiting)
    files = feed(tiny, ids=np.array([[1, 2]], np.int64), mask=np.array([[1, 0]]))
    assert import_model(str(tiny), input_files=files).oracle


def test_int64_model_matches_onnx_runtime(tiny: Path, matches: Callable[..., None]) -> None:
    ids = np.array([[1, 2, 19, 0, 7]], np.int64)
    files = feed(tiny, ids=ids, mask=np.array([[1, 1, 1, 1, 0]]))
    model = import_model(str(tiny), input_files=files)
    assert model.input_names == ["ids", "mask"]
    assert {a.dtype.name for a in model.steps[0].inputs.values()} == {"int32"}
    assert model.oracle
    assert model.oracle.startswith("onnxruntime ")
    assert model.provenance["kind"] == "onnx"
    assert model.provenance["opset"] == 17
    notes = model.provenance["notes"]
    assert isinstance(notes, list)
    assert "ids narrowed from int64 to int32" in notes
    # Read both ways, the table is stored once and transposed by a kernel.
    assert [name for name, array in model.parameters if array.shape[-1:] == (8,)] == ["table"]
    assert model.steps[0].expected
    assert model.steps[0].expected[1].dtype == np.int32
    matches(model)


def test_int32_inputs_and_several_steps(tiny: Path) -> None:
    ids, mask = np.ones((1, 4), np.int32), np.ones((1, 4), bool)
    for name, array in {"a": ids, "b": ids * 2}.items():
        np.savez(tiny.with_name(f"{name}.npz"), ids=array, mask=mask)
    np.save(tiny.with_name("ids.npy"), ids)
    np.save(tiny.with_name("mask.npy"), mask)
    model = import_model(
        str(tiny),
        input_files=[tiny.with_name("a.npz"), tiny.with_name("b.npz")],
        input_arrays={"ids": tiny.with_name("ids.npy"), "mask": tiny.with_name("mask.npy")},
    )
    descriptions = [step.description for step in model.steps]
    assert descriptions == ["a.npz", "b.npz", "ids=ids.npy, mask=mask.npy"]
    assert model.steps[1].inputs["ids"].max() == 2


def test_random_inputs_stay_inside_the_table(tiny: Path) -> None:
    model = import_model(str(tiny), random_inputs=True, seed=5)
    step = model.steps[0]
    assert step.synthetic
    assert step.description == "random inputs, seed 5"
    assert 1 < step.inputs["ids"].max() < 20
    assert step.inputs["mask"].all()


def test_an_input_of_nan_is_noted(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    path = save_onnx([node("Exp", ["x"], ["y"])], [("x", "float32", (4,))], [("y", "float32", (4,))], {})
    np.savez(tmp_path / "x.npz", x=np.array([1, np.nan, 2, 3], np.float32))
    notes = import_model(str(path), input_files=[tmp_path / "x.npz"]).provenance["notes"]
    assert notes == ["1 of the 4 elements of input x of x.npz are NaN: what they reach is not tested"]


@pytest.mark.parametrize("places", ["half_pixel", "align_corners", "asymmetric"])
def test_cubic_weights_are_rounded_as_the_oracle_rounds_them(
    save_onnx: Callable[..., Path], matches: Callable[..., None], tmp_path: Path, places: str
) -> None:
    """So that images of sizes that divide nothing are not taken for wrong."""
    resized = node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", coordinate_transformation_mode=places)
    shape, sizes = (1, 2, 30, 24), np.array([1, 2, 50, 37])
    path = save_onnx([resized], [("x", "float32", shape)], [("y", "float32", sizes.tolist())], {"sizes": sizes})
    np.savez(tmp_path / "in.npz", x=np.random.default_rng(0).standard_normal(shape, np.float32))
    matches(import_model(str(path), input_files=[tmp_path / "in.npz"]))


def test_branch_on_a_shape_is_resolved(save_onnx: Callable[..., Path], matches: Callable[..., None]) -> None:
    def branch(operator: str, name: str) -> Any:
        out = helper.make_tensor_value_info(name, 1, [None])
        return helper.make_graph([node(operator, ["x"], [name])], name, [], [out])

    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("ReduceProd", ["shape"], ["count"], keepdims=0),
        node("Greater", ["count", "three"], ["many"]),
        node("If", ["many"], ["y"], then_branch=branch("Exp", "a"), else_branch=branch("Neg", "b")),
    ]
    x = [("x", "float32", ("n",))]
    path = save_onnx(nodes, x, [("y", "float32", ("n",))], {"three": np.array(3, np.int64)})
    for size in (2, 5):
        model = import_model(str(path), input_files=feed(path, x=np.linspace(0, 1, size, dtype=np.float32)))
        matches(model)


def test_without_onnx_runtime(tiny: Path, matches: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))

    def hidden(name: str, *rest: Any, **named: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", hidden)
    model = import_model(str(tiny), random_inputs=True)
    assert model.oracle is None
    assert model.steps[0].expected is None
    assert model.oracle_missing == "onnxruntime is not installed: pip install onnxruntime"


def test_external_data(save_onnx: Callable[..., Path], matches: Callable[..., None]) -> None:
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    io = [("x", "float32", (2, 4))], [("y", "float32", (2, 3))]
    path = save_onnx([node("MatMul", ["x", "w"], ["y"])], *io, {"w": weight})
    onnx.save(
        onnx.load(path),
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    model = import_model(str(path), random_inputs=True)
    assert [name for name, _ in model.parameters] == ["w"]
    matches(model)
    path.with_name("weights.bin").unlink()
    with pytest.raises(InputError, match=r"external data file weights\.bin \(for w\) is missing"):
        import_model(str(path), random_inputs=True)


def test_equal_weights_keep_their_names(save_onnx: Callable[..., Path]) -> None:
    zeros = {"first": np.zeros(3, np.float32), "second": np.zeros(3, np.float32)}
    nodes = [node("Add", ["x", "first"], ["a"]), node("Mul", ["a", "second"], ["y"])]
    path = save_onnx(nodes, [("x", "float32", (3,))], [("y", "float32", (3,))], zeros)
    model = import_model(str(path), random_inputs=True)
    assert [name for name, _ in model.parameters] == ["first", "second"]


def test_unknown_operator_is_named(save_onnx: Callable[..., Path]) -> None:
    io = [("x", "float32", (3,))], [("y", "float32", (3,))]
    path = save_onnx([node("Swish", ["x"], ["y"], domain="my.own")], *io, {}, domains=["my.own"])
    with pytest.raises(InputError, match=r"lacks the operator Swish \(my.own opset 1, node 'y'"):
        import_model(str(path), random_inputs=True)


def test_value_outside_int32_is_named(save_onnx: Callable[..., Path]) -> None:
    weights = {"offsets": np.array([1, 2**40], np.int64)}
    io = [("x", "int64", (2,))], [("y", "int64", (2,))]
    path = save_onnx([node("Add", ["x", "offsets"], ["y"])], *io, weights)
    with pytest.raises(InputError, match=r"offsets: the value 1099511627776 does not fit int32"):
        import_model(str(path), random_inputs=True)


def test_eight_bit_arithmetic_wraps_around_and_saturates(
    save_onnx: Callable[..., Path], matches: Callable[..., None], tmp_path: Path
) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1),
        node("Mul", ["q", "q"], ["y"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["z"], axis=1),
    ]
    weights = {"scale": np.array([0.1, 0.5], np.float32), "zero": np.array([3, -7], np.int8)}
    outputs = [("q", "int8", (2, 2)), ("y", "int8", (2, 2)), ("z", "float32", (2, 2))]
    path = save_onnx(nodes, [("x", "float32", (2, 2))], outputs, weights)
    np.savez(tmp_path / "x.npz", x=np.array([[2.25, -100.0], [99.0, 0.75]], np.float32))
    model = import_model(str(path), input_files=[tmp_path / "x.npz"])
    matches(model)


def test_what_nothing_gives_is_told_before_anything_runs(save_onnx: Callable[..., Path]) -> None:
    io = [("x", "float32", (2, 3))], [("y", "float32", (2, 3))]
    path = save_onnx([node("Relu", ["x"], ["a"]), node("Add", ["a", "w2"], ["y"], name="last")], *io, {})
    with pytest.raises(InputError, match=r"Add \(at last\) reads w2, and no input, weight or operator gives that"):
        import_model(str(path), random_inputs=True)
    path = save_onnx([node("Relu", ["x"], ["a"])], *io, {})
    with pytest.raises(InputError, match="nothing gives the output y"):
        import_model(str(path), random_inputs=True)


@pytest.mark.parametrize("content", [b"", b"not protobuf at all", b"\x08\x09"])
def test_broken_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(
        InputError,
        match=r"broken\.onnx is not a valid ONNX file: .*: copy it again, or export the model again; onnx\.checker",
    ):
        import_model(str(path), random_inputs=True)


def test_operator_defined_by_others_is_written_out(
    save_onnx: Callable[..., Path], matches: Callable[..., None]
) -> None:
    """TVM's importer has no Attention of ONNX's own, and would take it for Microsoft's."""
    shape = (1, 2, 5, 4)
    path = save_onnx(
        [node("Attention", ["q", "q", "q"], ["y"], name="attention")],
        [("q", "float32", shape)],
        [("y", "float32", shape)],
        {},
        opset=23,
    )
    matches(import_model(str(path), random_inputs=True))


def test_error_names_what_nobody_can_convert(save_onnx: Callable[..., Path]) -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": np.ones((5, 2), np.float32)}
    path = save_onnx(nodes, [("x", "float32", (3, 4))], [("y", "float32", (3, 2))], weights)
    with pytest.raises(InputError, match=r"operator MatMul \(at y\): a constant has shape .*4 and 5 are not equal"):
        import_model(str(path), random_inputs=True)


def test_onnx_runtime_reports_nothing(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    """Left to itself it gives this machine an identifier below the home folder and collects what it is used for."""
    path = save_onnx([node("Relu", ["x"], ["y"])], [("x", "float32", (3,))], [("y", "float32", (3,))], {})
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    script = f"from tapml.importing import import_model; print(import_model({str(path)!r}, random_inputs=True).oracle)"
    ran = subprocess.run(
        [sys.executable, "-c", script], env={**environment, "HOME": str(home)}, capture_output=True, text=True
    )
    assert "onnxruntime" in ran.stdout, ran.stderr
    assert [found for found in home.rglob("*") if "onnx" in str(found.relative_to(home))] == []


def test_sizes_that_exporters_leave_open_are_those_of_the_given_input(
    save_onnx: Callable[..., Path], tmp_path: Path
) -> None:
    """-1 and "?" stand for any size; two of them are not the same one."""
    shape = (-1, "?", "?")
    path = save_onnx([node("Relu", ["x"], ["y"])], [("x", "float32", shape)], [("y", "float32", shape)], {})
    given = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=given)
    imported = import_model(str(path), input_files=[tmp_path / "x.npz"])
    assert imported.steps[0].inputs["x"].shape == (2, 3, 5)


@pytest.mark.parametrize(("rate", "factor"), [(16_000, 2.0), (8_000, 3.0)])
def test_a_branch_on_a_scalar_input_is_taken_at_import(
    rate: int, factor: float, save_onnx: Callable[..., Path], tmp_path: Path
) -> None:
    branches = {
        name: helper.make_graph(
            [node("Mul", ["x", number], [f"of_{name}"])],
            name,
            [],
            [helper.make_tensor_value_info(f"of_{name}", onnx.TensorProto.FLOAT, None)],
        )
        for name, number in (("then_branch", "two"), ("else_branch", "three"))
    }
    nodes = [
        node("Equal", ["rate", "high"], ["is_high"]),
        node("If", ["is_high"], ["y"], **branches),
    ]
    weights = {
        "high": np.array(16_000, np.int64),
        "two": np.array(2, np.float32),
        "three": np.array(3, np.float32),
    }
    path = save_onnx(nodes, [("x", "float32", (4,)), ("rate", "int64", ())], [("y", "float32", (4,))], weights)
    np.savez(tmp_path / "x.npz", x=np.ones(4, np.float32), rate=np.array(rate, np.int64))
    imported = import_model(str(path), input_files=[tmp_path / "x.npz"])
    assert list(imported.steps[0].inputs) == ["x"]
    assert imported.steps[0].expected is not None
    np.testing.assert_array_equal(imported.steps[0].expected[0], np.full(4, factor, np.float32))
    assert f"input rate is fixed to what was given: {rate}" in imported.provenance["notes"]


def test_floats_become_integers_of_32_bits(save_onnx: Callable[..., Path], matches: Callable[..., None]) -> None:
    nodes = [
        node("Cast", ["x"], ["a"], to=onnx.TensorProto.INT32),
        node("CastLike", ["x", "two"], ["b"]),
        node("Abs", ["x"], ["positive"]),
        node("Cast", ["positive"], ["c"], to=onnx.TensorProto.UINT32),
    ]
    outputs = [("a", "int32", (6,)), ("b", "int32", (6,)), ("c", "uint32", (6,))]
    path = save_onnx(nodes, [("x", "float32", (6,))], outputs, {"two": np.array([2], np.int32)})
    numbers = np.array([-2.9, -0.5, 0.0, 2.9, 1e6, -2147483648.0], np.float32)
    matches(import_model(str(path), input_files=feed(path, x=numbers)))


OLD_FORMS = {
    "relu6": (9, "Clip", {"min": 0.0, "max": 6.0}, (2, 6)),
    "only max": (6, "Clip", {"max": 0.5}, (2, 6)),
    "pads": (2, "Pad", {"pads": [0, 1, 0, 2], "value": 1.5}, (2, 9)),
    "reflected": (2, "Pad", {"pads": [0, 1, 0, 2], "mode": "reflect"}, (2, 9)),
    "starts": (9, "Slice", {"starts": [1], "ends": [5], "axes": [1]}, (2, 4)),
    "axes": (11, "Unsqueeze", {"axes": [0, 3]}, (1, 2, 6, 1)),
    "sum": (11, "ReduceSum", {"axes": [1], "keepdims": 0}, (2,)),
    "scales": (7, "Upsample", {"scales": [1.0, 2.0], "mode": "nearest"}, (2, 12)),
    "softmax": (11, "Softmax", {"axis": 0}, (2, 6)),
    "dropout": (7, "Dropout", {"ratio": 0.3}, (2, 6)),
}
"""What later opsets take as operands."""


@pytest.mark.parametrize("name", OLD_FORMS)
def test_attributes_of_old_opsets(name: str, save_onnx: Callable[..., Path], matches: Callable[..., None]) -> None:
    opset, operator, attributes, shape = OLD_FORMS[name]
    io = [("x", "float32", (2, 6))], [("y", "float32", shape)]
    path = save_onnx([node(operator, ["x"], ["y"], **attributes)], *io, {}, opset=opset)
    matches(import_model(str(path), input_files=feed(path, x=np.linspace(-9, 9, 12, dtype=np.float32).reshape(2, 6))))
