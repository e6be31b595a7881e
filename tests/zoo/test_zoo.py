"""tapml zoo: what it says of configurations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapml.cli import main
from tapml.zoo.code import code
from tapml.zoo.made import made
from tapml.zoo.table import outcome, table

RIGHT = {
    **{"name": "a", "outcome": "right", "why": "", "kernels": 3, "calls": 9, "distinct": 12, "wanted": 64},
    **{"tokens": {"cpu": 64, "node-dawn": 64}, "verdicts": {"node-dawn": []}},
}


def test_a_row_says_what_became_of_a_configuration() -> None:
    more = {"tokens": {**RIGHT["tokens"], "firefox": 9}, "verdicts": {"node-dawn": ["fail: a | b"], "firefox": []}}
    failing = {**RIGHT, "name": "b", **more}
    refused = {"name": "c", "outcome": "refused", "why": "it is\ntoo odd"}
    assert [outcome(record) for record in (RIGHT, failing, refused)] == ["right", "wrong", "refused"]
    assert table([RIGHT, failing, refused]).splitlines() == [
        "| configuration | kernels | tests | different tokens | cpu | node-dawn | firefox | outcome |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| a | 3 | 9 | 12 | 64 of 64 | 64 of 64 |  | right |",
        "| b | 3 | 9 | 12 | 64 of 64 | 64 of 64, kernels fail | 9 of 64 | wrong: fail: a \\| b |",
        "| c |  |  |  |  |  |  | refused: too odd |",
        "",
        "Code: unknown.",
    ]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "no such model"], "no configuration has a name like no such model"),
        (["--resume"], "--resume goes on with the file of --records"),
        (["--any-code"], "--any-code takes what --resume or --suites finds"),
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
    records.write_text(json.dumps({**RIGHT, "name": "gpt2", "codes": [code()]}) + "\n")
    assert main(["zoo", "--only", "^gpt2$", "--device", "cpu", "--resume", "--records", str(records)]) == 0
    assert "| gpt2 | 3 | 9 | 12 | 64 of 64 | 64 of 64 | right |" in capsys.readouterr().out


@pytest.mark.torch
def test_records_of_other_code_are_made_again_unless_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def judged(
        name: str, folder: Path, devices: object, blobs: object, before: object, any_code: bool, compiler: str
    ) -> object:
        tried.append((name, before))
        return {**RIGHT, "codes": [code()]}

    monkeypatch.setattr("tapml.zoo.judge.judged", judged)
    records = tmp_path / "zoo.jsonl"
    before = {"gpt2": ["0123456789ab (torch 2.9.1)"], "bloom": [code()], "opt": None}
    lines = [{**RIGHT, "name": name, **({"codes": codes} if codes else {})} for name, codes in before.items()]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["zoo", "--only", "^(gpt2|bloom|opt)$", "--device", "cpu", "--resume", "--records", str(records)]
    assert main([*arguments, "--any-code"]) == 0
    assert not tried
    out = capsys.readouterr().out
    assert "| node-dawn | code | outcome |" in out
    assert "| 0123456789ab | right |" in out
    assert f"Code: 0123456789ab (torch 2.9.1); unknown; {code()}." in out
    assert main(arguments) == 0
    assert tried == [("gpt2", None), ("opt", None)]
    again = capsys.readouterr()
    assert "opt: its record is of other code" in again.err
    assert "| code |" not in again.out
    assert f"Code: {code()}." in again.out


def test_a_table_says_whose_kernels_it_is_of() -> None:
    assert table([{**RIGHT, "compiler": "tvm"}]).endswith("Code: unknown.")
    assert table([RIGHT, {**RIGHT, "compiler": "native"}]).endswith("Code: unknown. Kernels: `--compiler native`.")


@pytest.mark.torch
def test_records_of_another_compiler_are_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def judged(*given: object) -> object:
        asked.append((given[0], given[-3:]))
        return {**RIGHT, "name": given[0], "codes": [code()], "compiler": given[-1]}

    monkeypatch.setattr("tapml.zoo.judge.judged", judged)
    records = tmp_path / "zoo.jsonl"
    arguments = ["zoo", "--only", "^(gpt2|opt)$", "--device", "cpu", "--resume", "--records", str(records)]
    before = [{**RIGHT, "name": "gpt2"}, {**RIGHT, "name": "opt", "compiler": "native"}]
    records.write_text("".join(json.dumps({**record, "codes": [code()]}) + "\n" for record in before))
    # Whatever code it is of.
    assert main([*arguments, "--compiler", "native", "--any-code"]) == 0
    assert asked == [("gpt2", (None, True, "native"))]
    again = capsys.readouterr()
    assert "gpt2: its record is of --compiler tvm" in again.err
    assert "Kernels: `--compiler native`." in again.out
    assert main([*arguments, "--compiler", "native"]) == 0
    assert len(asked) == 1


@pytest.mark.torch
def test_what_other_code_made_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"parts": [], "wanted": [3], "chunk": 1}
    kept = tmp_path / "made.json"
    kept.write_text(json.dumps({**facts, "code": "0123456789ab"}))
    made_again: list[tuple[str, str]] = []

    def make(name: str, folder: Path, compiler: str) -> None:
        made_again.append((name, compiler))
        kept.write_text(json.dumps({**facts, "code": code(), "compiler": compiler}))

    monkeypatch.setattr("tapml.zoo.made._make", make)
    assert made("gpt2", tmp_path, any_code=True).code == "0123456789ab"
    assert not made_again
    assert made("gpt2", tmp_path).code == code()
    assert made("gpt2", tmp_path).code == code()
    assert made_again == [("gpt2", "tvm")]
    # Whatever code it is of.
    made("gpt2", tmp_path, any_code=True, compiler="native")
    made("gpt2", tmp_path, compiler="native")
    assert made_again == [("gpt2", "tvm"), ("gpt2", "native")]
