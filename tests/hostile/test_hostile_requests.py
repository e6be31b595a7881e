"""Requests as nobody means well sends them, against a server that runs: one sentence, no traceback, no harm."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import websocket
from hostile_requests import RAW, REQUESTS, SOCKET, UPGRADE, HostileRequest

from tapml.server import Server, connections
from tapml.suite import Suite


@pytest.fixture(scope="module")
def server(carved: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAPML_DATA", str(tmp_path_factory.mktemp("data")))
        with Server([carved]) as made:
            yield made


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


def ask(server: Server, asked: HostileRequest) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=120)
    connection.putrequest(asked.method, asked.path, skip_host="Host" in asked.headers, skip_accept_encoding=True)
    for name, value in asked.headers.items():
        connection.putheader(name, value.encode("latin-1"))
    if asked.body or asked.method in ("POST", "PUT", "PATCH"):
        connection.putheader("Content-Length", str(len(asked.body)))
    connection.endheaders(asked.body)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def raw(server: Server, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port_of(server)), 15) as client:
        client.sendall(data)
        received = b""
        while part := client.recv(1 << 16):
            received += part
    return received


def is_refusal(status: int, data: bytes) -> bool:
    if not 400 <= status < 500 or not data.startswith(b"{"):
        return False
    sentence = json.loads(data)["error"]
    return isinstance(sentence, str) and 0 < len(sentence) < 10_000 and "Traceback" not in sentence


def works(server: Server) -> bool:
    status, data = ask(server, HostileRequest("/api/suites"))
    return status == 200 and json.loads(data)[0]["id"] == "small"


def test_every_hostile_request_is_refused_with_a_sentence(
    server: Server, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    jobs = len(server.state.jobs._jobs)
    taken = []
    with caplog.at_level(logging.WARNING):
        for asked in REQUESTS:
            status, data = ask(server, asked)
            if not is_refusal(status, data):
                taken.append((str(asked), status, data[:200]))
    assert taken == []
    assert len(server.state.jobs._jobs) == jobs, "no job was started"
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert works(server)


@pytest.mark.parametrize("data", RAW, ids=lambda data: repr(data[:50]))
def test_what_is_no_http_is_refused_with_a_sentence(
    server: Server, data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    head, _, body = raw(server, data).partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert is_refusal(status, body) or status == 505, head
    assert capfd.readouterr() == ("", "")
    assert works(server)


def test_an_answer_has_no_place_for_other_pages(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=120)
    for path in ("/", "/api/suites", "/unknown", "/socket.io/", "/runner"):
        connection.request("GET", path, headers={"Origin": server.url})
        answer = connection.getresponse()
        answer.read()
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert not any(name.lower().startswith("access-control") for name in answer.headers)


PACKETS = (
    "", "4", "0", "9", "6", "4x", "45-/device,", '451-/device,[{"_placeholder":true,"num":0}]', "42", "42/device", "40",
    "40/unknown,", "42/device,", "42/device,[]", "42/device,{}", "42/device,7", '42/device,["hello"]',
    '42/device,["hello",1,2]', '42/device,["connect",{}]', '42/device,["disconnect",1]', '42/device,[["hello"],1]',
    '42/device,["on_hello",{}]', '42/device,["hello",{"a":NaN}]', '42/device,["hello","\\ud800"]', "40/device,",
    '42/device,["reply",' + "[" * 100_000, '42/device,["reply",' + '{"a":' * 50_000, "42/device," + "[" * 200_000,
    '42/events,["hello",{}]', '42/device,99999999999["hello",{}]', "43/device,1[]", "44/device,{}", "\x00", "4\ud7ff",
    '42/device,["hello",' + "9" * 5000 + "]",
)  # fmt: skip


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: repr(packet[:40]))
def test_a_packet_that_is_none_ends_its_connection(
    server: Server, packet: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    client = websocket.create_connection(server.url.replace("http", "ws") + SOCKET, 10, suppress_origin=True)
    client.recv()
    client.send("40/device,")
    client.recv()
    client.send(packet)
    opcode = websocket.ABNF.OPCODE_TEXT
    with contextlib.suppress(websocket.WebSocketException, OSError):
        while opcode != websocket.ABNF.OPCODE_CLOSE:
            opcode, said = client.recv_data(control_frame=True)
            assert not said.startswith((b"42", b"43")), said
    client.shutdown()
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert works(server)


def test_bytes_that_are_no_frames_end_their_connection(
    server: Server, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SETTLE_SECONDS", 1.0)  # what begins a frame and does not go on is given so long
    head = (
        f"GET {SOCKET} HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{k}: {v}\r\n" for k, v in UPGRADE.items()) + "\r\n"
    )
    for frames in (
        b"\xff" * 100,
        b"\x81\x05hello",
        b"\x82\x85\0\0\0\0hello",
        b"\x81\xff" + b"\x7f" * 8 + b"\0" * 4,
        b"\x00" * 50,
    ):
        with socket.create_connection(("127.0.0.1", port_of(server)), 15) as client:
            client.sendall(head.encode())
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 101")
            client.sendall(frames)
            while client.recv(1 << 16):
                pass
    assert capfd.readouterr() == ("", "")
    assert works(server)


def test_a_suites_names_stay_inside_it(server: Server, suite: Suite) -> None:
    for name in ("../suite", "..", ".", "%2e%2e", "..%5csuite", "/etc/passwd", "%2fetc%2fpasswd"):
        status, data = ask(server, HostileRequest(f"/api/suites/small/kernels/{name}"))
        assert is_refusal(status, data), name
