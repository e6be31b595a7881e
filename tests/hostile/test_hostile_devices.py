"""Nobody becomes a device, or takes the place of one, who is not meant to."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
import websocket
from hostile_requests import FOREIGN_HOSTS, FOREIGN_ORIGINS, SOCKET

from helpers import FakeRunner, all_pass, hello, verdict
from tapml.devices import DeviceHub
from tapml.jobs import JobSpecification
from tapml.protocol.methods import ValidateParams
from tapml.protocol.session import VALIDATE, Refusal, Welcome
from tapml.server import Server
from tapml.server.state import State
from tapml.suite import Suite


@pytest.fixture
def server(suite: Suite) -> Iterator[Server]:
    with Server([suite.path]) as made:
        yield made


class Socket:
    """A runner that speaks as it likes, by Socket.IO's wire format, and from any origin."""

    def __init__(self, server: Server, query: str = "", origin: str | None = None) -> None:
        address = server.url.replace("http", "ws") + SOCKET + query
        self.socket = websocket.create_connection(address, 10, origin=origin, suppress_origin=origin is None)

    def join(self) -> Socket:
        self.receive()
        self.socket.send("40/device,")
        assert self.receive().startswith("40/device,")
        return self

    def receive(self) -> str:
        while (text := self.socket.recv()) == "2":
            self.socket.send("3")
        assert isinstance(text, str)
        return text

    def emit(self, event: str, message: Any) -> None:
        self.socket.send("42/device," + json.dumps([event, message]))

    def hello(self, **changes: Any) -> Any:
        self.socket.send("42/device,7" + json.dumps(["hello", hello(**{"name": "Rogue 1", **changes})]))
        return json.loads(self.receive().removeprefix("43/device,7"))[0]


@pytest.fixture
def sockets(server: Server) -> Iterator[list[Socket]]:
    opened: list[Socket] = []
    yield opened
    for one in opened:
        one.socket.close()


def refuses(server: Server, origin: str | None) -> bool:
    try:
        Socket(server, origin=origin).socket.close()
    except websocket.WebSocketBadStatusException as refused:
        return refused.status_code == 403
    return False


def test_a_page_of_another_origin_opens_no_socket(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    origins = [origin for origin in FOREIGN_ORIGINS if origin.isascii()]
    origins += [f"http://localhost:{port}", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{int(port) ^ 1}"]
    assert [origin for origin in origins if not refuses(server, origin)] == []
    assert not refuses(server, server.url)
    assert not refuses(server, None)


def test_a_page_behind_a_name_of_its_own_opens_no_socket(server: Server) -> None:
    """DNS rebinding: Host and Origin agree, and lead here all the same."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=120)
    for host in FOREIGN_HOSTS:
        connection.putrequest("GET", SOCKET, skip_host=True)
        headers = {"Host": host, "Origin": f"http://{host}", "Connection": "Upgrade", "Upgrade": "websocket"}
        for name, value in {**headers, "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "A" * 22 + "=="}.items():
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status in (400, 403), host
        assert "error" in json.load(answer)


@pytest.mark.parametrize("more", ["&transport=polling", "&transport=polling&j=0", "&j=0", "&transport=websocket&j=0"])
def test_there_is_no_polling_and_no_jsonp(server: Server, more: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=120)
    for method in ("GET", "POST", "OPTIONS"):
        connection.request(method, "/socket.io/?EIO=4" + more, body=b"d=1", headers={"X-Tapml": "1"})
        answer = connection.getresponse()
        assert answer.status == 400
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert b"sid" not in answer.read()


def test_a_forged_session_reports_no_pass(
    server: Server, sockets: list[Socket], suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack as it was made: the server waits for a device that it starts, and somebody else is there first, by a
    name of that device, by a secret that is none, or by that of another device.
    """
    forged: list[Any] = []

    class NeverThere:
        alive = True
        console = ()

        def close(self) -> None:
            self.alive = False

    def start(name: str, url: str, **_: Any) -> NeverThere:
        for secret in (None, "started-node-dawn", "node-dawn", "x" * 32, server.state.hub.expect("deno")):
            sockets.append(Socket(server).join())
            forged.append(sockets[-1].hello(secret=secret, name="node-dawn 0.6"))
        return NeverThere()

    monkeypatch.setattr("tapml.server.state.start", start)
    monkeypatch.setattr("tapml.server.state._CONNECT_SECONDS", 1.0)
    specification = JobSpecification(kind="validation", devices=["node-dawn"])
    job = server.state.jobs.start(specification, "small", suite, server.state.device)
    assert job.done.wait(180)
    assert job.state == "failed"
    assert "node-dawn was started but did not connect" in str(job.error)
    assert ["error" in answer for answer in forged] == [False, True, True, True, False]
    assert suite.results("validation") == []


def started(hub: DeviceHub, name: str = "deno") -> FakeRunner:
    return FakeRunner(hub, all_pass, "Deno 2", secret=hub.expect(name))


def test_nobody_is_a_started_device_without_its_secret() -> None:
    hub = DeviceHub()
    real = started(hub)
    assert real.device.started == "deno"
    stale = hub.expect("node-dawn")
    hub.expect("node-dawn")  # started again
    for secret in ("", "deno", "started-deno", stale):
        answer = hub.hello(hello("Deno 2", secret=secret), lambda *_: None, f"stranger {secret}")
        assert isinstance(answer, Refusal), secret
    stranger = FakeRunner(hub, all_pass, "Deno 2")
    assert stranger.device is not real.device
    assert stranger.device.started is None


def test_the_place_of_a_started_device_stays_its_own_however_long_it_is_away() -> None:
    hub = DeviceHub()
    real = started(hub)
    real.device.grace_seconds = 0
    real.cut()
    assert not real.device.connected
    stranger = FakeRunner(hub, all_pass, "Deno 2")
    assert stranger.device is not real.device
    assert stranger.device.id != real.device.id
    real.connect(secret=hub.expect("deno"))
    assert hub.wait_for(lambda device: device.started == "deno", 1) is real.device


def test_the_place_of_any_device_is_kept_while_it_may_come_back() -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, all_pass)
    runner.cut()
    stranger = FakeRunner(hub, all_pass)
    assert stranger.device is not runner.device
    assert runner.come_back().device == runner.device.id


@pytest.mark.parametrize("session", ["", "guessed", "\u00e9", "x" * 500])
def test_a_place_is_resumed_with_its_secret_only(session: str) -> None:
    hub = DeviceHub()
    runner = started(hub)
    runner.cut()
    resume = {"device": runner.device.id, "session": session, "calls": []}
    answer = hub.hello(hello("Deno 2", resume=resume), lambda *_: None, "stranger")
    assert isinstance(answer, Refusal) or answer.device != runner.device.id
    # The session alone is no proof of having been started, either.
    resume["session"] = runner.welcome.session
    answer = hub.hello(hello("Deno 2", resume=resume), lambda *_: None, "stranger")
    assert isinstance(answer, Welcome)
    assert answer.device != runner.device.id


def test_a_connection_speaks_for_one_device() -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, all_pass)
    for number in range(300):
        hub.hello(hello(f"Many {number}"), lambda *_: None, runner.connection)
    assert [device.name for device in hub.connected()] == ["Many 299"]
    assert len(hub._devices) < 250


def test_replies_count_from_the_connection_of_their_device_only(
    server: Server, sockets: list[Socket], suite: Suite
) -> None:
    """`all_pass` is what forged messages would make of a device that never answers."""
    hub = server.state.hub
    seen: list[dict[str, Any]] = []
    sockets += [Socket(server).join() for _ in range(2)]
    victim, rogue = sockets
    first = victim.hello(name="Victim 1")
    rogue.hello()
    device = hub.get(first["device"])
    assert device is not None

    def forge(message: dict[str, Any]) -> None:
        # Even with the call's id, which only the victim was told.
        for test in message["params"]["tests"]:
            rogue.emit("progress", {"call": message["call"], "number": 0, "progress": verdict(test)})
        rogue.emit("reply", {"call": message["call"], "number": 0, "ok": True, "result": {}})
        # A connection that was left behind counts as little.
        resume = {"device": first["device"], "session": first["session"], "calls": [message["call"]]}
        sockets.append(Socket(server).join())
        assert sockets[-1].hello(name="Victim 1", resume=resume)["calls"] == {message["call"]: 0}
        victim.emit("reply", {"call": message["call"], "number": 0, "ok": True, "result": {}})

    def check() -> None:
        call = device._call
        if call is not None and not seen:
            seen.append(call.message.model_dump())
            forge(seen[0])
        if seen and len(sockets) == 3:
            assert call is None or call.received == 0
            raise KeyboardInterrupt

    output = {"digest": "0" * 64, "dtype": "float32", "shape": [2]}
    test = {"id": "t", "kernel": "k", "inputs": [], "outputs": [output], "tolerances": []}
    params = ValidateParams.model_validate({"kernels": [], "tests": [test]})
    with pytest.raises(KeyboardInterrupt):
        device.call(VALIDATE, params, check=check)
    assert seen


def test_downloads_and_leave_want_what_only_the_device_knows(server: Server) -> None:
    port = int(server.url.rpartition(":")[2])
    runner = FakeRunner(server.state.hub, lambda *_: None)

    def post(path: str, body: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("POST", path, body, {"X-Tapml": "1", "Content-Type": "application/json"})
        return connection.getresponse().status

    for session in ("guessed", "", "\ud800", runner.welcome.session + "x"):
        post(f"/api/devices/{runner.device.id}/leave", json.dumps({"session": session}).encode())
        assert runner.device.connected, session
    assert post("/api/calls/guessed/downloads", b"x") == 404
    assert (
        post(f"/api/devices/{runner.device.id}/leave", json.dumps({"session": runner.welcome.session}).encode()) == 200
    )
    assert not runner.device.connected


def test_a_name_that_would_write_to_a_terminal_is_refused() -> None:
    for name in ("\x1b[2J", "a\nb", "a\x00", "\u202egnp"):
        assert isinstance(DeviceHub().hello(hello(name), lambda *_: None, "c"), Refusal)


def test_state_waits_for_a_device_opened_by_hand(server: Server) -> None:
    state: State = server.state
    started(state.hub)
    by_hand = FakeRunner(state.hub, all_pass, "Safari 26")
    assert state.device("open", lambda: None) is by_hand.device
