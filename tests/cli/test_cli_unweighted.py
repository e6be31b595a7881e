"""`tapml build --hf CONFIG --no-weights`: what is written, and what of the cache is believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importing.test_importing_unweighted import LLAMA, written

from tapml.cli.main import main
from tapml.files import sha256


def built(folder: Path, *more: str) -> dict[str, Any]:
    config, facts = folder / "config.json", folder / "facts.json"
    command = ["build", "--hf", str(config), "--no-weights", "-o", str(folder / "made"), "--force"]
    assert main([*command, "--json", str(facts), *more]) == 0
    found: dict[str, Any] = json.loads(facts.read_text())
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_a_cache_has_is_what_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path / "cache"))
    written(tmp_path, LLAMA)
    first = built(tmp_path)
    made = files(tmp_path / "made")
    assert not first["from_cache"]
    assert first["kernels"] == sum(name.startswith("operators/") for name in made)
    assert any(name.endswith(".wgsl") for name in made)
    elements = 2 * 96 * 32 + 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 48 + 2 * 32) + 32
    assert first["weights"]["elements"] == elements + 2 * 64 * 8  # the tables of positions
    assert built(tmp_path)["from_cache"]
    assert files(tmp_path / "made") == made


@pytest.mark.slow
def test_what_a_cache_has_of_others_or_damaged_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path / "cache"))
    written(tmp_path, LLAMA)
    built(tmp_path)
    made = files(tmp_path / "made")
    (kept,) = (tmp_path / "cache" / "unweighted").iterdir()
    assert not built(tmp_path, "--no-cache")["from_cache"]
    assert not built(tmp_path, "--chunk", "8")["from_cache"]

    good = kept.read_bytes()
    _, _, document = good.partition(b"\n")
    hostile = document.replace(b'"file": "', b'"file": "../')
    assert hostile != document
    for bad in (
        good[:-1],
        good.replace(b"fma(", b"abs("),
        b"",
        b"\xff",
        sha256(kept.stem.encode() + hostile).encode() + b"\n" + hostile,
        sha256(kept.stem.encode() + b"{}").encode() + b"\n{}",
    ):
        kept.write_bytes(bad)
        assert not built(tmp_path)["from_cache"]
        assert kept.read_bytes() == good
        assert files(tmp_path / "made") == made


def test_what_it_has_no_use_for_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(written(tmp_path, LLAMA))
    for options, sentence in (
        (["--hf", config, "--no-weights", "--prompt", "Once"], "leave out --prompt, or --no-weights"),
        (["--hf", str(tmp_path / "none"), "--no-weights"], "there is no such file"),
        (["model.onnx", "--no-weights"], "give a folder or a config.json with --hf"),
        (["--hf", config, "--no-cache"], "--no-cache is for --no-weights"),
    ):
        assert main(["build", *options, "-o", str(tmp_path / "made")]) == 2
        assert sentence in capsys.readouterr().err
    (tmp_path / "made").mkdir()
    assert main(["build", "--hf", config, "--no-weights", "-o", str(tmp_path / "made")]) == 2
    assert "was not written by --no-weights" in capsys.readouterr().err
