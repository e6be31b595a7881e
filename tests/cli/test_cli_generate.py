"""`tapml generate`: what is refused before anything is computed. What it writes is in e2e/test_generate.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapml.cli import main
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
    ],
)
def test_what_cannot_be_asked_for_is_said_in_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", *arguments, "--prompt", "Once"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_prompt_is_wanted_and_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["--prompt", "a", "--prompt-ids", "1,2"]):
        with pytest.raises(SystemExit):
            main(["generate", "tiny", *given])
        assert "--prompt" in capsys.readouterr().err


def test_a_suite_of_another_model_is_refused(suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(suite.path), "--prompt", "Once"]) == 2
    assert "is no language model that generates" in " ".join(capsys.readouterr().err.split())
