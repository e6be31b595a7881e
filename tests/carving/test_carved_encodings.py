"""Kernels by hand that see packed words: weights of 4 bits and an output of 8, from the carve to a device."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tapml as tml
from everywhere import check_everywhere
from tapml.carving.carve import carve
from tapml.compilers.choose import COMPILERS
from tapml.errors import InputError
from tapml.importing.model import ImportedModel, Step
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings, requirements, workgroup_size
from tapml.kernels.document import FORMAT
from tapml.lowering.operator import Operator
from tapml.server import Server
from tapml.sharing.files import export, load_repro
from tapml.sharing.imports import add_to_suite
from tapml.sharing.repro import of_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.offload import Offload
from tapml.validation.operatorwise import OperatorRun

ROWS, DEPTH, COLUMNS = 3, 8, 5
SCALE = 0.5
QUANTIZES = "fused_multiply_tir_round_tir_clip_cast1"

DEQUANTIZE = """\
@group(0) @binding(0) var<storage, read> codes : array<u32>;
@group(0) @binding(1) var<storage, read_write> weights : array<f32>;
@compute @workgroup_size(64)
fn dequantize(@builtin(global_invocation_id) id : vec3u) {
  if (id.x < arrayLength(&weights)) {
    let word = bitcast<i32>(codes[id.x / 8u]);
    weights[id.x] = f32(extractBits(word, (id.x % 8u) * 4u, 4u));
  }
}
"""
QUANTIZE = """\
@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> codes : array<u32>;
@compute @workgroup_size(64)
fn quantize(@builtin(global_invocation_id) id : vec3u) {
  if (id.x < arrayLength(&codes)) {
    var word = 0u;
    for (var i = 0u; i < 4u && id.x * 4u + i < arrayLength(&x); i++) {
      let code = i32(clamp(round(x[id.x * 4u + i] * 0.5), -128.0, 127.0));
      word = insertBits(word, bitcast<u32>(code), i * 8u, 8u);
    }
    codes[id.x] = word;
  }
}
"""


class ByHand:
    """Two operators of the model; how they are stored, for inputs and outputs."""

    name = "by-hand"
    version = "1"

    def __init__(self, codes: str = "int4x8") -> None:
        self.known = {
            "cast": (DEQUANTIZE, [codes, None]),
            QUANTIZES: (QUANTIZE, [None, "int8x4"]),
        }

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Callable[[int, int], None]
    ) -> Mapping[str, CompiledKernel]:
        return {found.name: self.kernel(found) for found in operators if found.name in self.known}

    def kernel(self, operator: Operator) -> CompiledKernel:
        text, encodings = self.known[operator.name]
        file = f"{operator.name}.wgsl"
        entry_point = {
            "name": text.partition("fn ")[2].partition("(")[0],
            "file": file,
            "workgroup_size": workgroup_size(text),
            "bindings": bindings(text),
        }
        launch = {
            "entry_point": entry_point["name"],
            "operands": [{"argument": 0}, {"argument": 1}],
            "uniforms": [],
            "grid": [1, 1, 1],
        }
        variant: dict[str, Any] = {
            "name": "by-hand",
            "requires": requirements([text], 1024),
            "entry_points": [entry_point],
            "launches": [launch],
            "temporaries": [],
        }
        arguments = [
            {**argument, **({"encoding": encoding} if encoding else {})}
            for argument, encoding in zip(operator.arguments, encodings, strict=True)
        ]
        document = {
            "format": FORMAT,
            "kernel": operator.name,
            "compiler": {"name": self.name, "version": self.version},
            "symbols": [],
            "arguments": arguments,
            "numerics": {"accumulation_length": 1, "builtins": [], "operations": 1},
            "variants": [variant],
            "unsupported": None,
        }
        return CompiledKernel(document, [WgslFile(file, text)])


def model(codes: np.ndarray) -> ImportedModel:
    """x by weights of few bits, and the product as int8."""
    op = relax.op
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((ROWS, DEPTH), "float32"))
    q = relax.Var("q", relax.TensorType((DEPTH, COLUMNS), "int8"))
    with builder.function("main", [x, q]):
        with builder.dataflow():
            product = builder.emit(op.matmul(x, builder.emit(op.astype(q, "float32"))))
            scaled = builder.emit(op.round(op.multiply(product, relax.const(SCALE))))
            code = builder.emit(op.astype(builder.emit(op.clip(scaled, -128, 127)), "int8"))
            out = builder.emit_output(relax.Tuple([product, code]))
        builder.emit_func_output(out)
    x0 = np.random.default_rng(1).standard_normal((ROWS, DEPTH), np.float32)
    return ImportedModel(
        module=builder.finalize(),
        input_names=["x"],
        parameters=[("q", codes)],
        steps=[Step("x", {"x": x0}, False, None)],
        provenance={"kind": "onnx", "source": "x", "sha256": "0" * 64},
        outputs=["product", "code"],
        oracle_missing="by hand",
    )


CODES = np.random.default_rng(0).integers(-8, 8, (DEPTH, COLUMNS)).astype(np.int8)


@pytest.fixture(scope="module")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    path = tmp_path_factory.mktemp("encodings") / "packed.suite"
    return carve(model(CODES), path, name="packed", compilers=(ByHand(), *COMPILERS))


def verdicts(suite: Suite) -> dict[str, tuple[str, str]]:
    with Server() as server:
        run = OperatorRun(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
    return {test["kernel"]: (test["verdict"], test["message"]) for test in run["tests"]}


def test_a_suite_holds_what_is_stored_and_gives_what_it_means(carved: Suite) -> None:
    (codes,) = carved.parameters.values()
    assert (carved.path / "tensors" / codes.digest[:2] / f"{codes.digest}.bin").stat().st_size == DEPTH * COLUMNS // 2
    np.testing.assert_array_equal(carved.tensors.get(codes), CODES, strict=True)
    stored = {value.name: value.type.encoding for value in carved.graph.values.values()}
    assert stored["q"] == "int4x8"
    assert [carved.graph.values[value].type.encoding for value in carved.graph.outputs] == [None, "int8x4"]


def test_right_kernels_pass(carved: Suite) -> None:
    assert verdicts(carved) == dict.fromkeys(carved.kernels, ("pass", ""))


@pytest.mark.parametrize(
    ("kernel", "before", "after", "words"),
    [
        ("cast", "(id.x % 8u) * 4u", "28u - (id.x % 8u) * 4u", "of 40 elements differ"),
        ("cast", "bitcast<i32>(codes[id.x / 8u])", "codes[id.x / 8u]", "of 40 elements differ"),
        (QUANTIZES, "i * 8u, 8u", "i * 8u, 7u", "of 15 elements differ"),
        (QUANTIZES, "= word;", "= word ^ select(0u, 1u, id.x == 2u);", r"1 of 15 .* at \[1, 3\]"),
        (QUANTIZES, "codes[id.x] = word;", "", "of 15 elements differ"),
    ],
)  # fmt: skip
def test_a_wrong_kernel_fails(carved: Suite, tmp_path: Path, kernel: str, before: str, after: str, words: str) -> None:
    shutil.copytree(carved.path, tmp_path / "x.suite")
    file = tmp_path / "x.suite" / "kernels" / f"{kernel}.wgsl"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    found = verdicts(Suite(tmp_path / "x.suite"))
    assert {name for name, (verdict, _) in found.items() if verdict != "pass"} == {kernel}
    assert re.search(words, found[kernel][1])


def test_it_moves_to_a_device_and_says_why_tvm_does_not_run_it_whole(carved: Suite) -> None:
    with Server([carved.path]) as server:
        found = Offload(JobContext(carved, [server.state.device("node-dawn")], server.state.blobs)).run()
        check_everywhere(carved, server)
    assert [(step["kernel"], step["message"]) for step in found["steps"] if not step["kept"]] == []
    assert found["final"]["verdict"] == "unsupported"
    assert "TVM's virtual machine knows no encodings" in found["final"]["message"]


@pytest.mark.parametrize("form", ["html", "safetensors", "wgsl"])
def test_an_exported_test_keeps_its_encodings(carved: Suite, tmp_path: Path, form: str) -> None:
    for test in carved.tests:
        file = tmp_path / f"{test.id}.{form}"
        repro = of_suite(carved, test.id)
        export(repro, form, file)
        found = load_repro(file)
        assert found.document.inputs == repro.document.inputs
        for name, array in found.arrays.items():
            np.testing.assert_array_equal(array, repro.arrays[name], strict=True)
        assert add_to_suite(found, carved) == test.id, "the same test of the same kernel"


def test_a_library_takes_tensors_as_its_kernel_does(carved: Suite) -> None:
    test = next(test for test in carved.tests if test.kernel == QUANTIZES)
    device = tml.webgpu("node-dawn")
    function = tml.upload(tml.compile(of_suite(carved, test.id), target=device))[QUANTIZES]
    x, wanted = carved.tensors.get(test.inputs[0]), carved.tensors.get(test.outputs[0])
    given, plain = tml.tensor(x, device), tml.allocate(wanted.shape, "int8", device)
    with pytest.raises(InputError, match=r"argument 1 of .* is int8\[3, 5\], not int8\[3, 5\] as int8x4"):
        function(given, plain)
    with pytest.raises(InputError, match="a tensor of float32 is not stored as int8x4"):
        tml.allocate((3, 5), "float32", device, encoding="int8x4")
    got = tml.allocate(wanted.shape, "int8", device, encoding="int8x4")
    function(given, got)
    np.testing.assert_array_equal(got.numpy(), wanted, strict=True)
    device.close()


def test_codes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^q: 8 is no element of a tensor stored as int4x8: choose another encoding$"):
        carve(model(CODES + np.int8(1)), tmp_path / "x.suite", name="x", compilers=(ByHand(), *COMPILERS))
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_that_takes_them_otherwise_is_refused(carved: Suite, tmp_path: Path) -> None:
    shutil.copytree(carved.path, tmp_path / "x.suite")
    path = tmp_path / "x.suite" / "kernels" / "cast.json"
    text = path.read_text()
    for after, words in (
        ("int8x4", r"arguments: node n\d+ calls it with int8\[8, 5\] as int4x8, float32"),
        ("float16", r"arguments\[0\]: .*a tensor of int8 is not stored as float16"),
        ("int3x10", r"arguments\[0\]\.encoding: "),
    ):
        path.write_text(text.replace("int4x8", after))
        with pytest.raises(InputError, match=words):
            Suite(tmp_path / "x.suite").bundle("cast")
