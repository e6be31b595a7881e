"""The device session against TVM RPC over WebSocket, side by side in one Chromium (`make bench-remote`).

Same kernel (a vector add), same Chromium process, each system through its own page. Prints one JSON line a measurement
with the ratio to TVM's; exits with 1 where a target of the project is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

import tapml as tml
from benchmarks.measured import exit_code, median_seconds, report
from benchmarks.tvm_rpc import LENGTH, served
from tapml.api import devices as api_devices
from tapml.browsers.find import find
from tapml.browsers.options import chromium_arguments, chromium_sandbox
from tapml.protocol.methods import PingParams
from tapml.protocol.session import PING

MB = 1e6
BATCHED = 10_000


@contextmanager
def chromium(*addresses: str) -> Iterator[None]:
    """One Chromium with a tab for each address. No debugger attaches: one that listens slows sockets down."""
    switches = [
        "--headless=new",
        "--remote-debugging-port=0",
        "--disable-background-timer-throttling",
        "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        "--no-first-run",
        *([] if chromium_sandbox() else ["--no-sandbox"]),
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [str(find("chromium").program), *switches, *chromium_arguments(), f"--user-data-dir={profile}"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            told = Path(profile) / "DevToolsActivePort"
            deadline = time.monotonic() + 30
            while not told.is_file() or not told.read_text():
                if time.monotonic() > deadline:
                    raise RuntimeError("Chromium did not start")
                time.sleep(0.1)
            port = told.read_text().splitlines()[0]
            for address in addresses:
                new_tab = f"http://127.0.0.1:{port}/json/new?{address}"
                urllib.request.urlopen(urllib.request.Request(new_tab, method="PUT"), timeout=10).close()
            yield
        finally:
            browser.terminate()
            browser.wait()


def add(length: int) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((length,), "float32")) for name in "xy")
    with builder.function("add", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, y))
        builder.emit_func_output(out)
    return builder.finalize()


def measure_tapml(device: Any) -> dict[str, float]:
    """The same names as `benchmarks.tvm_rpc` gives, and those of batches."""
    function = tml.upload(tml.compile(add(LENGTH), device), device)["add"]
    values = np.arange(LENGTH, dtype=np.float32)
    x, y = tml.tensor(values, device), tml.tensor(np.ones(LENGTH, np.float32), device)
    z = tml.allocate((LENGTH,), "float32", device)
    function(x, y, z)
    np.testing.assert_array_equal(z.numpy(), values + 1)

    def one_by_one() -> None:
        for _ in range(500):
            function(x, y, z)
        device.synchronize()

    def call_and_sync() -> None:
        function(x, y, z)
        device.synchronize()

    def batch() -> None:
        with tml.batch(device):
            for _ in range(BATCHED):
                function(x, y, z)

    def batch_and_sync() -> None:
        batch()
        device.synchronize()

    large = np.random.default_rng(0).random(16_000_000, np.float32)
    uploads = []
    for number in range(4):
        # Other bytes each time: what a device has had already it does not fetch again.
        changed = large + np.float32(number)
        began = time.perf_counter()
        remote = tml.tensor(changed, device)
        device.synchronize()
        uploads.append(time.perf_counter() - began)
    np.testing.assert_array_equal(remote.numpy(), changed)
    return {
        "calls_per_s": 500 / median_seconds(one_by_one, 7),
        "call_and_sync_ms": 1e3 * median_seconds(call_and_sync, 200),
        "batched_calls_per_s": BATCHED / median_seconds(batch, 5),
        "batched_calls_per_s_with_sync": BATCHED / median_seconds(batch_and_sync, 5),
        "null_call_ms": 1e3 * median_seconds(lambda: device.session.device.call(PING, PingParams()), 500),
        "upload_mb_per_s": large.nbytes / MB / statistics.median(uploads[1:]),
        "download_mb_per_s": large.nbytes / MB / median_seconds(remote.numpy, 3),
    }


def against_tvm() -> None:
    server = api_devices.running_server()
    with served() as tvm_session, chromium(f"{server.url}/runner", tvm_session.page):
        ours = measure_tapml(tml.webgpu(_joined(server)))
        theirs = tvm_session.measure()
    for name, value in ours.items():
        print(json.dumps({"system": "tapml", "name": name, "value": round(value, 3)}))
    for name, value in theirs.items():
        print(json.dumps({"system": "tvm rpc", "name": name, "value": round(value, 3)}))

    def ratio(name: str, ours_name: str, theirs_name: str, target: float) -> None:
        found = ours[ours_name] / theirs[theirs_name]
        report(name, found, "x", target, at_least=True)

    ratio("batched calls against TVM's calls", "batched_calls_per_s", "calls_per_s", 20)
    done = ours["batched_calls_per_s_with_sync"] / (1e3 / theirs["call_and_sync_ms"])
    report("batched calls, done, against TVM's calls, done", done, "x", 20, at_least=True)
    ratio("batched calls with one wait at the end against TVM's", "batched_calls_per_s_with_sync", "calls_per_s", 1)
    ratio("calls one by one", "calls_per_s", "calls_per_s", 1)
    found = theirs["call_and_sync_ms"] / ours["call_and_sync_ms"]
    # No target: TVM's is 0.9 or 3.2 ms from one start of Chromium to the next, as Chromium happens to poll its GPU.
    report("a call and the wait for it", found, "x")
    ratio("upload of 64 MB", "upload_mb_per_s", "upload_mb_per_s", 1)
    ratio("download of 64 MB", "download_mb_per_s", "download_mb_per_s", 1)
    report("null call", ours["null_call_ms"], "ms", 3)


def _joined(server: Any) -> str:
    device = server.state.hub.wait_for(lambda found: found.hello.runtime == "browser", 60)
    if device is None:
        raise RuntimeError("Chromium did not join")
    return str(device.id)


def validating(suite: Path) -> None:
    """The whole command, start of the device included."""
    spent: dict[str, list[float]] = {name: [] for name in ("chromium", "node-dawn", "deno", "firefox")}
    for _ in range(5):
        for name, times in spent.items():
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "tapml", "validate", str(suite), "--device", name],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            times.append(time.perf_counter() - began)
    seconds = {name: statistics.median(times) for name, times in spent.items()}
    for name, value in seconds.items():
        report(f"tapml validate minilm on {name}", value, "s")
    found = seconds["node-dawn"] / seconds["chromium"]
    report("validate on node-dawn against Chromium", found, "x", 1)
    began = time.perf_counter()
    api_devices.running_server().state.device("node-dawn")
    report("start of a headless device", time.perf_counter() - began, "s", 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", type=Path, help="a MiniLM suite (default: carve one)")
    options = parser.parse_args()
    against_tvm()
    with tempfile.TemporaryDirectory() as folder:
        suite = options.suite or Path(folder) / "minilm.suite"
        if options.suite is None:
            carve = [sys.executable, "-m", "tapml", "carve", "minilm", "-o", str(suite)]
            subprocess.run(carve, check=True, stdout=subprocess.DEVNULL)
        validating(suite)
    return exit_code()


if __name__ == "__main__":
    sys.exit(main())
