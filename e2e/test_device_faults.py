"""What goes wrong at the device: each time no reported verdict is lost, none is made up, and the next run works."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import simple_websocket
from playwright.sync_api import Browser, Page

import tapml as tml
from conftest import Edit, command, free_port, listening, read_json, serving, tapml
from faults import SEVERAL, Network, Run, until
from pages import People
from process_watch import command_line, zombies
from tapml.api.devices import WebGpuDevice
from tapml.api.remote import RemoteSession
from tapml.browsers import start
from tapml.devices import Device
from tapml.errors import DeviceError
from tapml.protocol.base import PROTOCOL_VERSION
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture
def chromium(people: People) -> Browser:
    return people.browser("chromium")


@pytest.fixture
def page(chromium: Browser, server: Server) -> Iterator[Page]:
    page = chromium.new_page()
    with page.expect_worker():
        page.goto(server.state.runner_url)
    yield page
    page.close()


def joined(server: Server) -> Device:
    device = server.state.hub.wait_for(lambda found: True, 120)
    assert device is not None
    return device


def works(server: Server, suite: Path, device: Device) -> None:
    """The next run, after whatever happened."""
    results = Run(server, suite, device, ["softmax"]).finish()
    assert {test["verdict"] for test in results.values()} == {"pass"}


def test_a_destroyed_gpu_device_is_replaced_and_the_run_goes_on(server: Server, page: Page, suite: Path) -> None:
    device = joined(server)
    run = Run(server, suite, device, SEVERAL)
    run.reported(4)
    page.workers[0].evaluate("tapmlDevice.destroy()")
    results = run.finish()
    wrong = [(test["verdict"], test["message"]) for test in results.values() if test["verdict"] != "pass"]
    assert [each for each in wrong if each[0] != "error" or "device lost" not in each[1]] == []
    assert len(wrong) < len(results) / 2
    works(server, suite, device)


def test_a_gpu_device_destroyed_between_calls_is_no_wrong_result(server: Server, page: Page) -> None:
    device = WebGpuDevice("page", RemoteSession(joined(server), server.state.blobs))
    x = tml.tensor(np.ones(4, np.float32), device)
    page.workers[0].evaluate("tapmlDevice.destroy()")
    for _ in range(2):
        with pytest.raises(tml.DeviceLost, match=r"(?s)lost.*tml\.webgpu"):
            x.numpy()
    again = WebGpuDevice("page", RemoteSession(joined(server), server.state.blobs))
    assert tml.tensor(np.ones(4, np.float32), again).numpy().sum() == 4


def test_a_closed_tab_ends_its_run_at_once(server: Server, page: Page, chromium: Browser, suite: Path) -> None:
    device = joined(server)
    device.grace_seconds = 600  # were it waited for, the run would not end
    run = Run(server, suite, device, SEVERAL)
    run.reported(4)
    page.close()
    results = run.finish(120)
    # Whoever closes a page accuses no kernel: what it had not run was not run.
    assert {test["verdict"] for test in results.values()} == {"pass"}
    left = len([test for test in Suite(suite).tests if test.kernel in SEVERAL]) - len(results)
    assert left > 0
    assert any(f"its page was closed; {left} tests did not run" in told for told in run.told)
    again = chromium.new_page()
    again.goto(server.state.runner_url)
    works(server, suite, joined(server))
    again.close()


@pytest.mark.slow
def test_a_worker_that_ends_is_started_again(server: Server, page: Page, suite: Path) -> None:
    run = Run(server, suite, joined(server), SEVERAL)
    run.reported(4)
    page.workers[0].evaluate("self.close()")
    results = run.finish()
    assert any(test["verdict"] == "pass" for test in results.values())
    assert all(test["verdict"] in ("pass", "error") for test in results.values())
    until(lambda: any(d.connected for d in server.state.hub.connected()), "the page's new worker")
    works(server, suite, joined(server))


def test_ten_seconds_without_network_lose_nothing(server: Server, chromium: Browser, suite: Path) -> None:
    network = Network(int(server.url.rsplit(":", 1)[1]))
    page = chromium.new_page()
    page.goto(f"http://127.0.0.1:{network.port}/runner")
    device = joined(server)
    run = Run(server, suite, device, SEVERAL)
    run.reported(6)
    network.cut(10)
    results = run.finish()
    assert {(test["verdict"], test["message"]) for test in results.values()} == {("pass", "")}
    works(server, suite, device)
    page.close()
    network.close()


@pytest.mark.slow
def test_a_killed_server_loses_no_verdict_it_reported(suite: Path, tmp_path: Path) -> None:
    port = free_port()
    first = subprocess.Popen(command("serve", suite, "--port", str(port)), stdout=subprocess.PIPE, text=True)
    url = listening(first)
    with first, start("chromium", f"{url}/runner"):
        validate = ("validate", suite, "--device", url, *(word for name in SEVERAL for word in ("--kernel", name)))
        client = subprocess.Popen(command(*validate), stderr=subprocess.PIPE, text=True)
        journal = suite / "results" / "running"
        until(lambda: sum(len(p.read_text().splitlines()) for p in journal.glob("*.jsonl")) > 6, "verdicts", 240)
        first.send_signal(signal.SIGKILL)
        first.wait()
        (left,) = journal.glob("*.jsonl")
        reported = [json.loads(line) for line in left.read_text().splitlines()[1:]]
        with serving(suite, port):
            _, said = client.communicate(timeout=900)
            assert client.returncode == 1
            assert "was stopped in the middle of this run" in said
            (saved,) = Suite(suite).results("validation")
            assert saved["interrupted"]
            assert saved["tests"] == reported
            out = tmp_path / "again.json"
            again = tapml(*validate, "--json", out)
            assert again.code == 0, again.err
            assert {test["verdict"] for test in read_json(out)["tests"]} == {"pass"}


def endless(text: str) -> str:
    """A loop that waits for a value nobody writes."""
    start = text.index("{", text.index("fn softmax")) + 1
    name = text.split("var<storage, read_write>")[1].split(":")[0].strip()
    # Without a write in it a compiler may take the loop for one that ends.
    loop = f"\n  loop {{ if ({name}[0] == 12345.0) {{ break; }} {name}[1] += 1.0; }}\n"
    return text[:start] + loop + text[start:]


@pytest.mark.parametrize("name", ["chromium", "node-dawn"])
def test_an_endless_kernel_is_named_and_the_others_go_on(
    name: str, server: Server, suite: Path, edit: Callable[[str, Edit], None]
) -> None:
    edit("softmax", endless)
    device = server.state.device(name)
    results = Run(server, suite, device, ["cast", "softmax", "layer_norm", "take"], hang_seconds=4).finish()
    hung = [test for test in results.values() if test["kernel"] == "softmax"]
    assert {test["verdict"] for test in hung} == {"error"}
    assert "kernel softmax did not end within 4 s" in hung[0]["message"]
    assert {test["verdict"] for test in results.values() if test["kernel"] != "softmax"} == {"pass"}
    edit("softmax", lambda text: re.sub(r"\n  loop \{ .*\}\n", "", text))
    works(server, suite, device)
    server.stop()
    assert not zombies()


def test_a_device_process_that_is_killed_is_started_again(server: Server, suite: Path) -> None:
    device = server.state.device("node-dawn")
    device.grace_seconds = 600  # were it waited for, the run would not end
    # Other tests' devices may live on beside it; this one is the youngest.
    devices = [child for child in psutil.Process().children() if "device.mjs" in command_line(child)]
    victim = max(devices, key=lambda child: child.create_time())
    results = Run(server, suite, device, SEVERAL, at_first_verdict=victim.kill).finish(120)
    lost = [test for test in results.values() if test["verdict"] != "pass"]
    assert lost
    assert all("ended unexpectedly" in test["message"] for test in lost)
    works(server, suite, server.state.device("node-dawn"))


class Rogue:
    """A runner that speaks as it likes, by Socket.IO's wire format."""

    def __init__(self, server: Server) -> None:
        address = server.url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket"
        self._socket = simple_websocket.Client.connect(address)
        self.receive()
        self._socket.send("40/device,")
        assert self.receive().startswith("40/device,")

    def receive(self) -> str:
        while (text := self._socket.receive(60)) == "2":
            self._socket.send("3")
        assert isinstance(text, str)
        return text

    def emit_until_closed(self, event: str, message: Any) -> None:
        """Raises ConnectionClosed, or BrokenPipeError or ConnectionResetError where not even all of it was taken."""
        self.emit(event, message)
        while True:
            self.receive()

    def emit(self, event: str, message: Any) -> None:
        self._socket.send("42/device," + json.dumps([event, message]))

    def ask(self, event: str, message: Any) -> Any:
        self._socket.send("42/device,7" + json.dumps([event, message]))
        return json.loads(self.receive().removeprefix("43/device,7"))[0]

    def close(self, code: int) -> None:
        self._socket.close(code)


HELLO = {
    "protocol": PROTOCOL_VERSION, "runtime": "rogue", "resume": None, "generation": 1, "secret": None,
    "name": "Rogue 1", "user_agent": "rogue",
    "adapter": {"vendor": "", "architecture": "", "device": "", "description": ""},
    "features": [], "limits": {}, "unavailable": None,
}  # fmt: skip


def test_malformed_messages_harm_nobody_else(server: Server, page: Page, suite: Path) -> None:
    device = joined(server)
    rogue = Rogue(server)
    assert "error" in rogue.ask("hello", {"protocol": "two"})
    assert "malformed" in rogue.ask("hello", {**HELLO, "limits": {"x": "big"}})["error"]
    stolen = {"device": device.id, "session": "guessed", "calls": []}
    assert rogue.ask("hello", {**HELLO, "resume": stolen})["device"] == "rogue-1"
    run = Run(server, suite, device, SEVERAL)
    run.reported(2)
    running = device._call
    assert running is not None
    for message in (None, 7, {}, {"call": running.id, "number": 0, "ok": True, "result": {}}, {"call": [], "ok": 1}):
        rogue.emit("reply", message)
        rogue.emit("progress", message)
    assert {test["verdict"] for test in run.finish().values()} == {"pass"}


@pytest.mark.parametrize(("code", "waits"), [(1001, False), (1000, True)])
def test_only_a_page_that_is_going_away_is_not_waited_for(server: Server, code: int, waits: bool) -> None:
    rogue = Rogue(server)
    rogue.ask("hello", HELLO)
    (device,) = server.state.hub.connected()
    rogue.close(code)
    until(lambda: device._connection is None, "the end of its connection")
    assert device.connected == waits
    assert (device.why_gone == "its page was closed") != waits


def test_an_oversized_message_ends_its_own_connection_only(server: Server, page: Page, suite: Path) -> None:
    device = joined(server)
    rogue = Rogue(server)
    assert rogue.ask("hello", HELLO)["device"] == "rogue-1"
    with pytest.raises((simple_websocket.ConnectionClosed, ConnectionError)):
        rogue.emit_until_closed("progress", {"call": "x" * 17_000_000})
    works(server, suite, device)


def test_an_upload_that_is_too_large_says_so_and_the_device_goes_on(tmp_path: Path) -> None:
    device = tml.webgpu("node-dawn")
    limit = int(device.info.limits["maxBufferSize"])
    large = np.memmap(tmp_path / "large", np.uint8, "w+", shape=(limit + 4,))  # a file with a hole: no bytes on disk
    with pytest.raises(DeviceError, match="maxBufferSize") as caught:
        tml.tensor(large, device)
    assert caught.value.kind == "out-of-memory"
    small = np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(tml.tensor(small, device).numpy(), small)


def test_a_call_that_overtakes_the_welcome_runs(server: Server, suite: Path) -> None:
    """The server may use a device as soon as it said hello; its answer to that may come later than the first call."""
    hub = server.state.hub
    hello = hub.hello

    def slow(*arguments: Any) -> Any:
        answer = hello(*arguments)
        time.sleep(1)
        return answer

    hub.hello = slow  # type: ignore[method-assign]
    device = server.state.device("node-dawn")
    document = OperatorRun(JobContext(Suite(suite), [device], server.state.blobs), kernels=["softmax"]).run()
    assert document["summary"]["pass"] == document["summary"]["total"] > 0
