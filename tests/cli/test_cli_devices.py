"""`--device`: what a running server has, by its address, and by a device's name or id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from helpers import FakeRunner, all_pass
from tapml.cli import main
from tapml.errors import InputError
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
         "Twin 3 (twin-3), Twin 3 (twin-3-2)), or chromium, firefox"),
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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["validate", "--device", "Nobody 9"], "'Nobody 9': give the name or id of a connected device (none)"),
        (["validate", "--device", "http://127.0.0.1:1"], "cannot reach a tapml server at http://127.0.0.1:1"),
        (["validate", "--device", "deno", "--device", "http://x"], "give a device of a running server (http://x) as"),
        (["reduce", "n000.s0", "--device", "http://x"], "the devices of another server (http://x) take only"),
        (["offload", "--device", "deno", "--device", "node-dawn"], "offload runs on one device at a time: give one"),
        (["test", "--device", "http://x"], "--device http://x: give chromium"),
        (["validate", "--hang-seconds", "0"], "0: give seconds, more than 0"),
        (["validate", "--hang-seconds", "nan"], "nan: give seconds, more than 0"),
    ],
)  # fmt: skip
def test_what_no_device_is_is_said(
    suite: Suite,
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tapml.cli.runs.DEFAULT_SERVER", "http://127.0.0.1:1")  # nobody listens there
    try:
        code = main([arguments[0], str(suite.path), *arguments[1:]])
    except SystemExit as stop:  # argparse
        code = int(stop.code or 0)
    assert code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
