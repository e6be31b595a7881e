"""tapml zoo: what it says of configurations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapml.cli import main
from tapml.zoo.table import outcome, table

RIGHT = {
    **{"name": "a", "outcome": "right", "why": "", "kernels": 3, "calls": 9, "distinct": 12, "wanted": 64},
    **{"tokens": {"cpu": 64, "node-dawn": 64}, "verdicts": {"node-dawn": []}},
}


def test_a_row_says_what_became_of_a_configuration() -> None:
    failing = {**RIGHT, "name": "b", "verdicts": {"node-dawn": ["fail: a | b"]}}
    refused = {"name": "c", "outcome": "refused", "why": "it is\ntoo odd"}
    assert [outcome(record) for record in (RIGHT, failing, refused)] == ["right", "wrong", "refused"]
    assert table([RIGHT, failing, refused]).splitlines()[2:] == [
        "| a | 3 | 9 | cpu 64 of 64, node-dawn 64 of 64 | 12 | right |",
        "| b | 3 | 9 | cpu 64 of 64, node-dawn 64 of 64 | 12 | wrong: fail: a \\| b |",
        "| c |  |  |  |  | refused: too odd |",
    ]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "no such model"], "no configuration has a name like no such model"),
        (["--resume"], "--resume goes on with the file of --records"),
        (["--resume", "--records", "FILE"], "holds no records of tapml zoo"),
    ],
)
def test_what_it_cannot_begin_with(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.json").write_text("[1]")
    given = [str(tmp_path / "other.json") if argument == "FILE" else argument for argument in arguments]
    assert main(["zoo", *given]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.torch
def test_what_records_have_is_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "zoo.jsonl"
    records.write_text(json.dumps({**RIGHT, "name": "gpt2"}) + "\n")
    assert main(["zoo", "--only", "^gpt2$", "--device", "cpu", "--resume", "--records", str(records)]) == 0
    assert "| gpt2 | 3 | 9 | cpu 64 of 64, node-dawn 64 of 64 | 12 | right |" in capsys.readouterr().out
