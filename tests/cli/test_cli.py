"""The command line's exit codes and sentences (devices are in e2e/)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tapml.cli import main
from tapml.suite import Suite
from tapml.text import size


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stop:  # argparse
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_show_lists_tests_by_id(capsys: pytest.CaptureFixture[str], suite: Suite) -> None:
    code, out, _ = run(capsys, "show", suite.path, "--json", "-")
    document = json.loads(out)
    assert code == 0
    assert document["format"] == "tapml.show/1"
    assert [set(test) for test in document["tests"]] == [{"id", "node", "kernel", "step"}] * len(suite.tests)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["carve", "m.onnx", "--nosuch"], "tapml carve: there is no option --nosuch (see `tapml carve --help`)"),
        (["carve", "m.onnx", "--frce"], "there is no option --frce, did you mean --force? (see `tapml carve --help`)"),
        (["carve", "m.onnx", "-o", "x", "y"], "tapml carve: one argument too many: y (see `tapml carve --help`)"),
        (["carve", "m.onnx"], "arguments are required: -o/--output (see `tapml carve --help`)"),
        (["run", "x", "--repeat", "1.5"], "argument --repeat: '1.5' is no whole number (see `tapml run --help`)"),
        (["run", "x", "--hang-seconds", "z"], "argument --hang-seconds: 'z' is no number (see `tapml run --help`)"),
        (
            ["show", "x", "--json"],
            "argument --json: FILE is missing: write the document as JSON (- for standard output)",
        ),
        (["field", "serve", "-q"], "tapml field serve: there is no option -q (see `tapml field serve --help`)"),
        (["nosuch"], "there is no 'nosuch': it is one of carve, "),
    ],
)
def test_a_wrong_command_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_files_that_are_not_there_are_told_before_what_reads_them_is_loaded(tmp_path: Path) -> None:
    """Importing and compiling models takes seconds to load."""
    (tmp_path / "model.onnx").touch()
    (tmp_path / "image.npy").touch()
    given = {
        "model.onx": "not a model tapml can read; give minilm, a .onnx or a .pt2 file",
        "modl.onnx": "modl.onnx: there is no such file, did you mean model.onnx?",
        "model.pt2": "model.pt2: there is no such file",
        "--hf nosuch": "nosuch: there is no such file: give a folder of transformers, a config.json, or a GGUF file",
        "model.onnx --inputs x.npz": "x.npz: there is no such file",
        "model.onnx --input x=imge.npy": "imge.npy (for input x): there is no such file, did you mean image.npy?",
        "model.onnx --input x=.": ". (for input x): it is a folder: give a file",
        "model.onnx --tuned t.json": "t.json (of --tuned): there is no such file",
    }
    commands = [["carve", *words.split(), "-o", "y.suite"] for words in given]
    commands += [["build", "nosuch.onnx", "-o", "y.tapml"], ["tune", "nosuch.onnx"], ["run", "nosuch.tapml"]]
    program = (
        "import json, sys\nfrom tapml.cli import main\n"
        "for command in json.loads(sys.argv[1]):\n  assert main(command) == 2\n  print(file=sys.stderr)\n"
        "assert not {'tvm', 'torch', 'onnx'} & {*sys.modules}"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    said = [text.strip() for text in ran.stderr.split("\n\n") if text.strip()]
    assert [text.splitlines()[-1].endswith(expected) for text, expected in zip(said, given.values(), strict=False)] == [
        True
    ] * len(given), said


def test_show_prints_and_draws_the_memory_plan(
    capsys: pytest.CaptureFixture[str], suite: Suite, tmp_path: Path
) -> None:
    page = tmp_path / "memory.html"
    code, out, err = run(capsys, "show", suite.path, "--memory", "--html", page)
    assert code == 0
    assert "lower bound" in out
    assert str(page) in err
    text = page.read_text()
    plan = json.loads(run(capsys, "show", suite.path, "--memory", "--json", "-")[1])["plans"][0]
    assert plan["lower_bound"] <= plan["planned"] == sum(plan["arenas"]) < plan["naive"]
    assert text.count("<title>") == 1 + len(plan["tensors"])
    assert "<script" not in text
    assert ">step</text>" in text
    assert re.search(r">most at step \d+ \(n\d+ \w+\): ", text)
    for number, count in enumerate(plan["arenas"]):
        assert re.search(rf">arena {number}</text><text class=\"muted\" [^>]*>{re.escape(size(count))}</text>", text)
    for tensor in plan["tensors"]:
        assert f"<title>{tensor['name']}\n" in text


def test_show_prints_provenance_and_kernels(capsys: pytest.CaptureFixture[str], suite: Suite) -> None:
    code, out, _ = run(capsys, "show", suite.path)
    assert code == 0
    for word in ("numpy float64 agrees", "on cpu (LLVM)", *suite.kernels):
        assert word in out


def test_a_file_of_a_compiled_model_is_no_suite_that_is_to_be_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "model.json").touch()
    code, _, err = run(capsys, "show", tmp_path / "model.jsn")
    assert code == 2
    assert f"model.jsn does not exist: a compiled model is given as its folder, {tmp_path}" in err.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "/no/such/suite"], ["/no/such/suite does not exist", "tapml carve"]),
        (["carve", "model.foo", "-o", "x.suite"], ["model.foo", ".onnx", ".pt2"]),
        (["carve", "missing.onnx", "-o", "x.suite", "--random-inputs"], ["missing.onnx"]),
        (["carve", "minilm", "--input", "nonsense", "-o", "x.suite"], ["--input nonsense", "NAME=FILE.npy"]),
        (["carve", "minilm"], ["-o"]),
        (["carve", "minilm", "-o", "x.suite", "--variants", "256,9999"], ["'9999'", "1024"]),
        (["carve", "minilm", "-o", "x.suite", "--variants", "256+f16"], ["'256+f16'", "docs/suite-format.md"]),
        (["show", "x.suite", "--html", "x.html"], ["--html draws the memory plan: give --memory with it"]),
        (["dance"], ["dance"]),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], words: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    for word in words:
        assert word in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == [], "no half-written suite"


def test_a_broken_onnx_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"this is no protobuf")
    code, _, err = run(capsys, "carve", path, "-o", tmp_path / "x.suite", "--random-inputs")
    assert code == 2
    assert "broken.onnx" in err
    assert not (tmp_path / "x.suite").exists()


def test_an_onnx_model_is_carved_from_real_inputs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=-1)],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    inputs = tmp_path / "x.npy"
    np.save(inputs, np.ones((3, 8), np.float32))
    code, out, err = run(capsys, "carve", model, "--input", f"x={inputs}", "-o", tmp_path / "two.suite")
    assert code == 0, err
    assert "onnxruntime" in out
    suite = Suite(tmp_path / "two.suite")
    assert suite.manifest["oracle"]["agrees"]
    assert not suite.synthetic
    assert {value.name for value in suite.graph.parameters} == {"w"}
    assert "variants" not in out

    np.save(inputs, np.ones((3, 9), np.float32))
    code, _, err = run(capsys, "carve", model, "--input", f"x={inputs}", "-o", tmp_path / "bad.suite")
    assert code == 2
    assert "x" in err
    assert "9" in err
    assert "8" in err

    code, _, err = run(capsys, "carve", model, "-o", tmp_path / "bad.suite")
    assert code == 2
    assert "--random-inputs" in err

    made_up = tmp_path / "made-up.suite"
    code, out, _ = run(capsys, "carve", model, "--random-inputs", "--variants", "256,256+subgroups", "-o", made_up)
    assert code == 0
    assert "variants 256+subgroups, 256" in out
    assert "SYNTHETIC" in out
    assert Suite(made_up).synthetic


def test_a_model_that_nothing_checks_is_carved_when_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "test", values[:1], values[1:])
    model, suite = tmp_path / "m.onnx", tmp_path / "m.suite"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    code, _, err = run(capsys, "carve", model, "--random-inputs", "-o", suite)
    assert code == 2
    assert "onnxruntime is not installed" in err
    assert "--no-oracle" in err
    assert not suite.exists()
    code, out, err = run(capsys, "carve", model, "--random-inputs", "-o", suite, "--no-oracle")
    assert code == 0, err
    assert "onnxruntime is not installed" in out
    code, out, _ = run(capsys, "show", suite)
    assert "onnxruntime is not installed" in out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("m=1:2", ["has no size 'm' that may differ: it has n"]),
        ("n=0:5", ["n is from 1 to ", "m.onnx: give a range inside that, which 0 to 5 is not"]),
    ],
)
def test_a_range_that_a_model_has_not_is_told_before_it_is_carved(
    given: str, words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "test", values[:1], values[1:])
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    files = [tmp_path / f"{count}.npz" for count in (2, 3)]
    for count, file in enumerate(files, 2):
        np.savez(file, x=np.ones(count, np.float32))
    monkeypatch.setattr("tapml.carving.carve.carve", lambda *arguments, **options: pytest.fail("it is carved"))
    inputs = [word for file in files for word in ("--inputs", file)]
    code, _, err = run(capsys, "build", model, *inputs, "--range", given, "-o", tmp_path / "m.tapml")
    assert code == 2
    assert all(word in " ".join(err.split()) for word in words)
    assert not (tmp_path / "m.tapml").exists()


def test_a_refusal_has_fields(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Besides its sentence: operator, node and reason, in JSON too."""
    nodes = [helper.make_node("NoSuch", ["x"], ["y"], name="here", domain="own")]
    values = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "test", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "model.onnx")
    command = ("carve", tmp_path / "model.onnx", "--random-inputs", "-o", tmp_path / "x.suite")
    code, out, err = run(capsys, *command, "--json", "-")
    document = json.loads(out)
    assert code == 2
    assert document["format"] == "tapml.refusal/1"
    assert (document["operator"], document["node"]) == ("NoSuch", "here")
    assert "TVM's ONNX importer lacks the operator" in document["reason"]
    assert " ".join(document["error"].split()) in " ".join(err.split())
    assert not (tmp_path / "x.suite").exists()
    code, out, _ = run(capsys, "carve", "nothing.onnx", "--random-inputs", "-o", tmp_path / "x.suite", "--json", "-")
    document = json.loads(out)
    assert (code, document["operator"], document["node"], document["reason"]) == (2, None, None, None)
    assert document["error"] == "nothing.onnx: there is no such file"


def test_the_writing_demo_refuses_what_it_would_overwrite(
    capsys: pytest.CaptureFixture[str], suite: Suite, tmp_path: Path
) -> None:
    shutil.copytree(suite.path, tmp_path / "demo" / "tiny.suite")
    code, _, err = run(capsys, "demo", "--model", "tiny", "--no-serve", "-o", tmp_path / "demo")
    assert code == 2
    assert "is a suite of something else" in err
    code, out, err = run(capsys, "demo", "--model", "tiny", "--text", "x", "-o", tmp_path / "none")
    assert (code, out) == (2, "")
    assert "--text is for the sentence encoder" in err
    assert not (tmp_path / "none").exists()
