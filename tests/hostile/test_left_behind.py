"""What killed processes leave goes with the next run, and commands and pages tell what they leave out."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tapml.cli import main
from tapml.errors import InputError
from tapml.program import Graph
from tapml.program.program import Program
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.suite import Suite, SuiteWriter

_HALF = """
import os, sys
from pathlib import Path
import numpy as np
from tapml.suite import SuiteWriter
writer = SuiteWriter(Path(sys.argv[1]), overwrite=True)
writer.tensors.put(np.ones(1000))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_killed_carve_leaves_nothing_for_good(suite: Suite) -> None:
    place = suite.path.parent
    with subprocess.Popen(
        [sys.executable, "-c", _HALF, str(suite.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with SuiteWriter(suite.path, overwrite=True):
            assert len(list(place.iterdir())) == 3, "the living one's stays"
        process.send_signal(signal.SIGKILL)
    assert len(list(place.iterdir())) == 2
    with SuiteWriter(suite.path, overwrite=True):
        pass
    assert list(place.iterdir()) == [suite.path]


_ENDED = """
import sys, time
from pathlib import Path
import tapml.cli.commands as commands
from tapml.cli import main
from tapml.leftovers import temporary_folder

def waits(*_):
    with temporary_folder(Path(sys.argv[1])) as folder:
        (folder / "kernels").mkdir()
        print("ready", flush=True)
        time.sleep(60)

commands.carve = waits
sys.exit(main(["carve", "minilm", "-o", "x.suite"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_carve_that_is_ended_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _ENDED, str(tmp_path / "x.suite")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert said.decode().splitlines() == [
        "tapml: interrupted" if number == signal.SIGINT else f"tapml: ended by {number.name}"
    ]
    assert not list(tmp_path.iterdir())


def test_a_suite_that_cannot_take_its_place_leaves_the_one_before(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = Path.replace

    def fails(self: Path, target: Path) -> Path:
        if self.name.endswith(".tapml") and target == suite.path:
            raise OSError(28, "No space left on device")
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    nothing = Program.of(Graph({}, [], (), ()))
    with pytest.raises(InputError, match="No space left"), SuiteWriter(suite.path, overwrite=True) as writer:
        writer.finish({**suite.manifest, "steps": [], "parameters": {}, "arguments": []}, nothing, [], {})
    assert Suite(suite.path).tests
    assert list(suite.path.parent.iterdir()) == [suite.path]


def test_what_is_left_out_is_told(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    folder = suite.path / "results"
    folder.mkdir(exist_ok=True)
    (folder / "validation.Fake-1.json").write_text('{"format": "tapml.validation/1", "devices": 3}')
    test = suite.tests[0].id
    for arguments in (["show"], ["export", "-"], ["share"]):
        command, *rest = arguments
        more = [test, "--markdown", *rest] if command == "export" else [test] if command == "share" else []
        assert main([command, str(suite.path), *more]) == 0
        said = capsys.readouterr()
        assert "validation.Fake-1.json" in (said.out + said.err).replace("\n", "")
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    name = state.suites.add(suite.path)
    found = create_app(state).test_client().get(f"/api/suites/{name}/results").json
    (problem,) = found["problems"]
    assert "validation.Fake-1.json: suite: Field required" in problem
    assert found["validations"] == []
    state.close()


def test_no_descriptor_is_left_open(suite: Suite) -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        folder = Path("/dev/fd")
    gc.collect()  # what other tests left to it is not closed while this one counts
    before = len(list(folder.iterdir()))
    for _ in range(3):
        found = Suite(suite.path)
        found.verify()
        assert found.edited_kernels == []
        found.folder.write("results/validation.x.json", b"{}")
        assert found.results("validation") == []
        found.nbytes()
    assert len(list(folder.iterdir())) == before
