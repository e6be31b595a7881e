"""`tapml generate`: what is refused before anything is computed. What it writes is in e2e/test_generate.py."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from tapml.cli import main
from tapml.cli.generate_command import _Shown
from tapml.generation.writing import Generated, Piece, Reason
from tapml.suite import Suite


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.tapml"], "nothing.tapml"),
        (["tiny", "--greedy", "--top-k", "3"], "greedy takes the most likely token, and top_k is for draws"),
        (["tiny", "--temperature", "0"], "temperature is 0.0: give a number above 0"),
        (["tiny", "--top-p", "2"], "top_p is 2.0: give a number above 0 and at most 1"),
        (["tiny", "--stop", ""], "stop is no list of texts with something in them"),
        (["tiny", "--device", "deno", "--device", "cpu"], "give one --device"),
        (["tiny", "--device", "chromiun"], "no device 'chromiun' that this machine can start, did you mean chromium?"),
        (["tiny", "--drafts", "3"], "--drafts says how many tokens are guessed at a time: give --speculate"),
        (["tiny", "--encoder", "a.tapml"], "an encoder and its source are given together"),
        (["tiny", "--device", "http://127.0.0.1:1"], "a text is not written on a device of another server"),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", *arguments, "--prompt", "Once"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_an_empty_prompt_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path))
    assert main(["generate", "tiny", "--prompt", ""]) == 2
    assert "the prompt is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_is_refused_loads_neither_compilers_nor_servers() -> None:
    """TVM alone takes seconds."""
    code = "import sys; from tapml.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    given = ["generate", "tiny", "--prompt", "a", "--device", "chromiun"]
    ran = subprocess.run([sys.executable, "-c", code, *given], check=True, capture_output=True, text=True)
    assert "did you mean chromium" in ran.stderr
    assert not {"tvm", "torch", "flask", "sqlalchemy", "tapml.server"} & set(ran.stdout.split())


def test_an_option_that_is_misspelled_is_told_with_the_one_that_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for given, said in (
        (["generate", "tiny", "--promt", "a"], "there is no option --promt, did you mean --prompt?"),
        (
            ["generate", "tiny", "--prompt", "a", "--temprature=3"],
            "no option --temprature, did you mean --temperature?",
        ),
        (["validate", "a.suite", "--kernl", "b"], "there is no option --kernl, did you mean --kernel?"),
        (["carv", "minilm"], "there is no 'carv', did you mean carve? it is one of carve, validate,"),
    ):
        with pytest.raises(SystemExit):
            main(given)
        assert said in " ".join(capsys.readouterr().err.split())


def test_a_prompt_is_wanted_and_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "tiny"]) == 2
    assert "give --prompt TEXT, or --prompt-ids" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["generate", "tiny", "--prompt", "a", "--prompt-ids", "1,2"])
    assert "--prompt" in capsys.readouterr().err


def test_a_suite_of_another_model_is_refused(suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(suite.path), "--prompt", "Once"]) == 2
    assert "is no language model that generates" in " ".join(capsys.readouterr().err.split())


def test_several_texts_stand_in_the_order_of_their_prompts_each_as_a_line() -> None:
    written = io.StringIO()
    texts = cast(Any, [SimpleNamespace(tokenizer="there is one")] * 3)
    shown = _Shown(Console(file=written), Console(file=io.StringIO()), texts, None, quiet=False)
    results = [Generated(1) for _ in texts]

    def piece(number: int, text: str, reason: Reason = "abort") -> str:
        results[number].reason = reason
        shown.piece(number, Piece(0, text, 0, guessed=False), results[number])
        return written.getvalue()

    assert piece(1, "b") == ""
    assert piece(0, "a") == "a"
    assert piece(2, "c", "end") == "a"
    assert piece(0, "a", "length") == "aa\nb"
    assert piece(1, "b", "stop") == "aa\nbb\nc"
    shown.end()
    assert written.getvalue() == "aa\nbb\nc\n"
