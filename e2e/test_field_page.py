"""The page that docs/field.md has to copy, with the commands around it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pages import PLAIN, Opened
from tapml.field.service.serving import FieldServer

TEXT = (Path(__file__).parents[1] / "docs" / "field.md").read_text()


@pytest.mark.slow
def test_the_page_to_copy_runs_the_task_that_the_commands_before_it_release(tmp_path: Path, opened: Opened) -> None:
    part = TEXT.split("From one folder:\n")[1].split("A version's files are")[0]
    publish, release = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    key = _ran(publish, tmp_path).split()[0]
    # The server runs until it is stopped: this process starts it, on a free port.
    plan, command, serve = release.splitlines()
    assert serve == "tapml field serve group --pages site"
    _ran(f"{plan}\n{command}", tmp_path)
    (tmp_path / "site").mkdir()
    for language, name in (("html", "index.html"), ("js", "page.js")):
        (file,) = re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)
        (tmp_path / "site" / name).write_text(file.replace("PUBLIC_KEY", key))
    group = tmp_path / "group"
    with FieldServer(group, group / "field.sqlite3", pages=tmp_path / "site") as field, opened(PLAIN) as page:
        page.goto(f"{field.url}/pages/")
        expect(page.locator("#said")).to_have_text("a task")


def _ran(commands: str, folder: Path) -> str:
    """Standard output."""
    who = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder,
        env={**os.environ, **who, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
