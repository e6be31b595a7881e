"""What a model calls its tensors and sizes is no name in WGSL at times; kernels of them are right on devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from compilers.test_native_kernels import verdicts
from compilers.test_native_products import Case, carved
from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.compilers.tvm.names import of_function
from tapml.compilers.wgsl_names import is_name, of_symbol
from tapml.importing import import_model

op = relax.op


def test_words_of_the_language_are_no_names() -> None:
    assert [*filter(is_name, ["x", "_x", "x_1", "__x", "_", "1x", "x y", "a.b", "é", "²", "filter", ""])] == [
        "x",
        "_x",
        "x_1",
    ]


def test_sizes_have_different_names() -> None:
    symbols = ["n", "_n", "__n", "of_n", "patch", "of_patch", "of___n", "of_of_n"]
    named = [of_symbol(symbol) for symbol in symbols]
    assert all(map(is_name, named))
    assert len({*named}) == len(symbols)
    assert named[:2] == symbols[:2]


def test_functions_keep_names_that_are_words_of_the_language() -> None:
    assert [*map(of_function, ["cast", "filter", "fused_add", "1/2", "__sums²"])] == [
        "cast",
        "filter",
        "fused_add",
        "of_1_2",
        "of_sums_",
    ]


def part(number: int) -> Callable[[Any, Any], Any]:
    return lambda b, x: relax.TupleGetItem(b.emit(op.split(x, [3, 8], 1)), number)


def test_names_of_a_module_may_be_any_text(tmp_path: Path) -> None:
    """Those of `carved` have a blank and a comma in them."""
    cases: dict[str, Case] = {
        **{f"part {number}": (part(number), [(2, 12)]) for number in range(3)},
        "all parts": (lambda b, x: op.concat([b.emit(part(n)(b, x)) for n in (2, 0, 1)], 1), [(2, 12)]),
        "1/2": (lambda b, x, y: op.add(x, y), [(5,), (5,)]),
        "__sums²": (lambda b, x: op.sum(x, -1), [(3, 70)]),
    }
    assert verdicts(carved(cases, tmp_path, compilers=CHOICES["tvm"]), "node-dawn") == {}


@pytest.mark.parametrize("compiler", ["tvm", "native"])
def test_names_of_a_file_may_be_any_that_it_can_have(compiler: str, tmp_path: Path) -> None:
    """Alike but for what WGSL has no letter for; sizes that are called as words of the language, too."""
    inputs = {name: ["patch", "__n"] for name in ("a:0", "a.0", "a-0", "__x", "filter")}
    weights = {name: np.arange(1, 2, dtype="float32") for name in ("__w", "²", "w.1", "w:1")}
    nodes, last = [], ""
    for number, name in enumerate([*inputs, *weights]):
        nodes += [helper.make_node("Mul" if number % 2 else "Sub", [last, name], [f"s{number}"])] if last else []
        last = f"s{number}" if last else name
    nodes.append(helper.make_node("Softmax", [last], ["y"], axis=0))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["patch", "__n"])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "x.onnx")
    random = np.random.default_rng(3)
    files = [tmp_path / "3.npz", tmp_path / "5.npz"]
    for rows, file in zip((3, 5), files, strict=True):
        np.savez(file, **{name: random.normal(size=(rows, rows + 1)).astype("float32") for name in inputs})
    model = import_model(str(tmp_path / "x.onnx"), input_files=files)
    assert [symbol.name for symbol in model.symbols] == ["patch", "__n"]
    suite = carve(model, tmp_path / "x.suite", name="x", compilers=CHOICES[compiler])
    assert verdicts(suite, "node-dawn") == {}
