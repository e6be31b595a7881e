"""`--quantise` on the command line: what is refused before anything is imported, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantised_models import language_model, tokens
from tapml.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["carve", "x.onnx", "-o", "x.suite", "--quantise", "q4f64"], "there is no 'q4f64', did you mean q4f16?"),
        (["carve", "--hf", "x", "-o", "x.suite", "--quantise-text", "x.txt"], "give --quantise, too, or leave it out"),
        (["carve", "x.onnx", "-o", "x.suite", "--quantise-text", "x.txt"], "--quantise-text is for decoders"),
        (
            ["carve", "--hf", "x", "-o", "x.suite", "--quantise", "q8", "--quantise-text", "x.txt"],
            "x.txt: there is no such file",
        ),
        (
            ["carve", "--hf", "x", "-o", "x.suite", "--quantise", "q8", "--quantise-text", "y.txt"],
            "y.txt is no text in UTF-8",
        ),
        (["carve", "--hf", "x", "-o", "x.suite", "--activations", "int4"], "there is no 'int4', did you mean int8?"),
        (
            ["carve", "--hf", "x", "-o", "x.suite", "--activations", "int8"],
            "give --quantise q8, q844, q4f16 or q4f32, too",
        ),
        (
            ["carve", "x.onnx", "-o", "x.suite", "--activations", "int8"],
            "give --quantise q8, q844, q4f16 or q4f32, too",
        ),
        (
            ["generate", "tiny", "--prompt", "a", "--activations", "int8"],
            "give --quantise q8, q844, q4f16 or q4f32, too",
        ),
        (
            ["generate", "x.suite", "--prompt", "a", "--quantise", "q8"],
            "x.suite is made already: --quantise is for tiny",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_a_sentence(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "y.txt").write_bytes(b"\xff")
    try:
        code: object = main(arguments)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_carve_tells_what_was_quantised_and_what_it_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, (inputs,) = language_model(tmp_path / "lm.onnx"), tokens(tmp_path, 5)
    suite = str(tmp_path / "lm.suite")
    asked = ["--quantise", "q8", "--activations", "int8"]
    assert main(["carve", str(model), "--inputs", str(inputs), *asked, "-o", suite]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 weights of products and embeddings quantised (q8): " in said
    assert "before 3 products with these activations are rounded to integers of 8 bits (int8)" in said
    assert "against the model before it was quantised: logits differs by up to" in said
    assert main(["build", suite, "--quantise", "q8", "-o", str(tmp_path / "lm.tapml")]) == 2
    assert "which was carved already: leave out --quantise, or give its model" in capsys.readouterr().err
