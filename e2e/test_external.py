"""A model with an operator that TVM lacks, from the command line: without a kernel, with a right and a wrong one."""

from __future__ import annotations

from pathlib import Path

from conftest import read_json, rewrite, tapml
from external_models import by_hand, quantised


def test_without_a_kernel_the_operator_stays_on_the_reference(tmp_path: Path) -> None:
    suite, out = tmp_path / "x.suite", tmp_path / "out.json"
    ran = tapml("carve", quantised(tmp_path / "x.onnx"), "--random-inputs", "-o", suite)
    assert ran.code == 0, ran.err
    assert "computed by ONNX Runtime (com.microsoft.MatMulNBits)" in ran.out
    ran = tapml("validate", suite, "--device", "node-dawn", "--json", out)
    assert ran.code == 0, ran.out + ran.err
    assert [test["verdict"] for test in read_json(out)["tests"]] == ["pass", "unsupported", "pass"]
    ran = tapml("offload", suite, "--device", "node-dawn", "--json", out)
    assert ran.code == 0, ran.out + ran.err
    document = read_json(out)
    assert [step["kept"] for step in document["steps"]] == [True, False, True]
    assert document["steps"][-1]["model_metric"]["cosine"] > 0.999999
    assert (document["final"]["verdict"], document["final"]["kept_on_reference"]) == ("unsupported", ["MatMulNBits"])
    ran = tapml("locate", suite, "--device", "node-dawn", "--json", out)
    assert ran.code == 0, ran.out + ran.err


def test_a_kernel_by_hand_is_validated_as_all_others_are(tmp_path: Path) -> None:
    suite, out = tmp_path / "x.suite", tmp_path / "out.json"
    kernels = by_hand(tmp_path / "kernels")
    ran = tapml("carve", quantised(tmp_path / "x.onnx"), "--random-inputs", "--external", kernels, "-o", suite)
    assert ran.code == 0, ran.err
    ran = tapml("offload", suite, "--device", "node-dawn", "--json", out)
    assert ran.code == 0, ran.out + ran.err
    document = read_json(out)
    assert all(step["kept"] and step["operator_verdict"] == "pass" for step in document["steps"])
    assert document["steps"][-1]["segments"] == 1
    rewrite(suite, "MatMulNBits", lambda text: text.replace("- 8.0f", "- 7.0f"))
    ran = tapml("validate", suite, "--device", "node-dawn", "--json", out)
    assert ran.code == 1
    assert [test["verdict"] for test in read_json(out)["tests"]] == ["pass", "fail", "pass"]
    ran = tapml("locate", suite, "--device", "node-dawn", "--json", out)
    assert "MatMulNBits" in ran.out
    ran = tapml("reduce", suite, "n001.s0", "--device", "node-dawn")
    assert ran.code == 0, ran.out + ran.err
    ran = tapml("export", suite, "n001.s0", "--html", tmp_path / "one.html")
    assert ran.code == 0, ran.out + ran.err


def test_functions_and_wrong_arguments(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import numpy as np\ndef MatMulNBits(a, b, scales, K, N, bits, block_size):\n"
                    "    return np.ones((a.shape[0], N), np.float32)\n")  # fmt: skip
    model, suite = quantised(tmp_path / "x.onnx"), tmp_path / "x.suite"
    ran = tapml("carve", model, "--random-inputs", "--external", file, "-o", suite)
    assert ran.code == 2, "ONNX Runtime, the oracle, does not agree with such a function"
    assert "disagrees with onnxruntime" in ran.err
    assert "which MatMulNBits (com.microsoft opset 1, node " in ran.err
    assert not suite.exists()
    ran = tapml("carve", model, "--random-inputs", "--external", file, "-o", suite, "--keep-disagreeing")
    assert ran.code == 1
    assert "DISAGREES" in ran.out
    ran = tapml("offload", suite, "--device", "node-dawn")
    assert ran.code == 2
    assert "a suite holds no code" in ran.err
    assert "DO NOT TRUST" in ran.err
    file.write_text("1 / 0")
    for wrong, words in ((file, "ZeroDivisionError"), (tmp_path / "none.py", "give a .py file"), (model, "a folder")):
        ran = tapml("carve", model, "--random-inputs", "--external", wrong, "-o", tmp_path / "y.suite")
        assert ran.code == 2
        assert words in ran.err


def test_a_function_is_given_again_to_make_its_test_smaller(tmp_path: Path) -> None:
    file, suite = tmp_path / "mine.py", tmp_path / "x.suite"
    file.write_text("import numpy as np\ndef MatMulNBits(a, b, scales, K, N, bits, block_size):\n"
                    "    codes = np.stack([b & 15, b >> 4], -1).reshape(N, -1, block_size).astype(np.float32) - 8\n"
                    "    return a @ (codes * scales.reshape(N, -1, 1)).reshape(N, K).T\n")  # fmt: skip
    given = "--random-inputs", "--external", by_hand(tmp_path / "kernels"), "--external", file
    ran = tapml("carve", quantised(tmp_path / "x.onnx"), *given, "-o", suite)
    assert ran.code == 0, ran.err
    rewrite(suite, "MatMulNBits", lambda text: text.replace("- 8.0f", "- 7.0f"))
    ran = tapml("reduce", suite, "n001.s0", "--device", "node-dawn")
    assert ran.code == 2
    assert "a suite holds no code" in ran.err
    ran = tapml("reduce", suite, "n001.s0", "--device", "node-dawn", "--external", file)
    assert ran.code == 0, ran.out + ran.err
