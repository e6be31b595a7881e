"""DFT and STFT by a table, beside numpy's transforms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tapml.errors import InputError
from tapml.importing import import_model


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize(
    ("axis", "length", "parts", "inverse", "onesided"),
    [
        (1, None, 1, 0, 0), (1, None, 1, 0, 1), (2, None, 2, 0, 0), (-2, 5, 2, 0, 0), (1, 16, 1, 0, 1),
        (-2, 5, 1, 0, 1), (1, None, 2, 1, 0), (2, 12, 2, 1, 0), (-3, 7, 2, 1, 0), (1, 1, 2, 0, 0),
    ],
)  # fmt: skip
def test_dft(
    opset: int, axis: int, length: int | None, parts: int, inverse: int, onesided: int,
    tmp_path: Path, save_onnx: Callable[..., Path], evaluate: Callable[..., list[np.ndarray]],
) -> None:  # fmt: skip
    x = np.random.default_rng(0).normal(size=(2, 9, 6, parts)).astype(np.float32)
    place = axis % 4
    signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    transform = np.fft.ifft if inverse else np.fft.rfft if onesided and parts == 1 else np.fft.fft
    found = transform(signal, n=length, axis=place)
    expected = np.stack([found.real, found.imag], axis=-1)
    weights = {} if length is None else {"n": np.array(length, np.int64)}
    names = ["x", "n" if length is not None else ""]
    attributes = {"inverse": inverse, "onesided": onesided}
    if opset == 17:
        attributes["axis"] = axis % 4
    else:
        weights["axis"] = np.array(axis, np.int64)
        names.append("axis")
    node = helper.make_node("DFT", names, ["y"], **attributes)
    model = save_onnx([node], [("x", "float32", x.shape)], [("y", "float32", expected.shape)], weights, opset=opset)
    np.savez(tmp_path / "inputs.npz", x=x)
    imported = import_model(str(model), input_files=[tmp_path / "inputs.npz"])
    assert "call_dps_packed" not in imported.module.script()
    (result,) = evaluate(imported)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [None, 8, 9])
def test_a_onesided_spectrum_goes_back_to_a_real_signal(
    length: int | None, tmp_path: Path, save_onnx: Callable[..., Path], evaluate: Callable[..., list[np.ndarray]]
) -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 2)).astype(np.float32)
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], n=length, axis=1)[..., None]
    weights = {} if length is None else {"n": np.array(length, np.int64)}
    node = helper.make_node("DFT", ["x", "n"] if weights else ["x"], ["y"], inverse=1, onesided=1)
    model = save_onnx([node], [("x", "float32", x.shape)], [("y", "float32", expected.shape)], weights, opset=20)
    np.savez(tmp_path / "inputs.npz", x=x)
    imported = import_model(str(model), input_files=[tmp_path / "inputs.npz"])
    assert "call_dps_packed" not in imported.module.script()
    (result,) = evaluate(imported)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", [True, False])
def test_stft(
    window: bool, onesided: int, tmp_path: Path, save_onnx: Callable[..., Path],
    evaluate: Callable[..., list[np.ndarray]],
) -> None:  # fmt: skip
    x = np.random.default_rng(0).normal(size=(2, 50, 1)).astype(np.float32)
    weights = {"step": np.array(7, np.int64), "length": np.array(12, np.int64)}
    shape = np.hanning(12).astype(np.float32) if window else np.ones(12, np.float32)
    weights |= {"w": shape} if window else {}
    frames = np.stack([x[:, at : at + 12, 0] * shape for at in range(0, 50 - 12 + 1, 7)], axis=1)
    found = (np.fft.rfft if onesided else np.fft.fft)(frames, axis=2)
    expected = np.stack([found.real, found.imag], axis=-1)
    node = helper.make_node("STFT", ["x", "step", "w" if window else "", "length"], ["y"], onesided=onesided)
    model = save_onnx([node], [("x", "float32", x.shape)], [("y", "float32", expected.shape)], weights, opset=17)
    np.savez(tmp_path / "inputs.npz", x=x)
    imported = import_model(str(model), input_files=[tmp_path / "inputs.npz"])
    assert "call_dps_packed" not in imported.module.script()
    (result,) = evaluate(imported)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


def test_an_axis_of_parts_is_refused(tmp_path: Path, save_onnx: Callable[..., Path]) -> None:
    x = np.zeros((1, 4, 2), np.float32)
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"])
    weights = {"axis": np.array(-1, np.int64)}
    model = save_onnx([node], [("x", "float32", x.shape)], [("y", "float32", x.shape)], weights, opset=20)
    np.savez(tmp_path / "inputs.npz", x=x)
    with pytest.raises(InputError, match="axis"):
        import_model(str(model), input_files=[tmp_path / "inputs.npz"])
