"""What `tapml show` prints fits its terminal, and what a mistyped name is told."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tapml.cli.main import main
from tapml.errors import InputError
from tapml.reports.console import SafeConsole
from tapml.reports.terminal import fitting, show_suite
from tapml.sharing import load_repro
from tapml.suite import Suite


def shown(suite: Suite, width: int, *, tests: bool = False) -> list[str]:
    file = io.StringIO()
    show_suite(
        SafeConsole(file, width=width, soft_wrap=True, force_terminal=True, color_system=None), suite, tests=tests
    )
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_or_ends_in_spaces(suite: Suite, width: int) -> None:
    lines = shown(suite, width, tests=True)
    assert [line for line in lines if len(line) > width] == []
    assert [line for line in lines if line != line.rstrip()] == []
    assert any(line.startswith("compiler ") for line in lines)


def test_all_ids_are_told_when_asked_for(suite: Suite) -> None:
    words = {word for line in shown(suite, 80, tests=True) for word in line.split()}
    assert {test.id for test in suite.tests} <= words


def test_ids_fill_their_line_and_the_others_are_counted() -> None:
    ids = [f"n{number:03}.s0" for number in range(9)]
    assert fitting(ids, 200) == "n000.s0 n001.s0 n002.s0 n003.s0 and 5 more"
    assert fitting(ids, 30) == "n000.s0 n001.s0 and 7 more"
    assert fitting(ids, 5) == "n000.s0 and 8 more"
    assert fitting(ids[:2], 200) == "n000.s0 n001.s0"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["show", "{tmp}/mine.suit"], "did you mean mine.suite? make it"),
        (["generate", "tinny", "--prompt", "a"], "tinny does not exist, did you mean tiny? give"),
        (["device", "chromum"], "there is no device 'chromum' that this machine can start, did you mean chromium?"),
        (["demo", "--device", "node-down", "-o", "{tmp}/none"], "did you mean node-dawn?"),
        (["validate", "{tmp}/mine.suite", "--json", "{tmp}"], "cannot write {tmp}: it is a folder"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_before_the_work(
    command: list[str], said: str, tmp_path: Path, suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.suite").symlink_to(suite.path)
    (tmp_path / "mine.suit.txt").touch()
    assert main([word.format(tmp=tmp_path) for word in command]) == 2
    read = capsys.readouterr()
    assert said.format(tmp=tmp_path) in read.err
    assert not read.out


def test_import_names_the_file_that_was_given(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.touch()
    with pytest.raises(InputError, match=r"mine\.py is the script of a test whose tensors, mine\.safetensors, are not"):
        load_repro(script)
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:8808/s/abc is a link: open it"):
        load_repro(Path("http://127.0.0.1:8808/s/abc"))
