"""The text of a bug report says what a maintainer asks for, and nothing in it becomes markup."""

from __future__ import annotations

import re

from repro_helpers import nasty
from tapml.sharing import Repro, issue_text
from tapml.sharing.issue import cell, code, fenced


def test_it_says_environment_symptom_numbers_and_steps(repro: Repro) -> None:
    text = issue_text(repro.document)
    for section in ("## Environment", "## Symptom", "## Numbers", "## Steps", "## What it computes"):
        assert section in text
    for fact in ("Fake 1", "Fake/1", "nobody", "6 of 96", "[0, 3]: 1.5, expected 1.0", "expected Infinity", "256"):
        assert fact in text
    assert repro.document.files[0].text.strip() in text


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
