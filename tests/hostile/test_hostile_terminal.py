"""Nobody's name or message steers a terminal, a log or a report."""

from __future__ import annotations

import argparse
import io
import json
import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_runs import bad, document
from repro_helpers import keep_result
from tapml.cli import commands, main
from tapml.errors import InputError
from tapml.files import json_text
from tapml.reports.annotations import github_annotations, summary_markdown
from tapml.reports.console import SafeConsole, Table, safe_streams
from tapml.reports.junit import junit
from tapml.reports.progress import ProgressReport
from tapml.reports.run_summary import show_run
from tapml.sharing import issue_text, of_suite
from tapml.suite import Suite
from tapml.text import indented, one_line, visible

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HONEST = "層正規化 é ﷽ 👩‍🔬 naïve ✓"
EVIL = (
    "\x1b[2J\x1b[31mred\x1b]8;;http://evil\x07link\x1b\\\x9b1A\x7f\u202egnp.exe\u2066\u2028x\ud83d\r"
    "[red]markup[/red] [link=http://evil]here[/link] :warning: \nForged line\n::error::forged " + HONEST
)


@given(st.text(st.characters()))
def test_visible_obeys_nothing_and_loses_nothing(text: str) -> None:
    shown = visible(text)
    assert not OBEYED.search(shown)
    assert visible(shown) == shown
    assert shown == text or OBEYED.search(text) or "\r" in text or not text.isprintable()
    assert "\n" not in one_line(text)
    assert all(line.startswith("  ") for line in indented(text, "  ").split("\n")[1:])


def test_honest_names_are_printed_as_they_are() -> None:
    assert visible(HONEST) == one_line(HONEST) == HONEST


@given(st.recursive(st.text(st.characters()), st.lists))
def test_json_means_the_same_and_steers_nothing(value: Any) -> None:
    text = json_text({"x": value})
    assert not OBEYED.search(text.replace("\n", ""))
    text.encode()
    assert json.loads(text) == {"x": value}


EVIL_UTF8 = EVIL.replace("\ud83d", "")
"""What a suite's files can hold and an exported test, too."""


def evil_suite(suite: Suite) -> Suite:
    """Every string of manifest, graph and tests that names no file, and a result's, means harm."""
    manifest = json.loads((suite.path / "suite.json").read_text())
    for place in (manifest["model"], manifest["reference"], manifest["generator"]):
        for key in ("title", "source", "device", "version"):
            if key in place:
                place[key] = EVIL_UTF8
    manifest["name"] = manifest["steps"][0]["description"] = manifest["oracle"]["name"] = EVIL_UTF8
    manifest["model"]["notes"] = [EVIL_UTF8]
    (suite.path / "suite.json").write_text(json.dumps(manifest))
    return Suite(suite.path)


def checked(text: str, *, markup: bool = True) -> str:
    """What was printed, once rich's own colours are gone."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text) if markup else text
    assert not OBEYED.search(text)
    assert "\n::error::" not in "\n" + text
    assert "\nForged line" not in "\n" + text
    return text


def test_show_and_export_print_no_escape_sequence(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    evil_suite(suite)
    keep_result(suite, suite.tests[0].id, message=EVIL_UTF8, device="Fake 1")
    assert main(["show", str(suite.path)]) == 0
    out = checked(capsys.readouterr().out, markup=False)
    assert "[link=http://evil]here[/link] :warning:" in out, "markup is text"
    assert r"\x1b[31mred" in out, "nothing is lost"
    assert HONEST in re.sub(r"\s+", " ", out)
    assert main(["show", str(suite.path), "--json", "-"]) == 0
    printed = capsys.readouterr().out
    checked(printed, markup=False)
    assert json.loads(printed)["model"]["title"] == EVIL_UTF8, "JSON is exact"
    assert main(["export", str(suite.path), suite.tests[0].id, "--markdown", "-"]) == 0
    assert not OBEYED.search(capsys.readouterr().out)


@pytest.mark.parametrize(
    "raised", [InputError(EVIL), ValueError(EVIL), argparse.ArgumentTypeError("x")], ids=["input", "defect", "other"]
)
def test_errors_print_no_escape_sequence(
    raised: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        sys.stderr.write(warnings.formatwarning(EVIL.replace("\n", " "), UserWarning, "it.py", 1, ""))
        logging.getLogger("tapml.test").error(EVIL_UTF8.replace("\n", " "))
        print(EVIL.replace("\n", " "))
        raise raised

    monkeypatch.setattr(commands, "show", fail)
    expected = 2 if isinstance(raised, InputError) else 1
    try:
        code: object = main(["show", "x"])
    except SystemExit as stop:
        code = stop.code
    assert code == expected
    captured = capsys.readouterr()
    assert not OBEYED.search(captured.out + captured.err)
    if expected == 2:
        checked(captured.out + captured.err)


def test_arguments_print_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "a", "-\x1b[31m\u202e"])
    assert r"\x1b[31m\u202e" in checked(capsys.readouterr().err)


def test_streams_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(RuntimeError), safe_streams():
        raise RuntimeError
    assert (sys.stdout, sys.stderr) == before


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars move the cursor by rich's own sequences; names in them do not."""
    out = io.StringIO()
    console = SafeConsole(out, force_terminal=True, width=150, color_system=None, legacy_windows=False)
    with ProgressReport(console) as report:
        report.update(EVIL, 1, 2, EVIL)
        report.line(EVIL)
        assert sys.stdout.write.__module__ != "rich.file_proxy"
        report.update(EVIL, 2, 2, EVIL)
    text = out.getvalue()
    assert "]8;;http" in text
    assert "\x1b]8" not in text
    assert "\x1b[31m" not in text
    assert "\u202e" not in text


def test_a_table_and_markup() -> None:
    out = io.StringIO()
    console = SafeConsole(out, width=300, force_terminal=False)
    table = Table(title=EVIL)
    for column in ("a", "b"):
        table.add_column(column)
    table.add_row(EVIL, "x\ny")
    console.print(table)
    console.print("[bold]a[/bold]", EVIL.replace("\n", ""))
    text = checked(out.getvalue())
    assert "x y" in text
    assert "[bold]a[/bold]" in text


def test_reports_of_a_run(tmp_path: Path) -> None:
    diagnostic = {"severity": "error", "line": 1, "column": 1, "message": EVIL, "source": EVIL, "file": EVIL * 40}
    error = {"kind": None, "gpu_message": EVIL, "lost_reason": None, "arguments": None, "stack": EVIL}
    test = bad(message=EVIL, kernel=EVIL, diagnostics=[diagnostic], error=error)
    found = document([test])
    found["suites"][0]["name"] = found["suites"][0]["path"] = EVIL
    found["devices"][0]["name"] = found["devices"][0]["requested"] = EVIL
    out = io.StringIO()
    show_run(SafeConsole(out, width=500), found)
    checked(out.getvalue())
    for line in github_annotations(found, tmp_path):
        assert not OBEYED.search(line)
        assert "\n" not in line
    assert not OBEYED.search(summary_markdown(found))
    text = junit(found).decode()
    assert not OBEYED.search(text)


def test_the_issue_is_text(suite: Suite) -> None:
    keep_result(suite, suite.tests[0].id, message="`" * 5 + EVIL_UTF8)
    text = issue_text(of_suite(suite, suite.tests[0].id).document)
    assert not OBEYED.search(text)
    assert "::error" in text


def test_a_terminal_of_another_encoding(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it cannot show is an escape, not an exception."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    evil_suite(suite)
    assert main(["show", str(suite.path)]) == 0
    sys.stdout.flush()
    assert rb"\u5c64" in raw.getvalue()
