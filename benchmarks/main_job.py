"""The main job's numbers as ratios and milliseconds: carving, validating, serving, disk (`make bench`).

Prints one JSON line a measurement; exits with 1 where a target of the project is missed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import psutil

from benchmarks.measured import exit_code, report
from tapml.carving.carve import carve
from tapml.importing import import_model
from tapml.lowering.lower import lower
from tapml.lowering.model import relax_module
from tapml.platforms.reference import Reference
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

TEXT = "The benchmark carves this very sentence, one operator at a time."


def carving(folder: Path) -> Suite:
    """A carve against a plain run of the same graph on the same platform, and against TVM's virtual machine."""
    import tvm
    from tvm import relax

    model = import_model("minilm", texts=[TEXT])
    lowered = lower(model.module, len(model.input_names))
    plain_model = lowered.as_it_is
    reference = Reference(plain_model)
    arrays = [*model.steps[0].inputs.values(), *(array for _, array in model.parameters)]
    values = reference.values(dict(zip(lowered.arguments, arrays, strict=True)))
    plain = statistics.median(_timed(lambda: reference.run(plain_model.graph, dict(values))) for _ in range(7))
    machine = relax.VirtualMachine(relax.build(relax_module(lowered.at({}, lowered.documents())), "llvm"), tvm.cpu())
    arguments = [reference.tensor(array) for array in arrays]
    virtual = statistics.median(_timed(lambda: machine["main"](*arguments)) for _ in range(7))
    recorded = []
    for number in range(5):
        suite = carve(model, folder / f"carve{number}.suite", name="bench")
        recorded.append(suite.manifest["seconds"])
    record = statistics.median(seconds["record"] for seconds in recorded)
    write = statistics.median(seconds["write"] for seconds in recorded)
    tolerances = statistics.median(seconds["tolerances"] for seconds in recorded)
    seconds = {"plain_s": round(plain, 4), "record_s": round(record, 4), "virtual_machine_s": round(virtual, 4)}
    report("carve: recorded run / plain run", record / plain, "x", 3.0, **seconds)
    report("carve: recorded run / virtual machine's run", record / virtual, "x", 3.0)
    report("carve: waiting for the disk afterwards", write, "s")
    report("carve: deriving tolerances / plain run", tolerances / plain, "x")
    tensors = sum(suite.tensors.path(digest).stat().st_size for digest in suite.digests())
    report("suite: bytes on disk / bytes of distinct tensors", suite.nbytes() / tensors, "x", 1.2, tensors=tensors)
    return suite


def _timed(run: object) -> float:
    started = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - started


def validating(suite: Suite, browser: str) -> None:
    """Overhead: wall time less what the kernels took to compile and run, a test; second run has warm pipelines."""
    with Server() as server:
        device = server.state.device(browser)
        for name in ("first", "second"):
            document = OperatorRun(JobContext(suite, [device], server.state.blobs)).run()
            seconds = document["summary"]["devices"][device.id]
            tests = document["summary"]["total"]
            overhead = seconds["wall"] - seconds["compile"] - seconds["run"]
            report(
                f"validate: {browser}, {name} run, overhead a test", overhead / tests * 1000, "ms", 10.0,
                tests=tests, passed=document["summary"]["pass"], **seconds,
            )  # fmt: skip


def serving(suite: Suite) -> None:
    """Resident memory of a server that streams a suite and one large tensor to four clients, above its idle."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tapml", "serve", str(suite.path), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split(" at ")[1].strip().rstrip("/")
        urllib.request.urlopen(f"{url}/api/suites").read()
        idle = psutil.Process(process.pid).memory_info().rss
        peak, done = idle, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.01):
                peak = max(peak, psutil.Process(process.pid).memory_info().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        clients = [threading.Thread(target=_fetch, args=(url, sorted(suite.digests()))) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        done.set()
        watcher.join()
        report("serve: peak memory above idle", (peak - idle) / 1e6, "MB", 200.0, idle_mb=round(idle / 1e6, 1))
    finally:
        process.terminate()
        process.wait()


def _fetch(url: str, digests: list[str]) -> None:
    for digest in digests:
        with urllib.request.urlopen(f"{url}/blobs/{digest}") as response:
            while response.read(1 << 16):
                pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", action="append", help="default: chromium and firefox")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        suite = carving(Path(folder))
        serving(suite)
        for browser in options.browser or ["chromium", "firefox"]:
            validating(suite, browser)
    return exit_code()


if __name__ == "__main__":
    sys.exit(main())
