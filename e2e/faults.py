"""Tools to break things in the middle of a run."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tapml.devices import Device
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

SEVERAL = ("cast", "layer_norm", "softmax", "matmul2", "fused_matmul_add2")
"""Kernels of 43 tests: enough for harm in the middle, and a software GPU compiles them in a second, all 22 in five."""


def until(condition: Callable[[], bool], what: str, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:.0f} s"
        time.sleep(0.05)


class Run:
    """A validation in a thread of its own, so that the test can do harm meanwhile."""

    def __init__(
        self,
        server: Server,
        suite: Path,
        device: Device,
        kernels: Sequence[str] | None = None,
        hang_seconds: float = 30,
        at_first_verdict: Callable[[], None] = lambda: None,
    ) -> None:
        """`at_first_verdict` does the harm before the next verdict is looked at: no run is too quick for that."""
        self._at_first_verdict = at_first_verdict
        self.verdicts: list[dict[str, Any]] = []
        self.told: list[str] = []
        """What the run says beside verdicts."""
        self._document: dict[str, Any] = {}
        run = OperatorRun(
            JobContext(Suite(suite), [device], server.state.blobs, emit=self._event, hang_seconds=hang_seconds),
            kernels=kernels,
        )
        self._thread = threading.Thread(target=lambda: self._document.update(run.run()), daemon=True)
        self._thread.start()

    def _event(self, event: dict[str, Any]) -> None:
        if event["type"] == "message":
            self.told.append(event["text"])
        if event["type"] == "verdict":
            self.verdicts.append(event["result"])
            if len(self.verdicts) == 1:
                self._at_first_verdict()

    def reported(self, count: int) -> None:
        """Wait for so many verdicts."""
        until(lambda: len(self.verdicts) >= count, f"verdict {count}", 120)

    def finish(self, seconds: float = 240) -> dict[str, dict[str, Any]]:
        """The results by test. Every verdict that was reported is among them, unchanged, and each test has one."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the run did not end"
        results = {test["id"]: test for test in self._document["tests"]}
        assert len(results) == len(self._document["tests"])
        assert [results[verdict["id"]] for verdict in self.verdicts] == self.verdicts
        assert len(self.verdicts) == len(results)
        return results


class Network:
    """A wire between a runner and the server that can be cut."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, seconds: float) -> None:
        """Break every connection and let none through for a while."""
        self._cut = True
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._cut = False

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._cut:
                    client.close()
                else:
                    threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            pair = {client: server, server: client}
            self._open |= pair.keys()
            try:
                while True:
                    for source in select.select(list(pair), [], [])[0]:
                        data = source.recv(1 << 16)
                        if not data:
                            return
                        pair[source].sendall(data)
            finally:
                self._open -= pair.keys()
