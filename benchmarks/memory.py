"""What a server and a device in node keep of work that is done (`make bench-memory`, about ten minutes).

A server in a process of its own, with a node-dawn device: 200 rounds of 50 calls of a small function through the Python
API, each waited for, and one validation of MiniLM's suite. Both processes' resident memory after the first tenth of the
rounds and at the end (medians of ten rounds); prints one JSON line a process, exits with 1 where one has grown by more
than 5 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

ROUNDS = 200
CALLS_A_ROUND = 50
GROWTH = 1.05
TEXT = "What is done is forgotten, but for its result."


def work(suite: Path, rounds: int) -> None:
    """In the server's process: a line on standard output after each round."""
    import numpy as np
    import tvm
    from tvm import relax

    import tapml as tml
    from tapml.api.devices import running_server
    from tapml.jobs import JobSpecification

    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((64,), "float32")) for name in "xy")
    with builder.function("add", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, y))
        builder.emit_func_output(out)
    module: tvm.IRModule = builder.finalize()

    device = tml.webgpu("node-dawn")
    add = tml.upload(tml.compile(module, device), device)["add"]
    left, right = (tml.tensor(np.full(64, value, np.float32), device) for value in (1, 2))
    state = running_server().state
    suite_id = state.suites.add(suite)
    for _ in range(rounds):
        for _ in range(CALLS_A_ROUND):
            total = tml.allocate((64,), "float32", device)
            add(left, right, total)
            if total.numpy()[0] != 3:
                raise SystemExit("1 + 2 is not 3")
        opened = state.suites.require(suite_id)
        specification = JobSpecification(kind="validation", devices=["node-dawn"])
        job = state.jobs.start(specification, suite_id, opened, state.device)
        job.done.wait()
        if job.state != "done":
            raise SystemExit(f"a validation ended as {job.state}: {job.error}")
        print(flush=True)


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def measure(rounds: int) -> dict[str, list[float]]:
    """Resident megabytes of each process after each round."""
    found: dict[str, list[float]] = {"server": [], "node": []}
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "minilm.suite"
        carved = [sys.executable, "-m", "tapml", "carve", "minilm", "--text", TEXT, "-o", str(suite)]
        subprocess.run(carved, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        command = [sys.executable, "-m", "benchmarks.memory", "--rounds", str(rounds), "--work", str(suite)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        process = psutil.Process(server.pid)
        for _ in server.stdout:
            (node,) = (child for child in process.children(recursive=True) if "device.mjs" in " ".join(child.cmdline()))
            found["server"].append(megabytes(process))
            found["node"].append(megabytes(node))
        if server.wait() != 0 or len(found["node"]) < rounds:
            raise SystemExit("the server ended before its work did")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.rounds)
        return 0
    rounds = options.rounds
    good = True
    for name, samples in measure(rounds).items():
        few = max(1, rounds // 20)
        early, late = samples[rounds // 10 : rounds // 10 + few], samples[-few:]
        levels = statistics.median(early), statistics.median(late)
        grown = levels[1] / levels[0]
        good = good and grown <= GROWTH
        line = {
            "name": f"memory of the {name}", "early": round(levels[0], 1), "late": round(levels[1], 1), "unit": "MB",
            "grown": round(grown, 3), "target": GROWTH, "ok": grown <= GROWTH, "most": round(max(samples), 1),
            "calls": CALLS_A_ROUND * rounds, "jobs": rounds,
            "each_tenth": [round(value, 1) for value in samples[:: max(1, rounds // 10)]],
        }  # fmt: skip
        print(json.dumps(line), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
