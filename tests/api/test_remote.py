"""A program's use of a device: what is sent when, errors of calls made in the background, frees."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from helpers import RESULTS, FakeRunner
from tapml.api.devices import WebGpuDevice, batch
from tapml.api.library import compile, upload
from tapml.api.modules import Module
from tapml.api.remote import RemoteSession
from tapml.api.tensors import allocate, tensor
from tapml.devices import Blobs, DeviceHub
from tapml.errors import DeviceError, DeviceLost, InputError


def double() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("double", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, x))
        builder.emit_func_output(out)
    return builder.finalize()


class Runner:
    """Answers every call; can hold them back, and fail the next."""

    def __init__(self) -> None:
        self.free_to_answer = threading.Event()
        self.free_to_answer.set()
        self.error: dict[str, Any] | None = None
        self.runner = FakeRunner(DeviceHub(), self._answer)
        self.blobs = Blobs()
        self.device = WebGpuDevice("fake", RemoteSession(self.runner.device, self.blobs))

    def _answer(self, message: dict[str, Any], runner: FakeRunner) -> None:
        threading.Thread(target=self._reply, args=(message, runner), daemon=True).start()

    def _reply(self, message: dict[str, Any], runner: FakeRunner) -> None:
        self.free_to_answer.wait(60)
        error, self.error = self.error, None
        if error:
            runner.fail(message, **error)
        else:
            runner.finish(message, downloads=[], memory=RESULTS["execute"]["memory"])

    @property
    def messages(self) -> list[list[dict[str, Any]]]:
        """The commands of each message."""
        return [call["params"]["commands"] for call in self.runner.calls]

    def operations(self) -> list[str]:
        return [command["op"] for commands in self.messages for command in commands]


@pytest.fixture
def runner() -> Runner:
    return Runner()


def until(condition: Any) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_calls_gather_while_a_message_is_under_way(runner: Runner) -> None:
    function = upload(compile(double(), runner.device), runner.device)["double"]
    x, y = tensor(np.ones(4, np.float32), runner.device), allocate((4,), "float32", runner.device)
    runner.device.synchronize()
    before = len(runner.messages)
    runner.free_to_answer.clear()
    function(x, y)
    until(lambda: len(runner.messages) == before + 1)
    for _ in range(100):
        function(x, y)
    runner.free_to_answer.set()
    runner.device.synchronize()
    sent = runner.messages[before:]
    assert len(sent[0]) == 1
    assert sum(command["op"] == "call" for commands in sent for command in commands) == 101
    assert len(sent) <= 3


def test_a_batch_is_one_message(runner: Runner) -> None:
    function = upload(compile(double(), runner.device), runner.device)["double"]
    x = tensor(np.ones(4, np.float32), runner.device)
    runner.device.synchronize()
    before = len(runner.messages)
    with batch(runner.device):
        y = allocate((4,), "float32", runner.device)
        with batch(runner.device):
            function(x, y)
        function(y, x)
        time.sleep(0.1)
        assert len(runner.messages) == before
    (sent,) = runner.messages[before:]
    assert [command["op"] for command in sent] == ["allocate", "call", "call"]


def test_an_error_is_raised_by_the_next_use_with_the_place_of_the_call(runner: Runner) -> None:
    function = upload(compile(double(), runner.device), runner.device)["double"]
    x = tensor(np.ones(4, np.float32), runner.device)
    runner.error = {"kind": "validation", "message": "no", "kernel": "add", "command": 0}
    function(x, x)  # the line that the error names
    with pytest.raises(DeviceError, match="kernel add: no") as caught:
        runner.device.synchronize()
    assert any("test_remote.py" in note for note in caught.value.__notes__)
    runner.device.synchronize()


def test_blocking_calls_raise_at_once(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_BLOCKING", "1")
    function = upload(compile(double(), runner.device), runner.device)["double"]
    x = tensor(np.ones(4, np.float32), runner.device)
    runner.error = {"kind": "validation", "message": "no", "kernel": "add", "command": 0}
    with pytest.raises(DeviceError):
        function(x, x)


def test_after_a_loss_everything_says_so(runner: Runner) -> None:
    x = tensor(np.ones(4, np.float32), runner.device)
    runner.error = {"kind": "device-lost", "message": "kernel add did not end within 30 s", "lost_reason": "hung"}
    with pytest.raises(DeviceLost, match="did not end"):
        runner.device.synchronize()
    with pytest.raises(DeviceLost, match=r"Fake 1 was lost, and all tensors .* get the device anew with tml.webgpu"):
        x.numpy()
    assert not runner.device.session.alive


def test_what_is_dropped_travels_with_the_next_message_or_by_itself(runner: Runner) -> None:
    kept = [allocate((4,), "float32", runner.device) for _ in range(3)]
    names = {found.handle for found in kept}
    runner.device.synchronize()
    del kept
    gc.collect()
    runner.device.synchronize()
    freed = [command["tensors"] for commands in runner.messages for command in commands if command["op"] == "free"]
    assert {name for tensors in freed for name in tensors} == names
    with allocate((4,), "float32", runner.device):
        pass
    until(lambda: runner.operations().count("free") == 2)


def test_a_library_is_unloaded_when_neither_it_nor_its_functions_are_there(runner: Runner) -> None:
    function = upload(compile(double(), runner.device), runner.device)["double"]
    gc.collect()
    runner.device.synchronize()
    assert "unload" not in runner.operations()
    del function
    gc.collect()
    runner.device.synchronize()
    assert runner.operations().count("unload") == 1


def test_bytes_are_served_as_they_are_and_only_while_they_are_needed(runner: Runner) -> None:
    array = np.arange(1000, dtype=np.float32)
    runner.free_to_answer.clear()
    thread = threading.Thread(target=lambda: tensor(array, runner.device))
    thread.start()
    until(lambda: bool(runner.messages))
    digest = runner.messages[0][0]["digest"]
    served = runner.blobs.find(digest)
    assert isinstance(served, memoryview)
    assert np.shares_memory(np.frombuffer(served, np.uint8), array)
    runner.free_to_answer.set()
    thread.join(60)
    assert runner.blobs.find(digest) is None


def test_modules_tell_their_types() -> None:
    module = Module(double())
    assert module.main == "double"
    assert [str(found) for found in (*module.input, *module.output)] == ["float32[4]", "float32[4]"]
    with pytest.raises(InputError, match="no Relax function"):
        Module(tvm.IRModule({}))
