"""Times of kernels on a device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

import tapml as tml
from helpers import small_module
from tapml.api.devices import WebGpuDevice
from tapml.cli.main import main
from tapml.compilers.auto.space import Candidate, candidates
from tapml.compilers.auto.table import Tuned, read_table
from tapml.errors import InputError
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile
from tapml.lowering.lower import lower
from tapml.lowering.operator import Operator
from tapml.tuning.timing import Timed, Timing
from tapml.tuning.tune import Told, tune


@pytest.fixture(scope="module")
def device() -> Iterator[WebGpuDevice]:
    found = tml.webgpu("node-dawn")
    assert isinstance(found, WebGpuDevice)
    yield found
    found.close()


@pytest.fixture(scope="module")
def operators() -> list[Operator]:
    return list(lower(small_module(), 1).operators)


def timing(device: WebGpuDevice, hang_seconds: float = 60.0) -> Timing:
    return Timing(device.session.device, device.session.blobs, 2, hang_seconds)


def sums() -> tvm.IRModule:
    """A module of one operator that has two kernels."""
    builder = relax.BlockBuilder()
    given = [relax.Var(name, relax.TensorType((8, 16), "float32")) for name in ("x", "y")]
    with builder.function("main", given):
        with builder.dataflow():
            result = builder.emit_output(relax.op.add(*given))
        builder.emit_func_output(result)
    return builder.finalize()


def with_text(candidate: Candidate, name: str, old: str, new: str) -> Candidate:
    (file,) = candidate.kernel.files
    assert old in file.text
    text = file.text.replace(old, new)
    document = json.loads(json.dumps(candidate.kernel.document))
    document["variants"][0]["entry_points"][0]["generated_sha256"] = sha256(text)
    return Candidate(name, CompiledKernel(document, [WgslFile(file.name, text)]))


def test_each_kernel_of_an_operator_has_its_time(device: WebGpuDevice, operators: Sequence[Operator]) -> None:
    heard: list[Told] = []
    fewest = min(operators, key=lambda one: len(candidates([one], (1,)).get(one.name, [])))
    twice = [(name, fewest) for name in ("first", "again")]
    table = tune(twice, timing(device), heard.append)
    assert table.classes == ["swiftshader", "software"]
    (kernel,) = table.kernels  # one for both, which compute the same
    assert [one.name for one in kernel.candidates][:2] == ["tvm", "native"]
    assert all(one.microseconds and one.refused is None for one in kernel.candidates)
    assert [(one.name, one.done, one.total) for one in heard] == [("first", 1, 1)]
    assert set(heard[0].seconds) == {"tvm", "native"}
    assert Tuned.model_validate_json(table.model_dump_json()) == table


def test_what_gives_something_else_or_does_not_compile_has_no_time(
    device: WebGpuDevice, operators: Sequence[Operator]
) -> None:
    operator = operators[0]
    tvm, native, *_ = candidates([operator], (1,))[operator.name]
    head = "finish(batch : i32, row : i32, column : i32, "
    zero = with_text(native, "native.zero", f"{head}total : f32) {{", f"{head}given : f32) {{\n  let total = 0.0;")
    broken = with_text(native, "native.broken", "fn ", "fun ")
    by_name = {one.candidate.name: one for one in timing(device).of(operator, [tvm, native, zero, broken])}
    assert by_name["native"].seconds
    assert by_name["native.zero"].seconds is None
    assert by_name["native.zero"].refused == "it does not give what tvm gives"
    assert by_name["native.broken"].seconds is None
    assert by_name["native.broken"].refused


class Counted(Timing):
    """Says what each turn took: `microseconds` by the candidate's name, less 1 each turn."""

    def __init__(self, device: WebGpuDevice, microseconds: Mapping[str, float]) -> None:
        super().__init__(device.session.device, device.session.blobs, 3, 60.0)
        self.microseconds = dict(microseconds)
        self.taken: Counter[str] = Counter()

    def _turn(self, one: Timed, *given: Any) -> None:
        name = one.candidate.name
        super()._turn(one, *given)
        self.taken[name] += 1
        one.seconds = 1e-6 * (self.microseconds[name] - self.taken[name])


def test_those_near_the_fastest_have_more_turns(device: WebGpuDevice, operators: Sequence[Operator]) -> None:
    operator = operators[0]
    found = candidates([operator], (1,))[operator.name][:4]
    first, near, far, hopeless = (one.name for one in found)
    counted = Counted(device, {first: 110.0, near: 150.0, far: 250.0, hopeless: 900.0})
    times = {one.candidate.name: one.seconds for one in counted.of(operator, found)}
    assert counted.taken == {first: 9, near: 9, far: 3, hopeless: 2}
    assert times == pytest.approx({first: 101e-6, near: 141e-6, far: 247e-6, hopeless: 898e-6})


def test_a_table_is_of_a_module_in_python(device: WebGpuDevice, tmp_path: Path) -> None:
    path, heard = tmp_path / "table.json", list[str]()
    document = tml.tune(sums(), device, turns=1, path=path, progress=lambda name, done, total: heard.append(name))
    assert read_table(path).model_dump(mode="json", exclude_none=True) == document
    assert len(heard) >= len(document["kernels"]) > 0
    with pytest.raises(InputError, match="does not run WGSL"):
        tml.tune(small_module(), tml.cpu())
    with pytest.raises(InputError, match="give 1 or more"):
        tml.tune(small_module(), device, turns=0)


def test_the_command_writes_a_table_that_a_carve_chooses_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], onnx_model: Path
) -> None:
    table, suite = tmp_path / "table.json", tmp_path / "x.suite"
    asked = [str(onnx_model), "--random-inputs"]
    assert main(["tune", *asked, "--kernel", "none", "--json", str(table)]) == 2
    assert "there is no operator 'none': it has softmax" in capsys.readouterr().err
    assert main(["tune", *asked, "--turns", "1", "--json", str(table)]) == 0
    assert "of 1 operator timed" in capsys.readouterr().out
    found = json.loads(table.read_text())
    # Whatever was the fastest: here only TVM's has a time.
    for one in found["kernels"][0]["candidates"]:
        one["microseconds"] = 1.0 if one["name"] == "tvm" else 1e6
    found["classes"] = ["acme", "gpu"]
    table.write_text(json.dumps(found))
    assert main(["carve", *asked, "--tuned", str(table), "-o", str(suite)]) == 0
    document = json.loads((suite / "kernels" / "softmax.json").read_text())
    best = min(document["variants"], key=lambda one: one.get("expected", {}).get("acme", 1.0))
    assert best.get("compiler", document["compiler"]["name"]) == "tvm"
    assert main(["carve", *asked, "--tuned", str(table), "--compiler", "tvm", "-o", str(tmp_path / "y.suite")]) == 2
    assert "leaves nothing to choose" in capsys.readouterr().err


@pytest.fixture
def onnx_model(tmp_path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"], axis=-1)],
        "softmax",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 64])],
    )
    path = tmp_path / "softmax.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
