"""Judges decoders that it is told on standard input, as `tapml zoo` does."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.workers import Worker, compiler, serve
from tapml.zoo.code import DEFAULT
from tapml.zoo.judge import judged


class Decoders(Worker):
    """Of configurations, by name, with random weights."""

    def judged(self, name: str, folder: Path) -> dict[str, Any]:
        devices = {device: self._state.device(device) for device in self._devices}
        return judged(name, folder, devices, self._state.blobs, compiler=compiler() or DEFAULT)


if __name__ == "__main__":
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    serve(sys.argv[1:], Decoders)
