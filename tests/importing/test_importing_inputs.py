"""Inputs: what is accepted, and the sentence for everything that is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tapml.errors import InputError
from tapml.importing import import_model
from tapml.importing.inputs import InputSpec, gather_steps

SPECS = [InputSpec("ids", "int64", ("batch", "seq")), InputSpec("x", "float32", ("batch", 4))]
IDS, X = np.ones((1, 3), np.int64), np.ones((1, 4), np.float32)


def written(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": IDS}, r"the input 'x' is missing: it has ids, and the model takes ids int64\[batch, seq\], x fl"),
        ({"ids": IDS, "x": X, "y": X}, r"there is no input 'y'; the model takes ids"),
        ({"idz": IDS, "x": X}, r"the input 'ids' is missing, did you mean idz\? it has idz, x, and"),
        ({"ids": IDS, "x": X, "iids": X}, r"there is no input 'iids', did you mean ids\? the model takes ids"),
        (
            {"ids": IDS[0], "x": X},
            r"expected ids int64\[batch, seq\], got int64\[3\]: give an array of int64\[batch, seq\]$",
        ),
        (
            {"ids": IDS, "x": X[:, :3]},
            r"expected x float32\[batch, 4\], got float32\[1, 3\]: give an array of float32\[batch, 4\]$",
        ),
        (
            {"ids": IDS * 1.0, "x": X},
            r"expected ids .*, got float64\[1, 3\]: give an array of int64, such as array.astype\('int64'\)",
        ),
        ({"ids": IDS, "x": X[0]}, r"expected x float32.*, got float32\[4\]: give it an axis more, array\[None\]$"),
        ({"ids": IDS, "x": np.ones((2, 4), np.float32)}, r"batch is 1 in ids but 2 in x .*: give the same in both"),
        ({"ids": IDS, "x": X.astype(np.int32)}, r"expected x float32.*, got int32\[1, 4\]"),
    ],
)
def test_wrong_inputs(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    path = written(tmp_path / "in.npz", **arrays)
    with pytest.raises(InputError, match=message):
        gather_steps(SPECS, [path], {}, False, 0)


def test_a_picture_whose_axes_lie_otherwise(tmp_path: Path) -> None:
    given = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)
    spec = InputSpec("x", "float32", (1, 3, 2, 4))
    with pytest.raises(InputError, match=r"its axes lie in another order, array.transpose\(0, 3, 1, 2\) may be it$"):
        gather_steps([spec], [written(tmp_path / "in.npz", x=given)], {}, False, 0)
    path = written(tmp_path / "turned.npz", x=given.transpose(0, 3, 1, 2))
    assert gather_steps([spec], [path], {}, False, 0)[0].arrays["x"].shape == spec.shape


def test_narrower_integers_and_wider_floats_are_converted(tmp_path: Path) -> None:
    path = written(tmp_path / "in.npz", ids=IDS.astype(np.int32), x=X.astype(np.float64))
    (step,) = gather_steps(SPECS, [path], {}, False, 0)
    assert step.arrays["ids"].dtype == np.int64
    assert step.arrays["x"].dtype == np.float32
    assert step.narrowed()[0]["ids"].dtype == np.int32


def test_value_too_large_for_int32(tmp_path: Path) -> None:
    path = written(tmp_path / "in.npz", ids=IDS * 2**33, x=X)
    (step,) = gather_steps(SPECS, [path], {}, False, 0)
    with pytest.raises(InputError, match=r"input ids of in.npz: the value 8589934592"):
        step.narrowed()


def test_safetensors(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"ids": IDS, "x": X}, tmp_path / "in.safetensors")
    (step,) = gather_steps(SPECS, [tmp_path / "in.safetensors"], {}, False, 0)
    assert step.arrays["ids"].shape == (1, 3)
    assert not step.synthetic


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("BF16", "bfloat16"), ("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2"), ("F8_E8M0", "float8_e8m0fnu")],
)
def test_numbers_that_numpy_lacks_are_read_of_safetensors(tmp_path: Path, name: str, dtype: str) -> None:
    values = np.array([[0.5, 1, 2, 4]]).astype(getattr(ml_dtypes, dtype))
    data = IDS.tobytes() + values.tobytes()
    header = {
        "ids": {"dtype": "I64", "shape": [1, 3], "data_offsets": [0, 24]},
        "x": {"dtype": name, "shape": [1, 4], "data_offsets": [24, len(data)]},
    }
    text = json.dumps(header).encode()
    (tmp_path / "in.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (step,) = gather_steps(SPECS, [tmp_path / "in.safetensors"], {}, False, 0)
    assert step.arrays["x"].dtype == np.float32
    np.testing.assert_array_equal(step.arrays["x"], [[0.5, 1, 2, 4]])


def test_numbers_that_numpy_lacks_are_read_of_npz_where_it_says_which(tmp_path: Path) -> None:
    """numpy writes bfloat16 as two bytes, and float8 as one, whichever it is."""
    x = np.array([[0.5, -1, 3, 4]])
    for order in "CF":
        path = written(tmp_path / "in.npz", ids=IDS, x=np.asarray(x.astype(ml_dtypes.bfloat16), order=order))
        (step,) = gather_steps(SPECS, [path], {}, False, 0)
        np.testing.assert_array_equal(step.arrays["x"], x)
    for dtype in (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn):
        path = written(tmp_path / "in.npz", ids=IDS, x=x.astype(dtype))
        with pytest.raises(InputError, match=r"in.npz.*'x': numpy does not say in it which numbers of one byte"):
            gather_steps(SPECS, [path], {}, False, 0)
    with pytest.raises(InputError, match=r"ids has values that do not fit|expected ids int64"):
        gather_steps(SPECS, [written(tmp_path / "in.npz", ids=IDS.astype(ml_dtypes.bfloat16), x=X)], {}, False, 0)


def test_no_inputs_says_how_to_give_some() -> None:
    with pytest.raises(InputError, match="--inputs or --input, or --random-inputs"):
        gather_steps(SPECS, [], {}, False, 0)


def test_random_inputs_repeat() -> None:
    first, second = (gather_steps(SPECS, [], {}, True, 4)[0].arrays["x"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("name", "message"),
    [("in.txt", "inputs are a .npz"), ("no.npz", "no such file"), ("bad.npz", "not a readable")],
)
def test_unreadable_files(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK not really")
    with pytest.raises(InputError, match=message):
        gather_steps(SPECS, [tmp_path / name], {}, False, 0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("model.foo", "model.foo: not a model tapml can read; give minilm, a .onnx or a .pt2 file"),
        ("absent.onnx", "absent.onnx: there is no such file"),
    ],
)
def test_unknown_models(model: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_model(model, random_inputs=True)


def test_a_program_without_pytorch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "x.pt2").write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.pt2: reading \.pt2 files needs PyTorch: .*pip install"):
        import_model(str(tmp_path / "x.pt2"), random_inputs=True)
