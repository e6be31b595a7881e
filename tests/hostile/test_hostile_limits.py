"""Floods, and clients that take for ever: threads stay few, others are served, and each end says why."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import websocket
from hostile_requests import SOCKET, UPGRADE

from helpers import hello
from tapml.protocol.base import MAX_MESSAGE_BYTES
from tapml.server import Server, connections
from tapml.server import websocket as websockets
from tapml.server.connections import FULL, LATE

FEW_THREADS = 150


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """With little patience, for tests' sake."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 1.5)
    monkeypatch.setattr(connections, "SETTLE_SECONDS", 1.5)
    monkeypatch.setattr(connections, "_BODY_SECONDS", 1.5)
    with Server() as made:
        yield made


@pytest.fixture
def clients() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for client in opened:
        client.close()


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 60)


def everything(client: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(1 << 16):
            received += part
    return received


def status(answer: bytes) -> int:
    return int(answer.split()[1])


def sentence(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["error"])


def get(server: Server, path: str = "/api/suites") -> int:
    """The answer's status; 0 where the connection was ended before there was one."""
    with connect(server) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = everything(client)
    return status(answer) if answer else 0


def until(condition: Callable[[], bool], seconds: float = 180) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def upgrade(server: Server) -> socket.socket:
    client = connect(server)
    fields = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **UPGRADE}.items())
    client.sendall(f"GET {SOCKET} HTTP/1.1\r\n{fields}\r\n".encode())
    return client


@pytest.mark.parametrize("head", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_three_hundred_connections_without_a_request(server: Server, clients: list[socket.socket], head: bytes) -> None:
    before = threading.active_count()
    for _ in range(300):
        clients.append(connect(server))
        with contextlib.suppress(ConnectionError):
            clients[-1].sendall(head)
    assert threading.active_count() - before < FEW_THREADS
    assert until(lambda: get(server) == 200), "others are served, after a moment"
    answers = [everything(client) for client in clients]
    assert {status(answer) for answer in answers if answer} == {503, 408}
    assert {sentence(answer) for answer in answers if answer} == {FULL, LATE}
    assert until(lambda: threading.active_count() <= before + 3)


def test_three_hundred_websockets_that_say_nothing(server: Server, clients: list[socket.socket]) -> None:
    before = threading.active_count()
    for _ in range(300):
        clients.append(upgrade(server))
    assert threading.active_count() - before < FEW_THREADS
    assert until(lambda: get(server) == 200)
    answers = [everything(client) for client in clients]
    assert {status(answer) for answer in answers if answer} == {101, 503}
    assert until(lambda: server._server.connections.count("socket") == 0)


def test_who_answers_pings_stays_and_who_is_silent_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websockets, "PING_SECONDS", 0.2)
    monkeypatch.setattr(websockets, "SILENCE_SECONDS", 1.0)
    client = websocket.create_connection(server.url.replace("http", "ws") + SOCKET, 10, suppress_origin=True)
    assert client.recv().startswith("0")
    client.send("40/events,")
    assert client.recv().startswith("40/events,")
    for _ in range(10):
        assert client.recv() == "2"
        client.send("3")
    asked = 0
    while client.recv_data()[0] != websocket.ABNF.OPCODE_CLOSE:
        asked += 1
    client.shutdown()
    assert 2 < asked < 7


def test_a_websocket_that_is_no_device_ends(server: Server) -> None:
    def opened() -> websocket.WebSocket:
        client = websocket.create_connection(server.url.replace("http", "ws") + SOCKET, 10, suppress_origin=True)
        client.recv()
        client.send("40/device,")
        client.recv()
        return client

    silent, wrong, right = opened(), opened(), opened()
    wrong.send('42/device,1["hello",{}]')
    right.send("42/device,1" + json.dumps(["hello", hello()]))
    assert "Fake" in server.state.hub.wait_for(lambda _: True, 60).name  # type: ignore[union-attr]
    for client in (silent, wrong):
        assert until(lambda client=client: client.recv_data()[0] == websocket.ABNF.OPCODE_CLOSE)  # type: ignore[misc]
        client.shutdown()
    time.sleep(0.5)
    assert len(server.state.hub.connected()) == 1
    right.close()


def dripping(client: socket.socket, piece: bytes) -> bytes:
    """Send a piece every tenth of a second until the server answers: all that it says, or nothing after a minute."""
    began = time.monotonic()
    client.settimeout(0.1)
    received = b""
    while not received and time.monotonic() - began < 60:
        with contextlib.suppress(TimeoutError):
            received = client.recv(1 << 16)
        with contextlib.suppress(ConnectionError):
            client.sendall(piece)
    return received + everything(client)


@pytest.mark.parametrize("piece", [b"", b"A"])
def test_a_head_that_takes_for_ever(server: Server, piece: bytes) -> None:
    """Drop by drop, too: each has its time-out, and the whole has one."""
    with connect(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        received = dripping(client, piece)
    assert status(received) == 408
    assert sentence(received) == LATE


@pytest.mark.parametrize("piece", [b"", b" "])
def test_a_body_that_takes_for_ever(server: Server, piece: bytes) -> None:
    with connect(server) as client:
        head = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nX-Tapml: 1\r\nContent-Type: application/json\r\n"
        client.sendall(head + b"Content-Length: 1000\r\n\r\n{")
        received = dripping(client, piece)
    assert status(received) == 408
    assert sentence(received) == LATE


def test_a_body_that_ends_early(server: Server) -> None:
    with connect(server) as client:
        head = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nX-Tapml: 1\r\nContent-Type: application/json\r\n"
        client.sendall(head + b"Content-Length: 1000\r\n\r\n{")
        client.shutdown(socket.SHUT_WR)
        answer = everything(client)
    assert status(answer) == 400
    assert "shorter than it says" in sentence(answer)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/api/jobs", 413), ("/api/calls/x/downloads", 404), ("/socket.io/?EIO=4&transport=polling", 400), ("/x", 404)],
)
@pytest.mark.parametrize("announced", [17_000_000, 10**12])
def test_a_body_that_is_too_large_is_answered_while_it_is_sent(
    server: Server, path: str, expected: int, announced: int
) -> None:
    answers: list[bytes] = []
    with connect(server) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Tapml: 1\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {announced}\r\n\r\n".encode())

        def read() -> None:
            answers.append(everything(client))

        reader = threading.Thread(target=read)
        reader.start()
        sent = 0
        with contextlib.suppress(ConnectionError):
            while reader.is_alive() and sent < announced:
                sent += client.send(b" " * (1 << 16))
        reader.join(60)
    assert status(answers[0]) == expected
    assert sentence(answers[0])


def masked(payload: bytes, first: int) -> bytes:
    """A frame of a client, its mask being zero."""
    size = struct.pack("!BQ", 0x80 | 127, len(payload))
    return bytes([first]) + size + b"\0\0\0\0" + payload


def test_a_message_is_bounded_before_it_is_whole(server: Server) -> None:
    """In one frame, in many, and deflated: a hundred times what a message may be never lies in memory."""
    piece = b"4" * 4_000_000
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for first, later in ((0x01, 0x00), (0x81, 0x00)):
        with upgrade(server) as client:
            client.recv(1 << 16)
            with contextlib.suppress(ConnectionError):
                if first == 0x81:
                    client.sendall(b"\x81\xff" + struct.pack("!Q", 400_000_000) + b"\0\0\0\0")
                    for _ in range(100):
                        client.sendall(piece)
                else:
                    client.sendall(masked(piece, first))
                    for _ in range(100):
                        client.sendall(masked(piece, later))
            everything(client)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 8 * MAX_MESSAGE_BYTES // 1024
    assert get(server) == 200


def test_a_handshake_of_tls_keeps_nobody_waiting(tmp_path: Path, clients: list[socket.socket]) -> None:
    import ssl

    from werkzeug.serving import make_ssl_devcert

    certificate, key = make_ssl_devcert(str(tmp_path / "box"), host="localhost")
    with Server(certificate=(Path(certificate), Path(key))) as server:
        clients += [connect(server) for _ in range(10)]
        clients[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        with context.wrap_socket(connect(server), server_hostname="localhost") as client:
            client.sendall(b"GET /api/suites HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(everything(client)) == 200
        address = server.url.replace("http", "ws") + SOCKET
        device = websocket.create_connection(address, 10, suppress_origin=True, sslopt={"cert_reqs": ssl.CERT_NONE})
        device.recv()
        device.send("40/device,")
        assert device.recv().startswith("40/device,")
        device.send("42/device,1" + json.dumps(["hello", hello()]))
        assert device.recv().startswith("43/device,1")
        device.close()


def test_nothing_is_left_of_clients_that_came_and_went(server: Server) -> None:
    before = threading.active_count()
    for _ in range(60):
        client = websocket.create_connection(server.url.replace("http", "ws") + SOCKET, 10, suppress_origin=True)
        client.recv()
        client.send("40/device,")
        client.recv()
        client.send("42/device,1" + json.dumps(["hello", hello()]))
        client.recv()
        client.close()
    engine = server._app.extensions["socketio"].server.eio
    assert until(lambda: not engine.sockets)
    assert until(lambda: threading.active_count() <= before + 4)  # one that asks all, one that looks after all
    assert not server.state.hub._by_connection
