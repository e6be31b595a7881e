"""`--device`: what a running server has, by its address, and by a device's name or id."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import FakeRunner, all_pass
from made_runs import answering, failing
from tapml.cli import main
from tapml.errors import InputError
from tapml.history import open_history
from tapml.server import Server
from tapml.suite import Suite


@pytest.fixture
def server(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """It listens where `tapml serve` would."""
    with Server([suite.path]) as started:
        monkeypatch.setattr("tapml.cli.runs.DEFAULT_SERVER", started.url)
        yield started


def join(server: Server, name: str, **changes: Any) -> FakeRunner:
    return FakeRunner(server.state.hub, all_pass, name, **changes)


@pytest.mark.parametrize("command", [["validate"], ["locate", "--no-model"]])
def test_hang_seconds_arrive_at_a_running_servers_device(server: Server, suite: Suite, command: list[str]) -> None:
    runner = join(server, "Fake 1")
    assert main([command[0], str(suite.path), *command[1:], "--device", server.url, "--hang-seconds", "7.5"]) == 0
    assert {call["hang_seconds"] for call in runner.calls} == {7.5}


@pytest.mark.parametrize(
    "device", ["Other 2", "other-2", "OTHER 2", "{url}#Other 2", "{url}/#Other%202", "{url}#other-2"]
)
def test_a_connected_device_is_chosen_by_name_or_id(server: Server, suite: Suite, device: str) -> None:
    first, second = join(server, "Fake 1"), join(server, "Other 2")
    assert main(["validate", str(suite.path), "--device", device.format(url=server.url)]) == 0
    assert not first.calls
    assert second.calls


def test_a_name_that_is_unknown_or_of_several_is_one_sentence(
    server: Server, suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    runners = [join(server, name) for name in ("Fake 1", "Twin 3", "Twin 3")]
    for device, sentence in (
        ("Nobody 9", "no device 'Nobody 9': give the name or id of a connected device (Fake 1 (fake-1), "
         "Twin 3 (twin-3), Twin 3 (twin-3-2)), or one of chromium, firefox"),
        ("Twin 3", "2 connected devices are called Twin 3: give the id of one, twin-3, twin-3-2"),
    ):  # fmt: skip
        for given in (device, f"{server.url}#{device}"):
            assert main(["validate", str(suite.path), "--device", given]) == 2
            assert sentence in capsys.readouterr().err
        with pytest.raises(InputError) as error:
            server.state.device(device)
        assert sentence in str(error.value)
    assert not any(runner.calls for runner in runners)
    assert server.state.device("twin-3-2") is runners[2].device


def run_tests(suite: Suite, folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of `tapml test`."""
    out = folder / "run.json"
    code = main(["test", str(suite.path), "--json", str(out), *arguments])
    return code, json.loads(out.read_text())


def test_a_run_has_devices_of_a_running_server_beside_its_own(server: Server, suite: Suite, tmp_path: Path) -> None:
    kernel = suite.kernels[0]
    unlucky = [test.id for test in suite.tests if test.kernel == kernel]
    answering(server.state.hub, "Twin 3", lambda name, _, attempt: failing() if name == kernel and attempt < 2 else {})
    answering(server.state.hub, "Twin 3", lambda name, _, attempt: failing() if name == kernel else {})
    addresses = [f"{server.url}/?token=secret#twin-3", f"{server.url}#twin-3-2"]
    devices = [argument for address in addresses for argument in ("--device", address)]
    code, found = run_tests(suite, tmp_path, *devices, "--retries", "1", "--hang-seconds", "7.5")
    assert code == 1
    assert [device["requested"] for device in found["devices"]] == [f"{server.url}#twin-3", f"{server.url}#twin-3-2"]
    assert "secret" not in json.dumps(found), "a report may be published"
    assert found["summary"]["total"] == 2 * len(suite.tests)
    attempts = {(test["device"], test["id"]): test["attempts"] for test in found["tests"]}
    for test in suite.tests:
        bad = test.id in unlucky
        assert attempts["twin-3", test.id] == (["fail", "pass"] if bad else ["pass"])
        assert attempts["twin-3-2", test.id] == (["fail", "fail"] if bad else ["pass"])
    history = open_history(Suite(suite.path))
    assert history.trends()["runs"] == 1, "recorded by the run, not by the server too"


def test_like_devices_of_two_servers_are_told_apart(server: Server, suite: Suite, tmp_path: Path) -> None:
    join(server, "Fake 1")
    with Server([suite.path]) as other:
        join(other, "Fake 1")
        code, found = run_tests(suite, tmp_path, "--device", server.url, "--device", f"{other.url}#Fake 1")
    assert code == 0
    assert [device["id"] for device in found["devices"]] == ["fake-1", "fake-1-2"]
    assert {test["device"] for test in found["tests"]} == {"fake-1", "fake-1-2"}


def test_a_server_that_is_not_there_leaves_the_others_their_tests(server: Server, suite: Suite, tmp_path: Path) -> None:
    join(server, "Fake 1")
    gone = "http://127.0.0.1:1#deno"
    code, found = run_tests(suite, tmp_path, "--device", gone, "--device", "Fake 1")
    assert code == 1
    nobody, there = found["devices"]
    assert nobody["requested"] == gone
    assert "cannot reach a tapml server" in nobody["unavailable"]
    assert (there["requested"], there["unavailable"]) == ("Fake 1", None)
    verdicts = {device["id"]: set() for device in found["devices"]}
    for test in found["tests"]:
        verdicts[test["device"]].add(test["verdict"])
    assert verdicts == {nobody["id"]: {"unsupported"}, "fake-1": {"pass"}}


def test_a_server_that_does_not_serve_the_suite_is_an_error_of_its_tests(suite: Suite, tmp_path: Path) -> None:
    with Server() as empty:
        join(empty, "Fake 1")
        code, found = run_tests(suite, tmp_path, "--device", empty.url)
    assert code == 1
    assert {test["verdict"] for test in found["tests"]} == {"error"}
    assert f"{empty.url} does not serve {suite.path}" in found["tests"][0]["message"]


def test_of_copies_the_one_with_the_same_kernels_is_taken(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited, unlike = tmp_path / "edited.suite", tmp_path / "unlike.suite"
    for copy in (edited, unlike):
        shutil.copytree(suite.path, copy)
        _edit(copy, f"// {copy.name}")
    with Server([edited, unlike, suite.path]) as server:
        join(server, "Fake 1")
        ids = dict(zip((edited, unlike, suite.path), server.suite_ids, strict=True))
        for path in (suite.path, unlike, edited):
            assert (
                main(["locate", str(path), "--no-model", "--device", server.url, "--json", str(tmp_path / "f.json")])
                == 0
            )
            found = json.loads((tmp_path / "f.json").read_text())
            assert found["edited_kernels"] == Suite(path).edited_kernels
            assert server.state.suites.require(ids[path]).results("locate")
    _edit(suite.path, "// here")
    with Server([edited]) as server:
        join(server, "Fake 1")
        assert main(["validate", str(suite.path), "--device", server.url]) == 2
    kernel = suite.kernels[0]
    said = f"with other kernels (edited there: edited: {kernel}; here: {kernel}): copy them there, or start it with"
    assert said in " ".join(capsys.readouterr().err.split())


def _edit(path: Path, comment: str) -> None:
    suite = Suite(path)
    file = path / "kernels" / suite.kernel_files(suite.kernels[0])[0].name
    file.write_text(f"{file.read_text()}{comment}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["validate", "--device", "Nobody 9"], "'Nobody 9': give the name or id of a connected device (none)"),
        (["validate", "--device", "http://127.0.0.1:1"], "cannot reach a tapml server at http://127.0.0.1:1"),
        (["validate", "--device", "deno", "--device", "http://x"], "give a device of a running server (http://x) as"),
        (["reduce", "n000.s0", "--device", "http://127.0.0.1:1"], "cannot reach a tapml server at http://127.0.0.1:1"),
        (["offload", "--device", "deno", "--device", "node-dawn"], "offload runs on one device at a time: give one"),
        (["test", "--device", "Nobody 9"], "--device Nobody 9: give chromium"),
        (["test", "--device", "http://["], "http://[ is no address of a server"),
        (["validate", "--hang-seconds", "0"], "0: give seconds, more than 0"),
        (["validate", "--hang-seconds", "nan"], "nan: give seconds, more than 0"),
    ],
)  # fmt: skip
def test_what_no_device_is_is_said(
    suite: Suite,
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        code = main([arguments[0], str(suite.path), *arguments[1:]])
    except SystemExit as stop:  # argparse
        code = int(stop.code or 0)
    assert code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["validate", "test"])
def test_the_first_interrupt_ends_the_wait_for_a_browser(
    suite: Suite, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        while signal.getsignal(signal.SIGINT) is before:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert main([command, str(suite.path), "--device", "open"]) == 130
    assert "interrupted" in capsys.readouterr().err
