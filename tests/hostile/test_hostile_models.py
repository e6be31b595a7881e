"""ONNX files whose tensors are not where, or not what, they say; and large tensors that are looked at."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tapml.errors import InputError
from tapml.importing.onnx_file import input_specs, read, with_known_operators
from tapml.server.statistics import statistics

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


def model(tensor: Any) -> Any:
    """y = x + w"""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def external(**entries: str) -> Any:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def changed(**fields: Any) -> Any:
    tensor = numpy_helper.from_array(WEIGHT, "w")
    for field, value in fields.items():
        if field == "dims":
            del tensor.dims[:]
            tensor.dims.extend(value)
        else:
            setattr(tensor, field, value)
    return tensor


def in_a_subgraph(tensor: Any) -> Any:
    """The tensor in a constant of a branch of an If."""
    values = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3])]
    branch = helper.make_graph([helper.make_node("Constant", [], ["z"], value=tensor)], "b", [], values)
    made = model(numpy_helper.from_array(WEIGHT, "w"))
    made.graph.node.append(helper.make_node("If", ["x"], ["u"], then_branch=branch, else_branch=branch))
    return made


HOSTILE: dict[str, tuple[Callable[[], Any], str]] = {
    "an absolute path": (lambda: model(external(location="/etc/passwd")), "not in the model's folder"),
    "a path upwards": (lambda: model(external(location="../../etc/passwd")), "not in the model's folder"),
    "a path down and up": (lambda: model(external(location="data/../../secret")), "not in the model's folder"),
    "no path": (lambda: model(external(location="")), "not in the model's folder"),
    "no location": (lambda: model(external(offset="0")), "not in the model's folder"),
    "a NUL": (lambda: model(external(location="w.bin\0")), "not in the model's folder"),
    "a drive": (lambda: model(external(location="C:w.bin")), "no name that every system takes"),
    "a link": (lambda: model(external(location="link.bin")), "behind a link"),
    "a linked folder": (lambda: model(external(location="linked/w.bin")), "behind a link"),
    "a FIFO": (lambda: model(external(location="fifo")), "is missing"),
    "a folder": (lambda: model(external(location="folder")), "is missing"),
    "nothing": (lambda: model(external(location="nothing.bin")), "is missing"),
    "a negative offset": (lambda: model(external(location="w.bin", offset="-4")), "outside of its external data"),
    "an offset behind the end": (lambda: model(external(location="w.bin", offset="99")), "outside of its external"),
    "a length behind the end": (lambda: model(external(location="w.bin", length="99")), "outside of its external"),
    "a length that is too short": (lambda: model(external(location="w.bin", length="20")), "takes 24 bytes, and holds"),
    "an offset that is no number": (lambda: model(external(location="w.bin", offset="x")), "is no number"),
    "in a constant of a branch": (lambda: in_a_subgraph(external(location="../secret")), "not in the model's folder"),
    "2**40 elements": (lambda: model(changed(dims=[2**20, 2**20])), "says that it takes 4398046511104 bytes"),
    "a negative extent": (lambda: model(changed(dims=[-2, -3])), "has the shape"),
    "too few bytes": (lambda: model(changed(raw_data=b"1234")), "takes 24 bytes, and holds 4"),
    "2**40 elements in no field": (
        lambda: model(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40])), "and holds 0",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"s" * 24)
    place = tmp_path / "model"
    for name in ("folder", "real"):
        (place / name).mkdir(parents=True)
    (place / "w.bin").write_bytes(WEIGHT.tobytes())
    (place / "real" / "w.bin").write_bytes(WEIGHT.tobytes())
    (place / "link.bin").symlink_to(tmp_path / "secret")
    (place / "linked").symlink_to(place / "real")
    os.mkfifo(place / "fifo")
    return place


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_onnx_file_is_one_sentence(name: str, folder: Path) -> None:
    make, said = HOSTILE[name]
    path = folder / "model.onnx"
    path.write_bytes(make().SerializeToString())
    with pytest.raises(InputError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "entries",
    [{"location": "w.bin"}, {"location": "real/w.bin", "offset": "0", "length": "24"}, {"location": "./w.bin"}],
)
def test_external_data_beside_the_model_is_taken(entries: dict[str, str], folder: Path) -> None:
    path = folder / "model.onnx"
    path.write_bytes(model(external(**entries)).SerializeToString())
    assert read(path).graph.initializer[0].name == "w"


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "int8", "uint8", "bool", "complex64"])
def test_tensors_in_their_own_fields_are_taken(dtype: str, folder: Path) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = WEIGHT.astype(dtype).flatten().tolist()
    path = folder / "model.onnx"
    for tensor in (
        helper.make_tensor("w", kind, [2, 3], values),
        numpy_helper.from_array(WEIGHT.astype(dtype), "w"),
        helper.make_tensor("w", kind, [0, 3], []),
        helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"b"]),
        helper.make_tensor("f", TensorProto.INT4, [3], [1, 2, 3]),
    ):
        path.write_bytes(model(tensor).SerializeToString())
        assert read(path).graph.initializer


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_input_error(data: st.DataObject, tmp_path: Path) -> None:
    whole = bytearray(model(numpy_helper.from_array(WEIGHT, "w")).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.onnx"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    try:
        found = with_known_operators(read(path), path)
        input_specs(found, path)
    except InputError as error:
        said = str(error)
        assert str(path) in said


def test_statistics_of_a_large_tensor_take_little_beside_it() -> None:
    array = np.zeros(8 << 20, np.float32)
    array[1::2] = 2
    array[:3] = np.nan, np.inf, 6
    tracemalloc.start()
    found = statistics(array)
    assert tracemalloc.get_traced_memory()[1] < array.nbytes
    tracemalloc.stop()
    finite = array[np.isfinite(array)].astype(np.float64)
    assert (found["nan"], found["inf"], found["zeros"]) == (1, 1, int((array == 0).sum()))
    assert (found["min"], found["max"]) == (0.0, 6.0)
    np.testing.assert_allclose([found["mean"], found["std"]], [finite.mean(), finite.std()], rtol=1e-12)
    counts, edges = np.histogram(finite, bins=24)
    assert found["histogram"] == {"edges": edges.tolist(), "counts": counts.tolist()}
    assert found["head"][:3] == ["NaN", "Infinity", 6.0]
