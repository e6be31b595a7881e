"""Kernels that somebody wrote, for operators with and without a program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from external_models import WGSL, K, N, by_hand, quantised
from helpers import small_model
from tapml.carving.carve import carve
from tapml.compilers.choose import COMPILERS
from tapml.compilers.external.by_hand import ByHand
from tapml.errors import InputError
from tapml.importing import import_model
from tapml.lowering.model import read_model
from tapml.platforms.reference import Reference
from tapml.suite import Suite


def carved(tmp_path: Path, *folders: Path, rows: int = 3) -> Suite:
    model = import_model(str(quantised(tmp_path / "model.onnx", rows)), random_inputs=True)
    compilers = (ByHand(*folders), *COMPILERS)
    return carve(model, tmp_path / "model.suite", name="model", compilers=compilers)


def test_an_operator_that_tvm_lacks_is_carved_with_onnx_runtime_as_its_reference(tmp_path: Path) -> None:
    suite = carved(tmp_path)
    assert suite.kernels == ["add", "MatMulNBits", "relu"]
    compilers = {name: suite.bundle(name)["compiler"]["name"] for name in suite.kernels}
    assert compilers == {"add": "tvm", "MatMulNBits": "external", "relu": "tvm"}
    assert suite.bundle("MatMulNBits")["compiler"]["reference"] == "ONNX Runtime (com.microsoft.MatMulNBits)"
    assert "computed by ONNX Runtime" in suite.bundle("MatMulNBits")["unsupported"]
    assert suite.manifest["oracle"]["agrees"]
    (test,) = (test for test in suite.tests if test.kernel == "MatMulNBits")
    (tolerance,) = test.tolerances
    assert 0 < tolerance.absolute < 1e-3
    assert "how is not known" in tolerance.reasons[0]


def test_a_suite_that_is_opened_again_runs_it_again(tmp_path: Path) -> None:
    suite = Suite(carved(tmp_path).path)
    model = read_model(suite)
    reference = Reference(model)
    (test,) = (test for test in suite.tests if test.kernel == "MatMulNBits")
    arrays = [suite.tensors.get(ref) for ref in test.inputs]
    found = reference.call("MatMulNBits", [reference.tensor(array) for array in arrays], [test.outputs[0].type])
    np.testing.assert_array_equal(found[0].numpy(), suite.tensors.get(test.outputs[0]))
    a, b, scales = arrays
    bits = np.stack([b & 15, b >> 4], -1).reshape(N, K) - 8
    expected = a.astype(np.float64) @ (bits * scales.reshape(N, -1).repeat(16, axis=1)).T
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 300])
def test_a_kernel_by_hand_takes_the_sizes_of_the_model(tmp_path: Path, rows: int) -> None:
    suite = carved(tmp_path, by_hand(tmp_path / "kernels"), rows=rows)
    document = suite.bundle("MatMulNBits")
    assert document["compiler"]["name"] == "external"
    assert [argument["shape"] for argument in document["arguments"]] == [[rows, K], [N, 2, 8], [N * 2], [rows, N]]
    (launch,) = document["variants"][0]["launches"]
    assert launch["grid"] == [-(-rows * N // 64), 1, 1]
    assert [uniform["value"] for uniform in launch["uniforms"]] == [rows, N, 2]
    (file,) = suite.kernel_files("MatMulNBits")
    assert (file.name, file.text, file.edited) == ("MatMulNBits.wgsl", WGSL, False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"symbols": [{"name": name, "minimum": 4, "maximum": 9} for name in ("m", "n", "blocks")]}, "it takes input"),
        ({"kernel": "add"}, r"MatMulNBits.json: arguments: .* the model gives add input float32"),
        ({"numerics": None}, "MatMulNBits.json: numerics"),
        (
            {"kernel": "MatMulNbit"},
            r"MatMulNBits.json: kernel: the model has no operator 'MatMulNbit', did you mean MatMulNBits\? it has ",
        ),
        ({"kernel": "Swish"}, r"MatMulNBits.json: kernel: the model has no operator 'Swish': it has add, MatMulNBits"),
    ],
)
def test_a_kernel_for_other_tensors_is_refused_by_name(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    folder = by_hand(tmp_path / "kernels", **changes)
    with pytest.raises(InputError, match=words):
        carved(tmp_path, folder)
    assert not (tmp_path / "model.suite").exists()


def test_a_folder_may_have_kernels_of_other_models(tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "kernels")
    other = json.loads((folder / "MatMulNBits.json").read_text())
    (folder / "other.json").write_text(json.dumps({**other, "kernel": "Swish"}))
    assert carved(tmp_path, folder).bundle("MatMulNBits")["compiler"]["name"] == "external"
    (folder / "other.json").write_text(json.dumps({**other, "kernel": "rellu"}))
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(InputError, match=r"other.json: kernel: the model has no operator 'rellu', did you mean relu\?"):
        carved(again, folder)


def test_a_kernel_by_hand_goes_before_that_of_tvm(tmp_path: Path) -> None:
    made = carve(small_model(), tmp_path / "one.suite", name="one")
    folder = tmp_path / "kernels"
    folder.mkdir()
    for file in (made.path / "kernels").glob("softmax*"):
        (folder / file.name).write_text(file.read_text() + (" // mine" if file.suffix == ".wgsl" else ""))
    suite = carve(small_model(), tmp_path / "two.suite", name="two", compilers=(ByHand(folder), *COMPILERS))
    assert {name: suite.bundle(name)["compiler"]["name"] for name in suite.kernels} == {
        name: "external" if name == "softmax" else "tvm" for name in suite.kernels
    }
    assert suite.kernel_files("softmax")[0].text.endswith("// mine")
    assert json.loads((folder / "softmax.json").read_text())["compiler"]["name"] == "tvm"
    # The operator has a program: its bounds are derived as ever.
    (test, *_) = (test for test in suite.tests if test.kernel == "softmax")
    assert test.tolerances[0].bound is not None
