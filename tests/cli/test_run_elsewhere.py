"""`tapml run` on a device of a running server, and what it captures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from captures import captured_bytes, replaced
from helpers import FakeRunner, all_pass, small_oracle
from tapml.building.build import build
from tapml.cli import main
from tapml.compiled.files import CompiledFiles
from tapml.npy import opening
from tapml.server import Server
from tapml.sharing.capture import read_capture
from tapml.sharing.tensor_file import described
from tapml.suite import Suite


@pytest.fixture(scope="module")
def folder(carved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of models: two that are told apart by what they hold, as a folder and as a single file."""
    folder = tmp_path_factory.mktemp("models")
    build(Suite(carved), folder / "first.tapml", name="first")
    build(Suite(carved), folder / "second.tapml", name="second", single=True)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server(models=folder) as started:
        yield started


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """Of two calls."""
    words = []
    for number, array in enumerate(CALLS):
        np.savez(tmp_path / f"{number}.npz", x=array)
        words += ["--inputs", str(tmp_path / f"{number}.npz")]
    return words


CALLS = [np.random.default_rng(seed).standard_normal((6, 16)).astype(np.float32) for seed in range(2)]


def run(folder: Path, *arguments: str, name: str = "first.tapml") -> int:
    return main(["run", str(folder / name), *arguments])


@pytest.mark.parametrize("name", ["first.tapml", "second.tapml"])
def test_it_gives_there_what_it_gives_here(
    name: str, folder: Path, server: Server, inputs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, out = tmp_path / "y.json", tmp_path / "y.npz"
    more = ["--repeat", "2", "-o", str(out), "--json", str(document)]
    assert run(folder, *inputs, "--device", f"{server.url}/?token=secret#node-dawn", *more, name=name) == 0
    said = capsys.readouterr()
    assert "secret" not in said.out + said.err + document.read_text()
    assert f"node-dawn of {server.url}: loaded in" in said.out
    names = "fused_matmul_add_gelu, matmul1, softmax and 1 more"
    assert f"4 of 4 kernels ({names}) are not validated on node-dawn: build" in said.err
    with np.load(out) as found:
        for output, array in zip(("probabilities@0", "probabilities"), CALLS, strict=True):
            np.testing.assert_allclose(found[output], small_oracle(array), rtol=1e-4, atol=1e-6)
    told = json.loads(document.read_text())
    assert told["variants"] == dict.fromkeys(
        ("fused_matmul_add_gelu", "matmul1", "softmax", "fused_matmul_add_gelu+matmul1"), "256"
    )
    assert [len(told["seconds"][kind]) for kind in ("calls", "repeated")] == [2, 2]
    assert run(folder, *inputs, "--json", str(document), name=name) == 0
    assert json.loads(document.read_text())["bytes"] == told["bytes"], "memory is the same everywhere"


def test_what_was_given_ends_with_the_same_exit_code_there(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "first.tapml", tmp_path / "models" / "first.tapml")
    shard = next((tmp_path / "models" / "first.tapml" / "weights").iterdir())
    shard.write_bytes(bytes(shard.stat().st_size))
    with Server(models=tmp_path / "models") as started:
        for path, device in (
            (tmp_path / "models" / "first.tapml", "node-dawn"),
            (folder / "first.tapml", f"{started.url}#node-dawn"),
        ):
            assert main(["run", str(path), "--random-inputs", "--device", device]) == 2
            assert shard.stem[:12] in " ".join(capsys.readouterr().err.split())


def test_a_model_or_a_device_that_is_not_there_is_one_sentence(
    folder: Path, server: Server, suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(suite, tmp_path / "other.tapml", name="other")
    runner = FakeRunner(server.state.hub, all_pass, "Blind 1", unavailable="it has no WebGPU")
    try:
        for path, device, sentence in (
            (tmp_path / "other.tapml", server.url, f"{server.url} does not serve {tmp_path / 'other.tapml'}: start it"),
            (
                folder / "first.tapml",
                f"{server.url}#Nobody 9",
                "no device 'Nobody 9': give the name or id of a connected",
            ),
            (folder / "first.tapml", f"{server.url}#Blind 1", "Blind 1 cannot run kernels: it has no WebGPU"),
            (folder / "first.tapml", "http://127.0.0.1:1", "cannot reach a tapml server at http://127.0.0.1:1"),
        ):
            assert main(["run", str(path), "--random-inputs", "--device", device]) != 0
            said = " ".join(capsys.readouterr().err.split())
            assert sentence in said
            assert "Traceback" not in said
    finally:
        runner.vanish()


@pytest.mark.parametrize("there", [False, True])
def test_what_is_captured_is_imported(
    there: bool,
    folder: Path,
    server: Server,
    suite: Suite,
    inputs: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "call.capture"
    device = f"{server.url}#node-dawn" if there else "node-dawn"
    chosen = ["--capture", str(file), "--nodes", "softmax", "n001"]
    assert run(folder, *inputs, "--device", device, *chosen, "--repeat", "1") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"{file} has 3 operator calls (" in said
    capture = read_capture(file)
    assert capture is not None
    assert {call.kernel for call in capture.document.calls} == {"matmul1", "softmax"}
    assert set(capture.document.operators) == {"matmul1", "softmax"}, "it opens without a suite, too"
    # Of the last call, and not of the one before.
    assert main(["import", str(file), "--into", str(suite.path)]) == 0
    out = capsys.readouterr().out
    assert out.count("✓ pass") == 3
    assert "(reported)" not in out
    given = Suite(suite.path).imported.tests[0].inputs[0]
    assert given.digest not in {ref.digest for test in suite.tests for ref in test.refs}


def test_what_is_left_out_of_a_capture_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "call.capture"
    arguments = ["--random-inputs", "--device", "node-dawn", "--capture", str(file)]
    assert run(folder, *arguments, "--max-bytes", "2000") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "were chosen, and are not in the file: they take more than 2000 bytes: maxBytes of" in said
    assert run(folder, *arguments, "--max-bytes", "4") == 2
    assert "nothing was captured" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--capture", "x"], "--capture is of a device, which the CPU is compared with"),
        (["--device", "node-dawn", "--nodes", "n001"], "--nodes says what is captured: give --capture FILE with it"),
        (
            ["--device", "node-dawn", "--capture", "x", "--nodes", "n001", "foo"],
            "first has no node or kernel 'foo' in main",
        ),
        (["--device", "node-dawn", "--capture", "x", "--sample", "2"], "sample"),
        (["--device", "node-dawn", "--capture", "x", "--sample", "0"], "sample"),
        (["--device", "node-dawn", "--capture", "x", "--max-bytes", "0"], "max_bytes"),
    ],
)
def test_a_wrong_capture_is_one_sentence_before_anything_starts(
    arguments: list[str],
    sentence: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(folder, "--random-inputs", *arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert sentence in said
    assert "starting" not in said


def test_a_model_in_float16_runs_and_is_captured_where_there_is_float16(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deno's device has it here; node-dawn's software GPU has not."""
    half = TensorProto.FLOAT16
    weights = np.random.default_rng(3).standard_normal((16, 8)).astype(np.float16) / 4
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Add", ["h", "h"], ["s"]),
            helper.make_node("Softmax", ["s"], ["y"], axis=-1),
        ],
        "half",
        [helper.make_tensor_value_info("x", half, [5, 16])],
        [helper.make_tensor_value_info("y", half, [5, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    model, suite, built = (tmp_path / name for name in ("half.onnx", "half.suite", "half.tapml"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    given = np.random.default_rng(4).standard_normal((5, 16)).astype(np.float16)
    np.save(tmp_path / "x.npy", given)
    inputs = ["--input", f"x={tmp_path / 'x.npy'}"]
    assert main(["carve", str(model), *inputs, "-o", str(suite)]) == 0
    # That it is the same in tvmjs on Deno, `every_carve` sees.
    assert main(["offload", str(suite), "--device", "node-dawn", "--json", str(tmp_path / "offload.json")]) == 0
    final = json.loads((tmp_path / "offload.json").read_text())["final"]
    assert final["verdict"] == "unsupported"
    assert final["message"].endswith(": needs the feature shader-f16, which this device lacks")
    assert main(["build", str(suite), "-o", str(built)]) == 0
    other, out, file = (str(tmp_path / name) for name in ("other.npy", "y.npy", "call.capture"))
    np.save(other, given[::-1])
    run_it = ["run", str(built), "--input", f"x={other}", "-o", out]
    assert main([*run_it, "--device", "node-dawn"]) == 1
    assert "needs the feature shader-f16" in " ".join(capsys.readouterr().err.split())
    assert main(run_it) == 0
    expected = np.load(out)
    assert main([*run_it, "--device", "deno", "--capture", file, "--weights"]) == 0
    got = np.load(out)
    assert (got.dtype, got.shape) == (np.float16, (5, 8))
    np.testing.assert_allclose(got.astype(np.float32), expected.astype(np.float32), rtol=2e-2, atol=2e-3)
    capture = read_capture(Path(file))
    assert capture is not None
    assert {tensor.dtype for call in capture.document.calls for tensor in call.operands} == {"float16"}
    capsys.readouterr()
    assert main(["import", file, "--into", str(suite)]) == 0
    out_text = capsys.readouterr().out
    assert out_text.count("✓ pass") == len(capture.document.calls) > 0
    # With weights and programs in the file it is a suite of its own, too; and a wrong element is told.
    assert main(["import", file, "-o", str(tmp_path / "alone.suite")]) == 0
    assert main(["import", wrong_element(Path(file)), "-o", str(tmp_path / "wrong.suite")]) == 1
    assert "✗ fail" in capsys.readouterr().out


def wrong_element(path: Path) -> str:
    """The same capture, with one element of its last output twice as large."""
    text, entries, start = described(path, opening(path))
    document, data = json.loads(text), path.read_bytes()
    tensors = {name: data[start + entry.begin :][: entry.length] for name, entry in entries.items()}
    output = document["calls"][-1]["outputs"][0]
    array = np.frombuffer(tensors[output["digest"]], np.float16).copy()
    array[7] *= 2
    replaced(output, tensors, array.tobytes())
    other = path.with_suffix(".wrong")
    other.write_bytes(captured_bytes(document, tensors))
    return str(other)


def test_the_digest_of_a_single_file_is_that_of_its_document(folder: Path) -> None:
    contents = [CompiledFiles(folder / name).content for name in ("first.tapml", "second.tapml")]
    assert contents[0] != contents[1]
