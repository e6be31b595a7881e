"""Sessions: one call at a time, progress, replies, downloads, lost and returning devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from helpers import FakeRunner, hello
from tapml.devices import DeviceHub
from tapml.errors import DeviceError, DeviceLost
from tapml.program import TensorType
from tapml.protocol.methods import ExecuteParams, PingParams, PingResult, ValidateParams
from tapml.protocol.session import EXECUTE, PING, VALIDATE, Refusal, Welcome
from tapml.validation.events import Cancel, Cancelled

NOTHING = ExecuteParams(commands=[], timing=False)
NO_TESTS = ValidateParams(kernels=[], tests=[])
COMPILE = {"kind": "compile", "kernel": "add", "done": 1, "total": 2, "seconds": 0.5}


def done(message: dict[str, Any], runner: FakeRunner) -> None:
    runner.finish(message)


def silent(message: dict[str, Any], runner: FakeRunner) -> None:
    """Takes the call and says nothing."""


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A call in a thread; its result, or what it raised, is in the list."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except DeviceError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def until(condition: Callable[[], bool], seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_call_gives_its_result_and_progress() -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.progress(message, COMPILE)
        runner.progress(message, {"kind": "alive", "doing": "compiling add"})
        runner.finish(message, downloads=[4])

    seen: list[Any] = []
    device = FakeRunner(DeviceHub(), answer).device
    assert device.call(EXECUTE, NOTHING, on_progress=seen.append).result.downloads == [4]
    assert [progress.model_dump() for progress in seen] == [COMPILE]


def test_downloads_belong_to_the_running_call_and_are_bounded() -> None:
    hub = DeviceHub()

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        call = hub.of_call(message["call"])
        assert call is not None
        assert call.download_limit == 4
        call.downloads = b"data"
        runner.finish(message)

    (array,) = FakeRunner(hub, answer).device.execute([], [TensorType((4,), "uint8")]).arrays
    assert array.tobytes() == b"data"
    assert hub.of_call("some other call") is None


def test_a_reply_to_another_call_is_ignored() -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.device.reply({"call": "guessed", "number": 0, "ok": False})
        runner.finish(message)

    assert FakeRunner(DeviceHub(), answer).device.call(PING, PingParams()).result == PingResult()


def test_an_error_keeps_its_kind_and_text() -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.fail(message, kind="out-of-memory", message="no 4 GB on this device")

    with pytest.raises(DeviceError, match="no 4 GB") as caught:
        FakeRunner(DeviceHub(), answer).device.execute([])
    assert caught.value.kind == "out-of-memory"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"progress": {"kind": "verdict"}}, "malformed Progress"),
        ({"progress": {**COMPILE, "extra": 1}}, "extra"),
        ({"progress": {**COMPILE, "done": "one"}}, r"progress\.compile\.done"),
        ({"number": 7}, "left out messages"),
        ({"number": -1}, "number"),
    ],
)
def test_a_malformed_message_ends_its_call_and_no_other(changes: dict[str, Any], what: str) -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        if message["method"] == "ping":
            runner.finish(message)
        else:
            runner.device.progress({"call": message["call"], "number": 0, "progress": COMPILE, **changes})

    device = FakeRunner(DeviceHub(), answer).device
    with pytest.raises(DeviceError, match=what) as caught:
        device.call(VALIDATE, NO_TESTS)
    assert caught.value.kind == "protocol"
    assert device.call(PING, PingParams()).result == PingResult()


def test_a_malformed_result_is_an_error() -> None:
    with pytest.raises(DeviceError, match="malformed result: downloads"):
        FakeRunner(DeviceHub(), lambda m, r: r.finish(m, downloads="many")).device.execute([])


def test_a_device_that_left_fails_its_call_at_once() -> None:
    device = FakeRunner(DeviceHub(), lambda message, runner: runner.vanish()).device
    device.grace_seconds = 1e6  # nobody waits for it
    with pytest.raises(DeviceLost, match="device lost: Fake 1: its page was closed"):
        device.call(PING, PingParams())
    with pytest.raises(DeviceLost, match="its page was closed"):
        device.call(PING, PingParams())


def test_a_cut_connection_is_waited_for_and_loses_nothing() -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, silent)
    seen: list[Any] = []
    thread, outcome = in_background(lambda: runner.device.call(VALIDATE, NO_TESTS, on_progress=seen.append))
    until(lambda: bool(runner.calls))
    (message,) = runner.calls
    runner.progress(message, COMPILE)
    runner.cut()
    assert runner.device.connected
    welcome = runner.come_back(message["call"])
    assert welcome.device == runner.welcome.device
    assert welcome.calls == {message["call"]: 1}
    # What arrived before the cut may come once more; it counts once.
    runner.device.progress({"call": message["call"], "number": 0, "progress": COMPILE})
    runner.progress(message, {**COMPILE, "done": 2})
    runner.finish(message)
    thread.join(60)
    assert outcome[0].result.seconds.total == 0
    assert [progress.done for progress in seen] == [1, 2]
    assert len(runner.calls) == 1


def test_a_call_that_was_lost_on_its_way_is_sent_again() -> None:
    runner = FakeRunner(DeviceHub(), lambda message, r: r.finish(message) if len(r.calls) > 1 else None)
    thread, outcome = in_background(lambda: runner.device.call(PING, PingParams()))
    until(lambda: bool(runner.calls))
    runner.cut()
    runner.come_back()
    thread.join(60)
    assert outcome[0].result == PingResult()
    assert runner.calls[0] == runner.calls[1]


def test_a_call_waits_for_a_device_that_is_away() -> None:
    runner = FakeRunner(DeviceHub(), done)
    runner.cut()
    thread, outcome = in_background(lambda: runner.device.call(PING, PingParams()))
    time.sleep(0.3)
    assert not outcome
    runner.come_back()
    thread.join(60)
    assert outcome[0].result == PingResult()


def test_a_device_that_stays_away_is_given_up() -> None:
    runner = FakeRunner(DeviceHub(), silent)
    runner.device.grace_seconds = 0.3
    thread, outcome = in_background(lambda: runner.device.call(PING, PingParams()))
    until(lambda: bool(runner.calls))
    runner.cut()
    thread.join(60)
    assert isinstance(outcome[0], DeviceLost)
    assert "its connection broke" in str(outcome[0])
    assert not runner.device.connected
    # Too late: it starts anew, under the same name and another secret.
    late = runner.come_back(runner.calls[0]["call"])
    assert late.device == runner.welcome.device
    assert late.session != runner.welcome.session
    assert late.calls == {}


def test_a_silent_device_is_given_up_and_reported_as_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.devices.device._SILENCE_SECONDS", 0.2)
    device = FakeRunner(DeviceHub(), silent).device
    hung: list[bool] = []
    device.on_hung = lambda: hung.append(True)
    with pytest.raises(DeviceError, match="gave no sign"):
        device.call(PING, PingParams(), hang_seconds=0.05)
    assert hung == [True]


@pytest.mark.parametrize("runtime", ["deno", "browser"])
def test_a_device_that_falls_silent_while_it_compiles_names_the_last_kernel_it_announced(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapml.devices.device._COMPILING_GRACE_SECONDS", 0.1)
    monkeypatch.setattr("tapml.devices.device._SILENCE_SECONDS", 0.5)

    def block(message: dict[str, Any], runner: FakeRunner) -> None:
        for kernel in ("first", "second", "third"):
            runner.progress(message, {"kind": "compiling", "kernel": kernel})
        # Ends come in any order.
        runner.progress(message, {"kind": "compile", "kernel": "third", "done": 1, "total": 3, "seconds": 0.1})

    device = FakeRunner(DeviceHub(), block, runtime=runtime).device
    hung: list[bool] = []
    device.on_hung = lambda: hung.append(True)
    with pytest.raises(DeviceLost) as caught:
        device.call(VALIDATE, NO_TESTS, hang_seconds=0.1)
    assert caught.value.lost_reason == "hung"
    assert hung == [True]
    if runtime == "browser":  # the GPU's work is another process's: it is something else that hangs
        assert caught.value.kernel is None
    else:
        assert caught.value.kernel == "second"
        assert "compiling kernel second did not end within 0.1 s" in caught.value.summary


def test_a_device_that_falls_silent_when_all_is_compiled_accuses_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.devices.device._COMPILING_GRACE_SECONDS", 0.1)
    monkeypatch.setattr("tapml.devices.device._SILENCE_SECONDS", 0.5)

    def hang_later(message: dict[str, Any], runner: FakeRunner) -> None:
        # Of a call before this one.
        runner.progress(message, {"kind": "compiling", "kernel": "earlier"})
        runner.progress(message, {"kind": "compiling", "kernel": "softmax"})
        runner.progress(message, {"kind": "compile", "kernel": "softmax", "done": 1, "total": 1, "seconds": 0.1})

    device = FakeRunner(DeviceHub(), hang_later, runtime="node").device
    with pytest.raises(DeviceLost, match="gave no sign") as caught:
        device.call(VALIDATE, NO_TESTS, hang_seconds=0.1)
    assert caught.value.kernel is None


def test_a_reported_hang_is_told_to_whoever_started_the_device() -> None:
    def hang(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.fail(message, kind="device-lost", message="softmax did not end", kernel="softmax", lost_reason="hung")

    device = FakeRunner(DeviceHub(), hang).device
    hung: list[bool] = []
    device.on_hung = lambda: hung.append(True)
    with pytest.raises(DeviceLost) as caught:
        device.call(VALIDATE, NO_TESTS)
    assert caught.value.kernel == "softmax"
    assert hung == [True]


def test_ids_are_made_of_names_and_unique_among_the_connected() -> None:
    hub = DeviceHub()
    runners = [FakeRunner(hub, done, "Fire Fox 153") for _ in range(2)]
    assert [runner.device.id for runner in runners] == ["fire-fox-153", "fire-fox-153-2"]
    runners[0].vanish()
    again = FakeRunner(hub, done, "Fire Fox 153")
    assert again.device.id == "fire-fox-153"
    assert again.device.call(PING, PingParams()).result == PingResult()


def test_what_was_started_again_takes_the_place_of_the_first() -> None:
    hub = DeviceHub()
    first = FakeRunner(hub, silent, secret=hub.expect("deno"))
    thread, outcome = in_background(lambda: first.device.call(PING, PingParams()))
    until(lambda: bool(first.calls))
    second = FakeRunner(hub, done, secret=hub.expect("deno"))
    thread.join(60)
    assert "it was started again" in str(outcome[0])
    assert second.device is first.device
    assert second.device.call(PING, PingParams()).result == PingResult()


def test_nobody_takes_over_a_device_without_its_secret() -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, done)
    resume = {"device": runner.device.id, "session": "guessed", "calls": []}
    other = hub.hello(hello(resume=resume), lambda event, message: None, "stranger")
    assert isinstance(other, Welcome)
    assert other.device != runner.device.id


def test_a_new_gpu_device_is_known_by_the_same_connection() -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, done)
    resume = {"device": runner.welcome.device, "session": runner.welcome.session, "calls": []}
    changed = hello(resume=resume, features=["shader-f16"])
    hub.hello(changed, lambda event, message: None, runner.connection)
    assert runner.device.hello.features == ["shader-f16"]
    assert hub.connected() == [runner.device]


def test_waiting_ends_when_the_device_comes() -> None:
    hub = DeviceHub()
    timer = threading.Timer(0.2, lambda: FakeRunner(hub, silent))
    timer.start()
    device = hub.wait_for(lambda d: d.name == "Fake 1", 60)
    assert device is not None
    assert hub.wait_for(lambda d: d.name == "Other", 0.1) is None


def test_a_wait_ends_when_the_run_is_cancelled() -> None:
    cancel = Cancel()
    threading.Timer(0.1, cancel.set).start()
    with pytest.raises(Cancelled):
        DeviceHub().wait_for(lambda device: True, None, cancel.check)


@pytest.mark.parametrize(
    "message",
    [None, [], "hello", {}, hello(protocol=1), hello(name=None), hello(features="all"), hello(limits={"x": "big"}),
     hello(limits={"x": float("inf")}), hello(adapter=3), hello(resume=7), hello(name="x" * 1000), hello(more=1)],
)  # fmt: skip
def test_a_malformed_hello_is_refused(message: Any) -> None:
    answer = DeviceHub().hello(message, lambda event, body: None, "c")
    assert isinstance(answer, Refusal)
    assert answer.error
