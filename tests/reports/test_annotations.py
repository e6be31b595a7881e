"""What GitHub shows, and that no name or message becomes a command, markup or a mention."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_runs import bad, document, result
from tapml.reports.annotations import command, github_annotations, markdown, summary_markdown
from tapml.reports.plain import export_command
from tapml.text import one_line


def parse(line: str) -> tuple[str, dict[str, str], str]:
    """As the runner does (actions/runner, ActionCommand.TryParseV2)."""
    found = re.fullmatch(r"::([a-z]+) (.*?)::(.*)", line)
    assert found, line
    properties = dict(part.split("=", 1) for part in found[2].split(",")) if found[2] else {}

    def data(text: str) -> str:
        return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")

    decoded = {key: data(value.replace("%3A", ":").replace("%2C", ",")) for key, value in properties.items()}
    return found[1], decoded, data(found[3])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    kernels = tmp_path / "suites" / "s.suite" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "matmul.wgsl").write_text("fn main() {}\n")
    return tmp_path.resolve()


def of(repository: Path, *tests: dict[str, Any]) -> list[tuple[str, dict[str, str], str]]:
    found = document(tests)
    found["suites"][0]["path"] = str(repository / "suites" / "s.suite")
    return [parse(line) for line in github_annotations(found, repository)]


def test_unbounded_is_told_as_such(repository: Path) -> None:
    test = bad(verdict="unbounded", outcome="unbounded", unbounded=1, mismatched=0, message="1 of 4 is unbounded")
    ((level, properties, message),) = of(repository, test)
    assert (level, message) == ("error", "n000.s0: 1 of 4 is unbounded")
    assert properties["title"] == "matmul is unbounded on chromium (1 test of s)"
    table = html.unescape(summary_markdown(document([test, bad(id="n1.s0", kernel="other", verdict="fail")])))
    assert "1 fail, 1 unbounded" in table
    assert "❌ unbounded" in table


def test_an_error_stands_at_the_compilers_line(repository: Path) -> None:
    diagnostic = {"severity": "error", "line": 7, "column": 3, "message": "no", "source": "x", "file": "matmul.wgsl"}
    test = bad(
        verdict="error", outcome="error", message="it does not compile: 100%\nno such name", diagnostics=[diagnostic]
    )
    ((level, properties, message),) = of(repository, test, {**test, "id": "n001.s0"})
    assert level == "error"
    assert properties == {
        "file": "suites/s.suite/kernels/matmul.wgsl",
        "line": "7",
        "title": "matmul has errors on chromium (2 tests of s)",
    }
    assert message == "n000.s0: it does not compile: 100%\nno such name"


def test_levels_and_their_limit(repository: Path) -> None:
    many = [bad(id=f"n{number}", kernel=f"k{number}") for number in range(25)]
    flaky = result(kernel="f", flaky=True, attempts=["fail", "pass"], earlier=[{"message": "once"}])
    fixed = result(
        kernel="g", outcome="fixed", expected={"verdict": "fail", "reason": "", "expires": None, "expired": False}
    )
    found = of(repository, *many, flaky, fixed)
    levels = [level for level, _, _ in found]
    assert levels == ["error"] * 10 + ["warning", "notice"]
    assert found[9][2].startswith("and 16 more kernels (16 tests)")
    assert "file" not in found[0][1], "there is no such file"
    assert "fail, pass; first: once" in found[10][2]
    assert "--update-baseline" in found[11][2]


def test_a_device_chooses_no_path(repository: Path) -> None:
    (repository / "secret.wgsl").write_text("")
    evil = {"severity": "error", "line": 1, "column": 1, "message": "", "source": "", "file": "../../../secret.wgsl"}
    ((_, properties, _),) = of(repository, bad(kernel="../../../secret", diagnostics=[evil, "no mapping"]))
    assert "file" not in properties


@given(st.text(max_size=200), st.text(max_size=60))
def test_one_line_whatever_is_in_it(message: str, title: str) -> None:
    line = command("error", message + "\r\n::warning::x\u2028", title=title + "::,%:\n", file="a,b:c")
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", line)
    level, properties, said = parse(line)
    assert level == "error"
    assert properties["file"] == "a,b:c"
    assert properties.keys() == {"title", "file"}
    assert "\n::warning::x" in "\n" + said.replace("\r", "")


@given(st.text(max_size=80))
def test_markdown_shows_text_as_it_is(text: str) -> None:
    nasty = f"{text}<script>|[x](javascript:y)![i](http://i)`c`**b**@someone https://e.org www.e.org &amp; #1\n- x"
    escaped = markdown(nasty)
    assert not re.search(r"""[!"$%'()*+,\-./:<=>?@\[\\\]^_`{|}~]|&(?!#\d+;)|#(?!\d+;)|\n""", escaped)
    assert html.unescape(escaped).replace("\u200b", "") == one_line(nasty, 300).replace("\u200b", "")


def test_the_summary_has_a_row_for_each_kernel_that_did_not_simply_pass() -> None:
    tests = [
        result(),
        bad(id="n001.s0", kernel="soft|max", message="bad\n| forged | row |"),
        bad(id="n002.s0", kernel="known", outcome="expected", fails_run=False,
            expected={"verdict": "fail", "reason": "", "expires": None, "expired": False}),
    ]  # fmt: skip
    text = summary_markdown(document(tests, shard="1/2"))
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 2
    assert all(row.count("|") == 7 for row in rows)
    assert "❌" in rows[0]
    assert "soft&#124;max" in rows[0]
    assert "expected" in rows[1]
    assert text.startswith("## ❌ tapml test, shard 1/2")
    assert summary_markdown(document([result()])).startswith("## ✅ tapml test\n")
    assert "Interrupted: " in summary_markdown(document([result()], interrupted=True))


def test_the_export_command_is_quoted() -> None:
    assert export_command("/tmp/my suite", "a';rm -rf /") == (
        """tapml export '/tmp/my suite' 'a'"'"';rm -rf /' --html repro.html"""
    )
