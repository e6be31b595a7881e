"""Draw operators, have tapml's own generator compile them, and validate them on devices.

    python -m benchmarks.native_kernels --cases 5000 --device node-dawn --device deno

Exit code 1 where a kernel is wrong, or is not one of ours though its kind is and `--compiler` is not auto.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.native_kernels.cases import KINDS, drawn
from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.jobs.job import JobSpecification, run_job
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext

AT_ONCE = 130
"""Cases of one suite."""

LACKING = "which this device lacks"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=520)
    parser.add_argument("--seed", type=int, default=100, help="of the first suite")
    parser.add_argument("--kind", action="append", choices=[*KINDS], help="only these; default all")
    parser.add_argument("--compiler", choices=("native", "auto"), default="native")
    parser.add_argument("--device", action="append", help="default node-dawn and deno")
    options = parser.parse_args()
    devices = options.device or ["node-dawn", "deno"]
    total: Counter[str] = Counter()
    wrong: list[str] = []
    with Server() as server:
        for number in range(-(-options.cases // AT_ONCE)):
            count = min(AT_ONCE, options.cases - number * AT_ONCE)
            seed = options.seed + number
            with tempfile.TemporaryDirectory() as folder:
                model = drawn(seed, count, tuple(options.kind or KINDS)).model
                suite = carve(model, Path(folder) / "drawn.suite", name="drawn", compilers=CHOICES[options.compiler])
                own = [name for name in suite.kernels if suite.bundle(name)["compiler"]["name"] == "native"]
                total["kernels"] += len(suite.kernels)
                total["native"] += len(own)
                if options.compiler == "native":
                    wrong += [f"seed {seed}: {name} is not native" for name in suite.kernels if name not in own]
                for device in devices:
                    wrong += _wrong(server, suite, device, seed, total)
            print(f"{(number + 1) * AT_ONCE} cases: {dict(total)}", flush=True)
    print("\n".join(wrong) or "none is wrong")
    return 1 if wrong else 0


def _wrong(server: Server, suite: Suite, device: str, seed: int, total: Counter[str]) -> Sequence[str]:
    context = JobContext(suite, [server.state.device(device)], server.state.blobs, hang_seconds=60)
    document = run_job(JobSpecification(kind="validation", devices=[device], save=False, record=False), context)
    found = []
    for test in document["tests"]:
        message = test.get("message") or ""
        lacks = test["verdict"] == "unsupported" and LACKING in message
        total[f"{device} {'lacking a feature' if lacks else test['verdict']}"] += 1
        if test["verdict"] != "pass" and not lacks:
            found.append(f"seed {seed}, {device}: {test['kernel']} {test['verdict']}: {message[:300]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
