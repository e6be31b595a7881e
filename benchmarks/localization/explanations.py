"""How good the sentences are that locate says of faulty kernels (`make bench-explanations`, docs/localization.md)."""

from __future__ import annotations

import argparse
import time

from benchmarks.localization import models
from benchmarks.localization.recording import chosen, recorded
from benchmarks.localization.run import RESULTS, say
from tapml.server import Server


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="node-dawn")
    parser.add_argument("--models", nargs="+", choices=models.MODELS, default=list(models.MODELS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=4, help="bugs of each mutation operator and model")
    options = parser.parse_args()
    folder = RESULTS / "explanations"
    with Server() as server:
        for name in options.models:
            suite = models.suite(name)
            bugs = chosen(name, suite, options.seed, options.each)
            started = time.monotonic()
            for record in recorded(name, suite, bugs, folder, lambda: server.state.device(options.device), server.state.blobs):
                pass
            say(f"{name}: {len(bugs)} bugs, {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
