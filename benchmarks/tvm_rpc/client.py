"""The Python half of TVM's RPC, timed: `python -m tvm_rpc.client PORT WASM LENGTH` prints the measurements as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import rpc

CALLS = 500
ROUNDS = 7
UPLOAD_MB = 64
DOWNLOAD_MB = 8  # tvmjs sends 16 kB every 20 ms
FLOATS_PER_MB = 250_000


def main(port: int, wasm: Path, length: int) -> dict[str, float]:
    """Connect to the page that waits at the proxy and measure; see `measure` for the names."""
    began = time.perf_counter()
    remote = rpc.connect("127.0.0.1", port, key="wasm", session_constructor_args=["rpc.WasmSession", wasm.read_bytes()])
    connected = time.perf_counter() - began
    device = remote.webgpu(0)
    kernel = remote.system_lib()["main"]
    echo = remote.get_function("testing.echo")
    ones = np.ones(length, "float32")
    x, y, z = (tvm.runtime.tensor(values, device) for values in (np.arange(length, dtype="float32"), ones, ones))

    def calls() -> None:
        for _ in range(CALLS):
            kernel(x, y, z)
        device.sync()

    def call_and_sync() -> None:
        kernel(x, y, z)
        device.sync()

    call_and_sync()
    np.testing.assert_array_equal(z.numpy(), np.arange(length) + 1)
    many = _times(calls, ROUNDS)
    awaited = sorted(_times(call_and_sync, 200))
    return {
        "connect_s": connected,
        "calls_per_s": CALLS / statistics.median(many),
        "calls_per_s_lowest": CALLS / max(many),
        "calls_per_s_highest": CALLS / min(many),
        "call_and_sync_ms": 1e3 * statistics.median(awaited),
        "call_and_sync_ms_p10": 1e3 * awaited[20],
        "call_and_sync_ms_p90": 1e3 * awaited[180],
        "null_call_ms": 1e3 * statistics.median(_times(lambda: echo(1), 500)),
        "sync_ms": 1e3 * statistics.median(_times(device.sync, 500)),
        **_transfers(device),
    }


def _transfers(device: Any) -> dict[str, float]:
    values = np.random.default_rng(0).random(UPLOAD_MB * FLOATS_PER_MB, "float32")
    large = tvm.runtime.empty(values.shape, "float32", device)

    def upload() -> None:
        large.copyfrom(values)
        device.sync()

    uploaded = statistics.median(_times(upload, 3))
    rates = {}
    for megabytes, rounds in ((1, 5), (DOWNLOAD_MB, 1)):
        part = values[: megabytes * FLOATS_PER_MB]
        small = tvm.runtime.tensor(part, device)
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            received = small.numpy()
            times.append(time.perf_counter() - began)
            np.testing.assert_array_equal(received, part)
        rates[megabytes] = megabytes / statistics.median(times)
    return {
        "upload_mb_per_s": UPLOAD_MB / uploaded,
        "upload_mb": UPLOAD_MB,
        "download_mb_per_s": rates[DOWNLOAD_MB],
        "download_mb": DOWNLOAD_MB,
        "download_1_mb_per_s": rates[1],
    }


def _times(action: Callable[[], object], rounds: int) -> list[float]:
    """Seconds of each round, after one that does not count."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return times[1:]


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
