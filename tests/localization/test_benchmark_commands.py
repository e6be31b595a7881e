"""What every benchmark's command does before its work, and when it is interrupted."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.pages import between
from benchmarks.processes import running

BENCHMARKS = [
    "benchmarks.onnx_nodes",
    "benchmarks.onnx_nodes.browsers",
    "benchmarks.onnx_models",
    "benchmarks.torch_models",
    "benchmarks.references",
    "benchmarks.memory_plan",
    "benchmarks.loads",
    "benchmarks.whole_models.llama",
    "benchmarks.localization.run",
    "benchmarks.localization.explanations",
]


@pytest.mark.parametrize("module", BENCHMARKS)
def test_a_page_that_cannot_be_written_is_told_before_the_work(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    unmarked = tmp_path / "unmarked.md"
    unmarked.write_text("# A page\n")
    binary = tmp_path / "binary.md"
    binary.write_bytes(b"\xff\xfe\x80")
    said = {
        tmp_path / "none.md": "No such file",
        unmarked: "has no marks <!-- ",
        binary: "no text",
        tmp_path: "directory",
    }
    for path, why in said.items():
        monkeypatch.setattr(sys, "argv", [module, "--docs", str(path)])
        for name in (module, f"{module}.__main__"):  # another test may have imported it
            monkeypatch.delitem(sys.modules, name, raising=False)
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__")
        assert ended.value.code == 2
        *_, line = capsys.readouterr().err.strip().splitlines()
        assert f"--docs {path}: " in line
        assert why in line
    assert {path.name for path in tmp_path.iterdir()} == {"unmarked.md", "binary.md"}, "nothing was begun"


def test_a_page_keeps_what_is_around_its_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end of x -->\nb\n")
    between(page, "x", "new")
    assert page.read_text() == "a\n<!-- x -->\n\nnew\n\n<!-- end of x -->\nb\n"


CHILD = """
import signal, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(grandchild.pid, flush=True)
{}
time.sleep(600)
"""


@pytest.mark.parametrize("child", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN)"], ids=["ends", "deaf"])
def test_nothing_runs_on_after_a_benchmark_was_interrupted(child: str) -> None:
    started: list[subprocess.Popen[str]] = []

    def interrupted() -> None:
        with running([sys.executable, "-c", CHILD.format(child)], os.environ, patience=0.5) as process:
            assert process.stdout
            grandchildren.append(int(process.stdout.readline()))
            started.append(process)
            raise KeyboardInterrupt

    grandchildren: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (process,), (grandchild,) = started, grandchildren
    assert process.returncode is not None
    for _ in range(100):
        if not _runs(grandchild):
            break
        time.sleep(0.05)
    assert not _runs(grandchild)


def _runs(pid: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(found.stdout.strip()) and "Z" not in found.stdout
