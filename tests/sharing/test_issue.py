"""The text of a bug report says what a maintainer asks for, and nothing in it becomes markup."""

from __future__ import annotations

import re

from repro_helpers import keep_result, nasty
from tapml.sharing import Repro, issue_text, of_suite
from tapml.sharing.issue import cell, code, fenced
from tapml.suite import Suite


def test_it_says_environment_symptom_numbers_and_steps(repro: Repro) -> None:
    text = issue_text(repro.document)
    for section in ("## Environment", "## Symptom", "## Numbers", "## Steps", "## What it computes"):
        assert section in text
    for fact in ("Fake 1", "Fake/1", "nobody", "6 of 96", "[0, 3]: 1.5, expected 1.0", "expected Infinity", "256"):
        assert fact in text
    assert repro.document.files[0].text.strip() in text


def test_a_reader_without_tapml_can_dispatch_it(repro: Repro) -> None:
    """Each binding and what it holds, the uniform's values, the workgroups."""
    text = issue_text(repro.document)
    (launch,) = repro.document.kernel["variants"][0]["launches"]
    (entry_point,) = repro.document.kernel["variants"][0]["entry_points"]
    assert f"{launch['grid']} workgroups of {entry_point['workgroup_size']}" in text
    assert f"| 2 | `uniform: packGridDimX = {launch['grid'][0]} (uint32)` |" in text
    bindings = re.findall(r"^\| (\d) \| `(input|output) ", text, re.MULTILINE)
    order = ["output" if argument["argument"] == 1 else "input" for argument in launch["operands"]]
    assert bindings == [(str(number), role) for number, role in enumerate(order)]


def test_it_says_what_is_unbounded(suite: Suite, test_id: str) -> None:
    element = {"output": 0, "index": [0, 3], "expected": 1.0, "got": 1.5, "bound": "Infinity"}
    keep_result(suite, test_id, "unbounded", mismatched=0, unbounded=6, tied=2, first=element, worst=None)
    text = issue_text(of_suite(suite, test_id).document)
    assert "relies on what WGSL promises nothing for on `Fake 1`" in text.splitlines()[0]
    assert "| Elements WGSL promises nothing for | `6 of 96` |" in text
    assert "[0, 3]: 1.5, expected 1.0, may differ by Infinity" in text


def test_other_devices_and_edits_are_told_at_once(suite: Suite, test_id: str) -> None:
    keep_result(suite, test_id, "fail", "Bad 1")
    keep_result(suite, test_id, "pass", "Good 1")
    path = suite.path / "kernels" / suite.kernel_files(suite.test(test_id).kernel)[0].name
    path.write_text(path.read_text() + "// mine\n")
    text = issue_text(of_suite(suite, test_id).document)
    assert "The same test on other devices: `Good 1` pass." in text
    assert "edited by hand" in text.split("## Environment")[0]


def test_a_compilers_words_stand_once(suite: Suite, test_id: str) -> None:
    message = {
        "severity": "error",
        "line": 3,
        "column": 5,
        "message": "unresolved call",
        "source": "  f();",
        "file": "x",
    }
    keep_result(suite, test_id, "error", message="kernel x: unresolved call; at x:3:5", total=0, diagnostics=[message])
    text = issue_text(of_suite(suite, test_id).document)
    assert text.count("unresolved call") == 1
    assert "x:3:5: error: unresolved call" in text


def outside_of_code(text: str) -> str:
    """What Markdown would read as markup: fenced blocks and code spans removed, by CommonMark's rules."""
    text = re.sub(r"^(`{3,})[^`\n]*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", text)


def test_what_others_wrote_stays_in_code(repro: Repro) -> None:
    text = issue_text(nasty(repro).document)
    assert "alert(1)" in text
    left = outside_of_code(text)
    for harmful in ("<script", "alert", "{{", "heading"):
        assert harmful not in left


def test_no_text_can_end_its_code() -> None:
    assert code("a`b``c") == "```a`b``c```"
    assert code("`") == "`` ` ``"
    assert code("two\nlines") == "`two lines`"
    assert cell("a|b") == "`a\\|b`"
    assert fenced("```\nx")[0] == "````"
