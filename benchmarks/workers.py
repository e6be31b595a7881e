"""What a worker of a benchmark does: it carves cases, and validates them on devices, which stay started.

Names of cases come on standard input, one a line; each is answered with a JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.everywhere import built_problems
from benchmarks.pages import device_words
from benchmarks.pool import COMPILER
from tapml.compilers.base import Compiler
from tapml.compilers.choose import compilers_of
from tapml.errors import InputError, TapmlError
from tapml.server import Server
from tapml.suite import Suite
from tapml.zoo.judge import verdict_lines


def compiler() -> str | None:
    """`--compiler` of the benchmark, where it has one."""
    return os.environ.get(COMPILER)


def compilers() -> Sequence[Compiler]:
    """Those of `--compiler` of the benchmark."""
    return compilers_of(compiler())


class Worker(ABC):
    """Of one kind of cases."""

    def __init__(self, server: Server, devices: Sequence[str]) -> None:
        self._state = server.state
        self._devices = devices

    def run(self, name: str, folder: Path) -> dict[str, Any]:
        """What became of a case: `outcome` is right, wrong, refused or traceback; `why` says more."""
        try:
            return self.judged(name, folder)
        except TapmlError as error:
            return {"outcome": "refused", "why": str(error).replace(str(folder), "").lstrip("/")}
        except Exception:
            return {"outcome": "traceback", "why": traceback.format_exc()[-3000:]}

    @abstractmethod
    def judged(self, name: str, folder: Path) -> dict[str, Any]:
        """As `run`, with the `verdicts`. Raises TapmlError where the case is refused."""

    def verdicts(self, suite: Suite) -> dict[str, list[str]]:
        """Those of the suite's tests on each device, each once, with what the first that is no pass says."""
        return {device: self._verdicts(suite, device) for device in self._devices}

    def built(self, suite: Suite) -> dict[str, str]:
        """What is wrong with the model that is built of the suite, on this machine and on each device, empty where
        nothing is; `build` is why there is none."""
        try:
            return built_problems(suite, self._state, self._devices, overlook_doubts=True)
        except InputError as error:
            return {"build": str(error)}

    def _verdicts(self, suite: Suite, name: str) -> list[str]:
        return verdict_lines(suite, name, self._state.device(name), self._state.blobs)


def serve(devices: Sequence[str], make: Callable[[Server, Sequence[str]], Worker]) -> None:
    """Answer each line of standard input, on devices that are started before; `devices` says what they are."""
    with Server() as server:
        ran = {name: device_words(server.state.device(name).describe()) for name in devices}
        worker = make(server, devices)
        print("ready", flush=True)
        for line in sys.stdin:
            name, began = line.rstrip("\n"), time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="tapml-benchmark-") as folder:
                answer = worker.run(name, Path(folder))
            seconds = time.perf_counter() - began
            print(json.dumps({"name": name, "seconds": seconds, "devices": ran, **answer}), flush=True)
