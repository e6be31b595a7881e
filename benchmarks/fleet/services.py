"""The real service in a process of its own, that is killed and started again, and what it stands on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tapml.errors import ToolchainError

MAIN = """
import tapml

def run(event):
    counts = {}
    for one in event["events"]:
        counts[one["id"]] = counts.get(one["id"], 0) + 1
    distinct = len(counts)
    tapml.emit("feature", {"run": event["run"], "distinct": distinct, "counts": counts})
    return {"run": event["run"], "distinct": distinct}
"""
FILES = {
    "main.py": MAIN.encode(),
    "task.json": json.dumps({"format": "tapml.task-configuration/1", "emits": ["feature"]}).encode(),
}
_START_SECONDS = 300
"""On a machine that has much else to do."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Service:
    """`tapml field serve` at ports of its own; killed, it is started at the same ones."""

    def __init__(self, group: Path, database: str, redis: str | None = None) -> None:
        self.port, self.tunnel_port = free_port(), free_port()
        self._line = [
            sys.executable, "-m", "tapml", "field", "serve", str(group), "--database-url", database,
            "--port", str(self.port), "--tunnel-port", str(self.tunnel_port),
            "--address-rate", "100000", "--device-rate", "100", *(["--redis-url", redis] if redis else []),
        ]  # fmt: skip
        self._log = (group / "service.log").open("ab")
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it is there."""
        self.process = subprocess.Popen(self._line, stdout=self._log, stderr=self._log)
        end = time.monotonic() + _START_SECONDS
        while True:
            with socket.socket() as found:
                if found.connect_ex(("127.0.0.1", self.tunnel_port)) == 0:
                    return
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise ToolchainError(f"the service does not start: {self._log.name} says why")
            time.sleep(0.05)

    def kill(self) -> None:
        """In the middle of what it does."""
        self.process.kill()
        self.process.wait(60)

    @property
    def memory(self) -> int:
        """Bytes that no other process shares."""
        return int(psutil.Process(self.process.pid).memory_full_info().uss)

    @property
    def cpu_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)
