"""Sessions: one call at a time, progress, replies, downloads, lost and returning devices."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from helpers import FakeRunner, hello
from tapml.devices import DeviceHub
from tapml.devices.protocol import ProtocolError
from tapml.errors import DeviceError, DeviceLost


def test_a_call_gives_its_result_and_progress() -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.device.progress(message["call"], {"kind": "compile", "done": 1})
        runner.finish(message, answer=42)

    seen: list[dict[str, Any]] = []
    device = FakeRunner(DeviceHub(), answer).device
    assert device.call("ping", {}, on_progress=seen.append).result == {"answer": 42}
    assert seen == [{"kind": "compile", "done": 1}]


def test_downloads_belong_to_the_running_call_and_are_bounded() -> None:
    hub = DeviceHub()

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        found = hub.of_call(message["call"])
        assert found is not None
        limit, put = found
        assert limit == 4
        put(b"data")
        runner.finish(message)

    assert FakeRunner(hub, answer).device.call("execute", {}, download_bytes=4).downloads == b"data"
    assert hub.of_call("some other call") is None


def test_a_reply_to_another_call_is_ignored() -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.device.reply("guessed", {"ok": True, "result": {"forged": True}})
        runner.finish(message, forged=False)

    assert FakeRunner(DeviceHub(), answer).device.call("ping", {}).result == {"forged": False}


def test_an_error_keeps_its_kind_and_text() -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        error = {"kind": "out-of-memory", "message": "no 4 GB on this device"}
        runner.device.reply(message["call"], {"ok": False, "error": error})

    with pytest.raises(DeviceError, match="no 4 GB") as caught:
        FakeRunner(DeviceHub(), answer).device.call("execute", {})
    assert caught.value.kind == "out-of-memory"


def test_a_vanished_device_fails_its_call_at_once() -> None:
    device = FakeRunner(DeviceHub(), lambda message, runner: runner.vanish()).device
    started = time.monotonic()
    with pytest.raises(DeviceLost, match="device lost: Fake 1"):
        device.call("ping", {})
    assert time.monotonic() - started < 2
    with pytest.raises(DeviceLost, match="not connected any more"):
        device.call("ping", {})


def test_a_silent_device_is_given_up() -> None:
    device = FakeRunner(DeviceHub(), lambda message, runner: None).device
    with pytest.raises(DeviceError, match="gave no sign"):
        device.call("ping", {}, timeout=0.1)


def test_a_returning_device_keeps_its_id() -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, lambda message, runner: runner.finish(message))
    runner.vanish()
    assert hub.connected() == []
    back = hub.hello(hello(resume=runner.device.id), lambda event, message: None, "new connection")
    assert back is runner.device
    assert back.connected


def test_ids_are_made_of_names_and_unique_among_the_connected() -> None:
    hub = DeviceHub()
    runners = [FakeRunner(hub, lambda message, runner: runner.finish(message), "Fire Fox 153") for _ in range(2)]
    assert [runner.device.id for runner in runners] == ["fire-fox-153", "fire-fox-153-2"]
    runners[0].vanish()
    again = FakeRunner(hub, lambda message, runner: runner.finish(message), "Fire Fox 153")
    assert again.device.id == "fire-fox-153"
    assert again.device.call("ping", {}).result == {}


def test_nobody_takes_over_a_connected_device() -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, lambda message, runner: runner.finish(message))
    other = hub.hello(hello(resume=runner.device.id), lambda event, message: None, "stranger")
    assert other is not runner.device


def test_waiting_ends_when_the_device_comes() -> None:
    hub = DeviceHub()
    timer = threading.Timer(0.2, lambda: FakeRunner(hub, lambda message, runner: None))
    timer.start()
    device = hub.wait_for(lambda d: d.name == "Fake 1", 10)
    assert device is not None
    assert hub.wait_for(lambda d: d.name == "Other", 0.1) is None


@pytest.mark.parametrize(
    "message",
    [None, [], "hello", {}, hello(protocol=2), hello(name=None), hello(features="all"), hello(limits={"x": "big"}),
     hello(limits={"x": float("inf")}), hello(adapter=3), hello(resume=7)],
)  # fmt: skip
def test_a_malformed_hello_is_refused(message: Any) -> None:
    with pytest.raises(ProtocolError):
        DeviceHub().hello(message, lambda event, body: None, "c")
