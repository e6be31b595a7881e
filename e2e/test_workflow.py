"""The Linux part of the workflow in docs/ci.md, step by step, as GitHub would run it."""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import off_by_one, read_json

ROOT = Path(__file__).parents[1]
KERNELS = ("layer_norm", "softmax", "cast", "take")


def workflow() -> dict[str, Any]:
    text = (ROOT / "docs" / "ci.md").read_text()
    (found,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return dict(yaml.safe_load(found))


@pytest.fixture
def repository(suite: Path, tmp_path: Path) -> Path:
    """What a user's checkout holds: suites (here one of a few kernels), tapml's wheel."""
    folder = tmp_path / "repository"
    (folder / "suites").mkdir(parents=True)
    document = read_json(suite / "tests.json")
    document["tests"] = [test for test in document["tests"] if test["kernel"] in KERNELS]
    (suite / "tests.json").write_text(json.dumps(document))
    suite.rename(folder / "suites" / "minilm.suite")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "wheels", ROOT]
    subprocess.run(wheel, check=True, timeout=900)
    return folder


def reported(page: Path) -> Any:
    """The document inside an HTML report."""
    (packed,) = re.findall(r'<script type="text/plain" id="data">([^<]*)<', page.read_text())
    return json.loads(gzip.decompress(base64.b64decode(packed)))["document"]


class Runner:
    """A machine of GitHub's: its own Python, its environment, no checkout of tapml in sight."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._folder = folder
        self._programs = home / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True, timeout=900)
        if shutil.which("sudo") is None:
            sudo = self._programs / "sudo"
            sudo.write_text('#!/bin/sh\nexec "$@"\n')
            sudo.chmod(0o755)
        self.summary = home / "summary.md"
        self.environment = {
            **{key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "PATH": f"{self._programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "CI": "true",
            "PIP_NO_COMPILE": "1",  # of all that it installs little is loaded
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(folder),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """As `run:` does: bash, and the first command that fails ends it."""
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(
            command, cwd=self._folder, env=self.environment, capture_output=True, text=True, timeout=900
        )


@pytest.mark.slow
def test_the_linux_part_of_the_workflow(repository: Path, tmp_path: Path) -> None:
    job = workflow()["jobs"]["linux"]
    shards = job["strategy"]["matrix"]["shard"]
    steps = [step for step in job["steps"] if "run" in step]
    runner = Runner(repository, tmp_path)
    setup, operators = steps[:-1], steps[-1]
    for step in setup:
        done = runner.run(step["run"])
        assert done.returncode == 0, f"{step['name']}: {done.stdout}{done.stderr}"

    # As the page says: what fails today is written down once.
    kernel = repository / "suites" / "minilm.suite" / "kernels" / "layer_norm.wgsl"
    kernel.write_text(off_by_one(kernel.read_text()))
    record = (
        "tapml test suites/*.suite --device chromium --device firefox --kernel layer_norm "
        "--baseline tapml-baseline.json --update-baseline --reason 'issue 7'"
    )
    done = runner.run(record)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {entry["reason"] for entry in read_json(repository / "tapml-baseline.json")["expected"]} == {"issue 7"}

    seen: list[tuple[str, str]] = []
    for shard in shards:
        script = operators["run"].replace("${{ matrix.shard }}", str(shard))
        assert "${{" not in script
        done = runner.run(script)
        assert done.returncode == 0, done.stdout + done.stderr
        results = repository / "results"
        document = read_json(results / "tapml.json")
        names = {device["id"]: device["requested"] for device in document["devices"]}
        assert set(names.values()) == {"chromium", "firefox"}
        seen += [(names[test["device"]], test["id"]) for test in document["tests"]]
        cases = ET.parse(results / "junit.xml").getroot().iter("testcase")
        assert sum(1 for _ in cases) == len(document["tests"])
        assert reported(results / "report.html") == document
    tests = {test["id"] for test in read_json(repository / "suites" / "minilm.suite" / "tests.json")["tests"]}
    assert sorted(seen) == sorted((name, test) for name in ("chromium", "firefox") for test in tests)
    assert "layer_norm" in html.unescape(runner.summary.read_text())

    # What nobody expects makes it red, at the kernel's file.
    softmax = repository / "suites" / "minilm.suite" / "kernels" / "softmax.wgsl"
    softmax.write_text(softmax.read_text().replace("exp(", "exp(0.5f + ", 1))
    codes = []
    for shard in shards:
        done = runner.run(operators["run"].replace("${{ matrix.shard }}", str(shard)))
        codes.append(done.returncode)
        if done.returncode:  # the other shard has the same or nothing of it to say
            assert re.search(r"^::error .*file=suites/minilm\.suite/kernels/softmax\.wgsl", done.stdout, re.MULTILINE)
            assert "kernels/layer_norm.wgsl" not in "".join(re.findall(r"^::error .*$", done.stdout, re.MULTILINE))
            break
    assert codes in ([1], [0, 1])
