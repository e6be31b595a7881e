"""The client of a running server, where that goes wrong."""

from __future__ import annotations

import socket
import threading

import flask
import pytest

from tapml.errors import InputError, TapmlError
from tapml.jobs import JobSpecification
from tapml.server.answers import known_events, result_document
from tapml.server.client import RemoteServer
from tapml.server.errors import json_errors
from tapml.suite import Suite
from tapml.validation.events import Cancel

VALIDATION = JobSpecification(kind="validation", devices=["http://x"])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"devices": [',
        b'HTTP/1.1 200 OK\r\n\r\n{"devices": [',
        b"no HTTP at all\r\n\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_an_unreachable_server(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(TapmlError, match=f"cannot reach a tapml server at {url}"):
            RemoteServer(url).devices()


def answering(*bodies: bytes, status: str = "200 OK", headers: str = "") -> str:
    """The address of a server that gives these answers one after the other, then the last again."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        left = list(bodies)
        while True:
            client, _ = listener.accept()
            with client:
                client.recv(1 << 16)
                body = left.pop(0) if len(left) > 1 else left[0]
                client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    "answer",
    [b"[]", b"{}", b"null", b'{"connected": null}', b'{"connected": [{"id": 1}]}', b"[" * 100_000, b"NaN", b"\xff",
     b'{"connected": [{"id": "x", "name": "y", "user_agent": "", "adapter": {}, "unavailable": {}}]}'],
)  # fmt: skip
def test_an_answer_of_another_kind_is_one_sentence(answer: bytes, suite: Suite) -> None:
    url = answering(answer)
    with pytest.raises(InputError, match=f"the answer of {url}"):
        RemoteServer(url).devices()
    with pytest.raises(InputError, match=f"{url}"):
        RemoteServer(url).run(VALIDATION, suite, lambda event: None, Cancel())


def test_a_refusal_prints_no_escape_sequence() -> None:
    url = answering(b'{"error": "\\u001b[31mred\\nline"}', status="400 Bad Request")
    with pytest.raises(InputError) as error:
        RemoteServer(url).devices()
    assert str(error.value) == rf"{url} refused: \x1b[31mred line"


def test_a_refusal_keeps_its_fields_over_http() -> None:
    app = flask.Flask("refusing")
    json_errors(app)

    @app.get("/api/devices")
    def refuse() -> None:
        raise InputError("the operator Foo (at \x1bn1): no", operator="Foo", node="\x1bn1", reason="no")

    answer = app.test_client().get("/api/devices")
    fields = {"operator": "Foo", "node": r"\x1bn1", "reason": "no"}
    assert answer.status_code == 400
    assert answer.json == {"error": r"the operator Foo (at \x1bn1): no", **fields}
    with pytest.raises(InputError) as error:
        RemoteServer(answering(answer.data, status="400 Bad Request")).devices()
    assert error.value.refusal() == fields
    with pytest.raises(InputError) as error:
        RemoteServer(answering(b'{"error": "no", "operator": 3, "node": {}}', status="400 Bad Request")).devices()
    assert error.value.refusal() == dict.fromkeys(fields)


def test_the_token_goes_to_no_other_server() -> None:
    elsewhere = answering(b'{"connected": []}')
    url = answering(b"", status="302 Found", headers=f"Location: {elsewhere}/api/devices\r\n")
    with pytest.raises(InputError, match="refused: HTTP 302"):
        RemoteServer(f"{url}/?token=secret").devices()


def test_no_address() -> None:
    with pytest.raises(InputError, match="is no address"):
        RemoteServer("http://[::1")


def test_events_and_documents_are_checked() -> None:
    assert known_events("it", [{"type": "new"}, {"type": 3}, {}]) == []
    with pytest.raises(InputError, match="the answer of it: done"):
        known_events("it", [{"type": "compile", "device": "x", "kernel": "y", "done": {}, "total": 1}])
    with pytest.raises(InputError, match="no result of `tapml locate`"):
        result_document("it", "locate", {"format": "tapml.validation/1"})
    with pytest.raises(InputError, match="the answer of it"):
        result_document("it", "locate", {"format": "tapml.locate/1"})
