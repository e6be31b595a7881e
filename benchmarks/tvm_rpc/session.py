"""One measurement: TVM's proxy, its RPC server in a page, its client, each a process as in real use."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from .build import HERE, LENGTH, Built, build

_SCRIPT = HERE.parents[1] / "runner_js" / "node_modules" / "@mlc-ai" / "web-runtime" / "lib" / "index.js"
_START_SECONDS = 30
_MEASURE_SECONDS = 600


@dataclass(frozen=True)
class TvmSession:
    """TVM's proxy, waiting for a browser to open `page`."""

    page: str
    _port: int
    _built: Built
    _environment: dict[str, str]

    def measure(self) -> dict[str, float]:
        """Measure TVM RPC over WebSocket to the page, once a browser has it open; about a minute.

        A MB is a million bytes. The result has medians, and for calls also the slowest and fastest round:

        - connect_s: until the session is there; this sends and compiles TVM's wasm
        - calls_per_s, calls_per_s_lowest, calls_per_s_highest: kernels one after the other, the GPU awaited at the end
        - call_and_sync_ms: one kernel, the GPU awaited
        - null_call_ms: a function in the page that does nothing; sync_ms: awaiting an idle GPU
        - upload_mb_per_s: `upload_mb` MB of float32 to the GPU, awaited
        - download_mb_per_s: `download_mb` MB of float32 from the GPU; download_1_mb_per_s: 1 MB

        The kernel adds two vectors of LENGTH float32. Raises RuntimeError with what the client said if anything fails.
        """
        command = [sys.executable, "-m", f"{HERE.name}.client", str(self._port), str(self._built.wasm), str(LENGTH)]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=_MEASURE_SECONDS, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"TVM RPC failed: {done.stderr[-2000:]}")
        measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return measured


@contextlib.contextmanager
def served() -> Iterator[TvmSession]:
    """TVM's proxy and the page of its RPC server, for the length of a `with` block."""
    built = build()
    environment = dict(os.environ)
    packages = (str(HERE.parent), str(built.packages), environment.get("PYTHONPATH", ""))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, packages))
    with _proxy(environment) as (port, web_port):
        yield TvmSession(f"http://127.0.0.1:{web_port}/", port, built, environment)


@contextlib.contextmanager
def _proxy(environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    """TVM's proxy as a process; its ports for the client and for the page."""
    command = [sys.executable, "-m", f"{HERE.name}.proxy", str(HERE / "page.html"), str(_SCRIPT)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("TVM's proxy did not start; it said why above")
            port, web_port = json.loads(line)
            _wait_for(web_port)
            yield port, web_port
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise RuntimeError(f"TVM's proxy does not listen on port {port}") from None
            time.sleep(0.1)
