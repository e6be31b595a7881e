"""The client of a running server, where that goes wrong."""

from __future__ import annotations

import socket
import threading

import pytest

from tapml.errors import TapmlError
from tapml.server.client import RemoteServer


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
