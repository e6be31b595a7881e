"""The benchmarks of ONNX models: which cases are drawn, what is done again, what their tables say."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.onnx_models import table
from benchmarks.onnx_models.models import MODELS
from benchmarks.onnx_models.run import Bench, main
from benchmarks.onnx_nodes.browsers import drawn, markdown
from benchmarks.onnx_nodes.cases import Case
from benchmarks.pool import Pool

WORKER = """
import json, sys
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps({"name": line.strip()}), flush=True)
"""


def test_every_operator_is_drawn_and_the_same_cases_each_time() -> None:
    named = {f"add_{number}": "Add" for number in range(21)} | {"abs": "Abs"}
    found = {name: Case(name, operator, 1, None) for name, operator in named.items()}
    names = drawn(found)
    assert Counter(named[name] for name in names) == {"Add": 3, "Abs": 1}
    assert drawn(dict(reversed(found.items()))) == names
    assert {*drawn({**found, "neg": Case("neg", "Neg", 1, None)})} == {*names, "neg"}


def test_a_browser_that_is_wrong_is_told_apart_from_one_that_is_right() -> None:
    devices = {"chromium": "Chromium 156 on google swiftshader", "firefox": "Firefox 153"}
    right: dict[str, Any] = {"name": "abs", "operator": "Abs", "outcome": "right", "why": "", "devices": devices}
    right |= {"verdicts": {"chromium": [], "firefox": []}, "built": {"cpu": "", "chromium": "", "firefox": ""}}
    wrong = {**right, "name": "add", "operator": "Add", "verdicts": {"chromium": [], "firefox": ["fail: 3 outside"]}}
    refused = {"name": "cast", "operator": "Cast", "outcome": "refused", "why": "Cast: no float8", "devices": devices}
    lines = markdown([right, wrong, {**refused, "verdicts": {}}]).splitlines()
    assert lines[0].startswith("3 cases of 3 operators")
    assert "| Chromium 156 on google swiftshader | 2 | 2 | 0 | 0 | 1 | 0 |" in lines
    assert "| Firefox 153 | 1 | 2 | 0 | 0 | 1 | 1 |" in lines
    assert "- Add, `add`: firefox: fail: 3 outside" in lines
    assert "- Cast, `cast`: Cast: no float8" in lines


def test_an_interrupted_benchmark_begins_no_more_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "echoes.py").write_text(WORKER)
    monkeypatch.setattr("benchmarks.pool.CHECKOUT", tmp_path)
    names = [str(number) for number in range(1000)]
    asked: list[str] = []

    def facts(name: str) -> dict[str, Any]:
        asked.append(name)
        return {}

    ran = Pool(names, [], 2, 30.0, "echoes", facts).run()
    assert next(ran)["name"] in names
    ran.close()
    assert len(asked) < len(names)


MODEL = MODELS[0]


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that the benchmark ran for a model that is carved already; each runs into its limit."""
    (tmp_path / f"{MODEL.name}.suite").mkdir()
    ran: list[str] = []

    def command(self: object, *arguments: object) -> tuple[int, str, float, int]:
        ran.append(f"{arguments[0]} {arguments[3]}")
        return 130, "it did not end", 1.0, 0

    monkeypatch.setattr(Bench, "_tapml", command)
    return ran


def test_what_did_not_end_is_done_again_and_nothing_else(tmp_path: Path, done: list[str]) -> None:
    counts = {"pass": 2, "total": 2}
    record = {
        "problem": "",
        "agrees": True,
        "nodes": 2,
        "validated": {"chromium": {"counts": counts, "problems": []}, "firefox": {"counts": {}, "problems": ["lost"]}},
        "offload": {"verdict": "error", "message": "lost", "kept": [], "ended": False, "device": "chromium"},
    }
    (tmp_path / "records.json").write_text(json.dumps({MODEL.name: record}))
    Bench(MODEL, tmp_path, 1.0, keep=True).run(["chromium", "firefox"], "chromium")
    assert done == ["validate firefox", "offload chromium"]


def test_the_page_is_written_with_each_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "models.md"
    page.write_text(f"<!-- {table.MARK} -->\n<!-- end of {table.MARK} -->\n")
    tables: list[str] = []

    def run(self: Bench, devices: object, offload: object) -> None:
        tables.append(page.read_text())
        self.record["problem"] = "no such registry"
        self.save()

    monkeypatch.setattr(Bench, "run", run)
    monkeypatch.setattr(sys, "argv", ["bench", "--folder", str(tmp_path), "--docs", str(page), "--only", "^silero"])
    assert main() == 1
    assert [text.count("no such registry") for text in [*tables, page.read_text()]] == [0, 1, 2, 3]
    assert "silero-vad-sequence: no such registry" in capsys.readouterr().out
