"""A compiled model runs on this machine and on a device: from the library, and by `tapml run`."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from rich.console import Console
from tvm import relax

import tapml as tml
from everywhere import carved_inputs, check_everywhere, check_outputs
from helpers import small_model, small_oracle
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.cli import main
from tapml.compiled.files import CompiledFiles, document_of, write_folder
from tapml.compiled.model import CompiledModel, ValidatedAdapter, ValidatedDevice, Validation
from tapml.compiled.text import text_inputs
from tapml.compiled.validated import failed_somewhere, unvalidated, unvalidated_text
from tapml.devices.compiled import run_compiled
from tapml.errors import DeviceError, InputError
from tapml.importing import Step, import_model
from tapml.platforms.compiled import run_on_cpu
from tapml.protocol.kernels import Requires
from tapml.reports.compiled import show_model
from tapml.server import Server
from tapml.suite import Suite


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture(scope="module")
def model(carved: Path, tmp_path_factory: pytest.TempPathFactory) -> CompiledFiles:
    return CompiledFiles(build(Suite(carved), tmp_path_factory.mktemp("built") / "small.tapml").path)


def x() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((6, 16)).astype(np.float32)


def test_it_gives_what_was_carved_here_and_on_two_devices(carved: Path, server: Server) -> None:
    for device in ("node-dawn", "deno"):
        check_everywhere(Suite(carved), server, device)


def test_one_file_runs_as_a_folder_does(carved: Path, server: Server, tmp_path: Path) -> None:
    files = CompiledFiles(build(Suite(carved), tmp_path / "one.tapml", single=True).path)
    state = server.state
    check_outputs(
        Suite(carved), run_compiled(state.device("node-dawn"), state.blobs, files, carved_inputs(Suite(carved)))
    )


def test_outputs_that_no_kernel_writes_as_they_are(server: Server, tmp_path: Path) -> None:
    """A view of what one writes, that itself, an input, and one output twice."""
    builder, op = relax.BlockBuilder(), relax.op
    given = relax.Var("x", relax.TensorType((6, 16), "float32"))
    with builder.function("main", [given]):
        with builder.dataflow():
            soft = builder.emit(op.nn.softmax(given))
            outputs = [builder.emit(op.reshape(soft, (16, 6))), soft, given, builder.emit(op.nn.relu(given))]
            out = builder.emit_output(relax.Tuple([*outputs, outputs[-1]]))
        builder.emit_func_output(out)
    powers = np.exp(x() - x().max(-1, keepdims=True))
    share = powers / powers.sum(-1, keepdims=True)
    expected = [share.reshape(16, 6), share, x(), np.maximum(x(), 0), np.maximum(x(), 0)]
    made = dataclasses.replace(
        small_model(),
        module=builder.finalize(),
        parameters=[],
        steps=[Step("x", {"x": x()}, False, expected)],
        outputs=["view", "share", "same", "positive", "again"],
    )
    check_everywhere(carve(made, tmp_path / "outputs.suite", name="outputs"), server)


BRANCHES = """<ir_version: 10, opset_import: ["": 17]>
agraph (float[4] x, float[3] z) => (float[4] y, float[3] w, float[3] last, float[N, 3] rows) {
    none = Constant<value = float {0}>()
    limit = Constant<value = float {20}>()
    most = Constant<value = int64 {4}>()
    sum = ReduceSum<keepdims = 0>(x)
    large = Greater(sum, none)
    y, w = If(large) <
        then_branch = more () => (float[4] a, float[3] p) {
            e = Exp(x)
            a = Mul(e, e)
            all = ReduceSum<keepdims = 0>(e)
            most_of_all = Greater(all, limit)
            p = If(most_of_all) <
                then_branch = one () => (float[3] p1) { p1 = Sin(z) },
                else_branch = two () => (float[3] p2) { p2 = Cos(z) }
            >
        },
        else_branch = less () => (float[4] b, float[3] q) { b = Identity(x) q = Neg(z) }
    >
    last, rows = Loop(most, large, w) <
        body = turn (int64 i, bool going, float[3] before) => (bool goes, float[3] after, float[3] row) {
            after = Add(before, z)
            total = ReduceSum<keepdims = 0>(after)
            row = Mul(after, after)
            goes = Less(total, limit)
        }
    >
}"""


def branching(folder: Path, *xs: float) -> Suite:
    """Carved with a step for each."""
    onnx.save(onnx.parser.parse_model(BRANCHES), folder / "branches.onnx")
    files = [folder / f"{number}.npz" for number in range(len(xs))]
    for file, x in zip(files, xs, strict=True):
        np.savez(file, x=np.full(4, x, np.float32), z=np.array([1, 2, 3], np.float32))
    return carve(import_model(str(folder / "branches.onnx"), input_files=files), folder / "b.suite", name="b")


def test_branches_and_loops_by_values_run_as_they_were_carved(server: Server, tmp_path: Path) -> None:
    suite = branching(tmp_path, 1.0, 0.5, -1.0)
    assert not suite.manifest["model"]["notes"][2:], "of the counts of rows alone"
    for device in ("node-dawn", "deno"):
        check_everywhere(suite, server, device)


def test_branches_that_no_input_takes_are_told(tmp_path: Path) -> None:
    suite = branching(tmp_path, -1.0)
    note = suite.manifest["model"]["notes"][-1]
    assert note.startswith("no given input takes the branches of ")
    assert "tir_exp" in note
    files = CompiledFiles(build(suite, tmp_path / "b.tapml").path)
    assert files.model.provenance.model.notes[-1] == note
    # What was not taken when it was carved runs all the same.
    given = {"x": np.ones(4, np.float32), "z": np.array([1, 2, 3], np.float32)}
    (outputs,) = run_on_cpu(files, [given]).outputs
    np.testing.assert_allclose(outputs["y"], np.exp(2 * given["x"]), rtol=1e-6)


def test_repeated_calls_give_times_alone(model: CompiledFiles, server: Server) -> None:
    state = server.state
    found = run_compiled(state.device("node-dawn"), state.blobs, model, [{"x": x()}] * 2, repeat=3)
    assert len(found.outputs) == 2
    assert len(found.call_seconds) == 5
    assert set(found.variants) == {kernel.kernel for kernel in model.model.kernels}
    assert found.bytes >= sum(model.model.weights.buffers) + sum(model.model.functions["main"].arena)


def test_a_device_keeps_nothing_of_a_model(model: CompiledFiles, server: Server) -> None:
    state = server.state
    device = state.device("node-dawn")
    used = [run_compiled(device, state.blobs, model, [{"x": x()}]).bytes for _ in range(3)]
    assert len(set(used)) == 1
    assert not state.blobs._bytes


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({}, r"was given no input 'x': it takes x: float32\[6, 16\]"),
        ({"x": x(), "y": x()}, "has no input 'y'"),
        ({"x": x().astype(np.int32)}, r"input x is int32\[6, 16\]: give float32\[6, 16\]"),
        ({"x": x()[:5]}, r"input x is float32\[5, 16\]: give float32\[6, 16\]"),
    ],
)
def test_wrong_inputs_are_named_before_anything_runs(
    model: CompiledFiles, server: Server, arrays: dict[str, np.ndarray], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        run_compiled(server.state.device("node-dawn"), server.state.blobs, model, [arrays])


def changed(files: CompiledFiles, path: Path, **fields: Any) -> CompiledFiles:
    """The same model with other fields, not verified."""
    document = CompiledModel.model_validate({**document_of(files.model), **fields})

    def part(name: str) -> bytes:
        shard = next((s for s in files.model.weights.shards if name == f"weights/{s.sha256}.bin"), None)
        return files.attachment(name) if shard is None else files.shard(shard)

    path.mkdir()
    write_folder(path, document, part)
    return CompiledFiles(path)


def test_the_device_proves_what_it_is_given(model: CompiledFiles, server: Server, tmp_path: Path) -> None:
    """Whoever does not verify a model is told by the runner's own verifier."""
    functions = document_of(model.model)["functions"]
    functions["main"]["arena"] = [256, 256]
    files = changed(model, tmp_path / "small.tapml", functions=functions)
    with pytest.raises(DeviceError, match="arena"):
        run_compiled(server.state.device("node-dawn"), server.state.blobs, files, [{"x": x()}])


def test_a_kernel_that_does_not_compile_is_named(model: CompiledFiles, server: Server, tmp_path: Path) -> None:
    wgsl = [text.replace("@compute", "@compute nonsense", 1) for text in model.model.wgsl]
    files = changed(model, tmp_path / "small.tapml", wgsl=wgsl)
    with pytest.raises(DeviceError) as found:
        run_compiled(server.state.device("node-dawn"), server.state.blobs, files, [{"x": x()}])
    assert found.value.kind == "compile"
    assert found.value.report is None or found.value.report.kernel in {k.kernel for k in model.model.kernels}


# ------------------------------------------------ from Python


def test_the_library_builds_and_runs(carved: Path, tmp_path: Path) -> None:
    found = tml.build(carved, tmp_path / "small.tapml")
    assert (found.inputs, found.outputs) == (["x"], ["probabilities"])
    for device in (None, tml.webgpu("node-dawn")):
        outputs = tml.load_model(tmp_path / "small.tapml").run({"x": x()}, device)
        np.testing.assert_allclose(outputs["probabilities"], small_oracle(x()), rtol=1e-4, atol=1e-6)


# ------------------------------------------------ texts


def with_tokenizer(files: CompiledFiles, folder: Path) -> CompiledFiles:
    """The same model with a tokenizer of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"good": 3, "morning": 4, "?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    text = tokenizer.to_str().encode()
    made = folder / "texts.tapml"
    made.mkdir()
    document = document_of(files.model)
    inputs = [{"name": "input_ids", "tensor": 0}, {"name": "attention_mask", "tensor": 1}]
    tensors = [{"name": "n", "dtype": "int32", "shape": [1, "n"], "at": ["input", k]} for k in range(2)]
    function = {"inputs": inputs, "outputs": [], "arena": [], "tensors": tensors, "code": []}
    document |= {
        "symbols": [{"name": "n", "minimum": 1, "maximum": 4}],
        "functions": {"main": function},
        "weights": {"buffers": [], "shards": []},
        "tokenizer": {"file": "tokenizer.json", "kind": "huggingface"},
        "attachments": [{"name": "tokenizer.json", "sha256": tml_sha256(text), "bytes": len(text)}],
    }
    write_folder(made, CompiledModel.model_validate(document), lambda name: text)
    return CompiledFiles(made)


def tml_sha256(data: bytes) -> str:
    from tapml.files import sha256

    return sha256(data)


def test_a_text_becomes_the_models_inputs(model: CompiledFiles, tmp_path: Path) -> None:
    files = with_tokenizer(model, tmp_path)
    found = text_inputs(files, "main", ["good good morning"])
    assert {name: array.tolist() for name, array in found.items()} == {
        "input_ids": [[3, 3, 4]],
        "attention_mask": [[1, 1, 1]],
    }
    assert {str(array.dtype) for array in found.values()} == {"int32"}
    for texts, sentence in (
        ([" "], "--text is empty"),
        (["good good good good good"], "has 5 tokens, .* takes at most 4: shorten it"),
        (["good", "morning"], "takes 1 text in a call, and was given 2"),
    ):
        with pytest.raises(InputError, match=sentence):
            text_inputs(files, "main", texts)
    with pytest.raises(InputError, match="has no tokenizer: give tensors"):
        text_inputs(model, "main", ["good"])


# ------------------------------------------------ the command


def test_the_command_builds_shows_and_runs(carved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out, inputs = str(tmp_path / "small.tapml"), str(tmp_path / "y.npz"), str(tmp_path / "x.npz")
    assert main(["build", str(carved), "-o", path, "--json", str(tmp_path / "built.json")]) == 0
    assert "4 dispatches in a call" in capsys.readouterr().out
    assert main(["show", path, "--json", "-"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((tmp_path / "built.json").read_text())
    assert shown["functions"]["main"]["outputs"] == [{"name": "probabilities", "dtype": "float32", "shape": [6, 16]}]
    np.savez(inputs, x=x())
    for device in ("cpu", "node-dawn"):
        assert main(["run", path, "--inputs", inputs, "--device", device, "-o", out, "--repeat", "1"]) == 0
        assert f"{device}: loaded in" in capsys.readouterr().out
        with np.load(out) as found:
            np.testing.assert_allclose(found["probabilities"], small_oracle(x()), rtol=1e-4, atol=1e-6)


def test_the_outputs_of_several_calls_are_numbered(model: CompiledFiles, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.npz" for number in range(2)]
    for number, file in enumerate(files):
        np.savez(file, x=x() * (number + 1))
    given = [text for file in files for text in ("--inputs", str(file))]
    assert main(["run", str(model.path), *given, "-o", str(tmp_path / "y.npz")]) == 0
    with np.load(tmp_path / "y.npz") as found:
        for name, array in (("probabilities@0", x()), ("probabilities", x() * 2)):
            np.testing.assert_allclose(found[name], small_oracle(array), rtol=1e-4, atol=1e-6)


def test_it_says_which_kernels_are_not_validated_where_it_runs(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, validated in enumerate(([], ["--device", "node-dawn"])):
        path = str(tmp_path / f"{number}.tapml")
        assert main(["build", str(suite.path), *validated, "-o", path]) == 0
        arguments = ["run", path, "--random-inputs", "--device", "node-dawn", "-o", str(tmp_path / "y.npy")]
        capsys.readouterr()
        assert main([*arguments, "--json", str(tmp_path / "y.json")]) == 0
        said, document = capsys.readouterr().err, json.loads((tmp_path / "y.json").read_text())
        kernels = [*suite.kernels, "fused_matmul_add_gelu+matmul1"]
        assert document["unvalidated"] == ([] if validated else kernels)
        assert (f"{len(kernels)} of {len(kernels)} kernels (" in said) == (not validated)
        assert [len(found) for found in document["seconds"].values() if isinstance(found, list)] == [1, 0]
        assert np.load(tmp_path / "y.npy").shape == (6, 16)


def test_a_kernel_that_failed_somewhere_is_not_merely_unvalidated(model: CompiledFiles) -> None:
    first, *others = (kernel.kernel for kernel in model.model.kernels)
    adapter = ValidatedAdapter(vendor="", architecture="", device="", description="")
    device = ValidatedDevice(name="node-dawn 0.6.2", runtime="node", user_agent="", adapter=adapter)
    found = Validation(device=device, kernels={first: "fail"})
    wrong = model.model.model_copy(update={"validation": [found]})
    missing = unvalidated(wrong, "node-dawn 0.7.0", "node")
    assert missing == [first, *others]
    failed, unknown = unvalidated_text(wrong, missing, "node-dawn").split("\n")
    assert failed.startswith(f"1 of {len(missing)} kernels ({first}) FAILED when validated on node-dawn 0.6.2: do not ")
    assert unknown.startswith(f"{len(others)} of {len(missing)} kernels (")
    assert unknown.endswith("or validate the suite there and build it again")
    assert failed_somewhere(wrong) == [first]
    console = Console(width=1000)
    with console.capture() as shown:
        show_model(console, wrong, "m.tapml", 1)
    assert failed in shown.get()
    own = unvalidated_text(wrong, missing, "node-dawn", "`tapml demo` validates them")
    assert own.endswith(" are not validated on node-dawn: `tapml demo` validates them")


def test_what_a_device_lacked_is_not_merely_unvalidated(model: CompiledFiles) -> None:
    first, *others = model.model.kernels
    half = first.variants[-1].model_copy(update={"requires": Requires(features=["shader-f16"], limits={})})
    lacking = first.model_copy(update={"variants": [half]})
    adapter = ValidatedAdapter(vendor="", architecture="", device="", description="")
    device = ValidatedDevice(name="Firefox 153", runtime="browser", user_agent="", adapter=adapter)
    verdicts = {first.kernel: "unsupported"} | {kernel.kernel: "pass" for kernel in others}
    found = Validation(device=device, kernels=verdicts)
    changed = model.model.model_copy(update={"kernels": [lacking, *others], "validation": [found]})
    missing = unvalidated(changed, "Firefox 154", "browser")
    assert missing == [first.kernel]
    assert unvalidated_text(changed, missing, "Firefox 154") == (
        f"1 of {1 + len(others)} kernels ({first.kernel}) were unsupported when validated on Firefox 153 without "
        "shader-f16: validate the suite on a device that has what they need and build it again"
    )
    capable = found.model_copy(update={"kernels": verdicts | {first.kernel: "pass"}})
    elsewhere = changed.model_copy(update={"validation": [found, capable]})
    assert unvalidated(elsewhere, "Firefox 154", "browser") == []


def test_inputs_are_arrays(model: CompiledFiles) -> None:
    with pytest.raises(InputError, match=r"input x is a str: give an array of float32\[6, 16\]"):
        tml.load_model(model.path).run({"x": "hello"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "{suite}"], "is no compiled model: it has no model.json"),
        (["run", "{tmp}/none.tapml"], "does not exist; `tapml build` makes one"),
        (["show", "{tmp}/none.tapml"], "does not exist; `tapml build` makes one"),
        (["show", "{tmp}/none.tapml", "--memory"], "does not exist; `tapml build` makes one"),
        (["show", "{edited}"], "{edited}: main: tensor"),
        (["show", "{tmp}/empty.tapml"], "empty.tapml is no compiled model: it has no model.json"),
        (["run", "{model}", "--random-inputs", "-o", "{tmp}/y.txt"], "y.txt: outputs are written as a .npz"),
        (["run", "{model}"], r"the model needs inputs (x float32[6, 16])"),
        (["run", "{model}", "--text", "hello"], "has no tokenizer: give tensors"),
        (["run", "{model}", "--random-inputs", "--function", "other"], "there is no function other: it has main"),
        (["run", "{model}", "--random-inputs", "--device", "http://127.0.0.1:1"], "cannot reach a tapml server"),
        (["build", "{suite}", "--text", "hello", "-o", "{tmp}/x.tapml"], "is a suite, which was carved already"),
        (["build", "{suite}", "-o", "{tmp}/x.tapml", "--range", "n=8:4"], "--range n=8:4: 8 is more than 4"),
        (["build", "{suite}", "-o", "{model}"], "exists: choose another name with -o, or replace it with --force"),
    ],
)
def test_a_wrong_command_is_one_sentence(
    arguments: list[str],
    sentence: str,
    model: CompiledFiles,
    carved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edited = tmp_path / "edited.tapml"
    shutil.copytree(model.path, edited)
    document = json.loads((edited / "model.json").read_text())
    document["functions"]["main"]["arena"] = [16 for _ in document["functions"]["main"]["arena"]]
    (edited / "model.json").write_text(json.dumps(document))
    (tmp_path / "empty.tapml").mkdir()
    places = {"model": model.path, "suite": carved, "tmp": tmp_path, "edited": edited}
    assert main([argument.format(**places) for argument in arguments]) == 2
    assert sentence.format(**places) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "damage", "sentence"),
    [
        ("weights", lambda file: file.unlink(), ".bin is missing; copy the model again"),
        ("weights", lambda file: file.write_bytes(file.read_bytes()[:-4]), "bytes, not"),
        ("weights", lambda file: file.write_bytes(bytes(file.stat().st_size)), "are not those of the digest"),
        ("operators", lambda file: shutil.rmtree(file.parent), ".json is missing; copy the model again"),
        ("operators", lambda file: file.write_bytes(file.read_bytes() + b" "), "bytes, not"),
    ],
)
def test_show_and_run_refuse_a_damaged_model(
    part: str,
    damage: Callable[[Path], None],
    sentence: str,
    model: CompiledFiles,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "damaged.tapml"
    shutil.copytree(model.path, path)
    assert main(["show", str(path)]) == 0
    damage(min((path / part).iterdir()))
    capsys.readouterr()
    for arguments in (["show"], ["show", "--memory"], ["run", "--random-inputs"]):
        assert main([*arguments, str(path)]) == 2
        said = capsys.readouterr()
        assert (said.out, sentence in said.err) == ("", True), said


def test_a_value_that_is_wrong_is_named_with_its_file(
    model: CompiledFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_tokenizer(model, tmp_path).path
    row = np.zeros((1, 5), np.int32)
    for name, array in (("good", row[:, :3]), ("long", row)):
        np.savez(tmp_path / f"{name}.npz", input_ids=array, attention_mask=array)
    given = [text for name in ("good", "long") for text in ("--inputs", str(tmp_path / f"{name}.npz"))]
    assert main(["run", str(path), *given]) == 2
    assert "long.npz: " in capsys.readouterr().err
