"""docs/adding-an-operator.md, from its first line of code to its last command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tapml.kernels.document import FORMAT

_PAGE = Path(__file__).parents[2] / "docs" / "adding-an-operator.md"


def test_the_documented_kernel_is_of_the_format_that_is_written() -> None:
    assert {*re.findall(r"tapml\.kernel/\d+", _PAGE.read_text())} == {FORMAT}


@pytest.mark.torch
@pytest.mark.slow
def test_the_documented_operator_is_carved_offloaded_alone_and_located(tmp_path: Path) -> None:
    page = _PAGE.read_text()
    for name, text in re.findall(r"`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert {path.name for path in tmp_path.rglob("*.*")} == {"wkv.py", "export.py", "wkv.wgsl", "wkv.json"}
    commands = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    said = [_run(command, tmp_path) for command in commands]
    exported, carved, validated, offloaded, edited, located = said
    assert [code for code, _ in (exported, carved, validated, offloaded, edited)] == [0] * 5, said
    assert re.search(r"oracle +torch \S+ agrees", carved[1])
    assert "38 of 38 operator calls held against its own values" in carved[1]
    assert "2 tests: 2 pass" in validated[1]
    assert re.search(r"wkv +2 +✓ pass +1\.0000\d+ +\S+ +2/38 nodes", offloaded[1])
    assert located[0] == 1
    assert "1 faulty kernel: wkv" in located[1]
    assert "first [0, 2, 0]" in located[1], "the third token"


def _run(command: str, folder: Path) -> tuple[int, str]:
    """Exit code and standard output, or why it ended otherwise."""
    shown = {**os.environ, "COLUMNS": "160"}
    program = {"python": [sys.executable], "tapml": [sys.executable, "-m", "tapml"], "sed": ["sed"]}
    name, *rest = re.findall(r"'[^']*'|\S+", command)
    arguments = [*program[name], *(part.strip("'") for part in rest)]
    ran = subprocess.run(arguments, cwd=folder, env=shown, capture_output=True, text=True, timeout=500)
    return ran.returncode, ran.stdout + (ran.stderr if ran.returncode == 2 else "")
