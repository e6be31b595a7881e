"""A real Redis on a socket in a folder of its own, that may be killed and started again."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


class RedisServer:
    """Runs when it is made. Keeps nothing: what was in it is gone when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = shutil.which("redis-server")
        if command is None:
            pytest.fail("these tests need a Redis server: install the Debian package `redis-server` (`make test` does)")
        line = [command, "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*line, "--dir", str(self._folder)], stdout=log, stderr=log)
        end = time.monotonic() + 180
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"Redis does not start: {(self._folder / 'log').read_text()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        """The socket's file is there before anyone listens."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(1)
            asked.connect(str(self.socket))
            asked.sendall(b"PING\r\n")
            return asked.recv(7) == b"+PONG\r\n"
        return False

    def kill(self) -> None:
        """Its connections are cut, and nobody answers there."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)
        self.socket.unlink(missing_ok=True)


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    # Not under pytest's folder, whose path is too long for a socket.
    folder = Path(tempfile.mkdtemp(prefix="tapml-redis-"))
    server = RedisServer(folder)
    yield server
    server.kill()
    shutil.rmtree(folder)
