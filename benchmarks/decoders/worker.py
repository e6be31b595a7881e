"""Imports, carves, validates and builds decoders that it is told on standard input, and generates with them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decoders.configurations import configuration
from benchmarks.everywhere import CPU
from benchmarks.workers import Worker, serve
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.call import CompiledRun
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.importing import import_decoder
from tapml.platforms.compiled import run_on_cpu
from tapml.suite import Suite

PROMPT = [3, 17, 42, 99, 7, 100, 31, 55, 12, 60, 4]
COUNT = 48
CAPACITY, CHUNK = 64, 8
"""The prompt and what follows fit; its 11 tokens are two chunks."""


_SEEDS, _MANY = 8, 12
"""Of weights that are tried, until there are so many different tokens."""


class Decoders(Worker):
    """Of configurations, by name, with random weights."""

    def judged(self, name: str, folder: Path) -> dict[str, Any]:
        configuration(name).save_pretrained(folder)
        config = folder / "config.json"
        seed, wanted = _telling(config)
        imported = import_decoder(config, prompt=PROMPT, steps=2, capacity=CAPACITY, chunk=CHUNK, seed=seed)
        suite = carve(imported, folder / "case.suite", name="case", keep_disagreeing=True)
        found = self._generated(suite, wanted, folder / "case.tapml")
        wrong = {where: place for where, place in found.items() if place < COUNT}
        said = [f"on {where} token {place + 1} is another" for where, place in wrong.items()]
        return {
            "outcome": "wrong" if suite.doubts or wrong else "right",
            "why": "; ".join([*map(str, suite.doubts), *said]),
            "noticed": bool(suite.doubts),
            "kernels": len(suite.kernels),
            "calls": len(suite.tests),
            "distinct": len(set(wanted)),
            "tokens": found,
            "verdicts": self.verdicts(suite),
        }

    def _generated(self, suite: Suite, wanted: Sequence[int], path: Path) -> dict[str, int]:
        """How many of the wanted tokens each place gives before it gives another."""
        files = CompiledFiles(build(suite, path, keep_disagreeing=True).path)
        tokens = [*PROMPT, *wanted]
        ends = [CHUNK, *range(len(PROMPT), len(tokens))]
        calls = [_call(tokens, begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
        found = {CPU: _same(run_on_cpu(files, calls), wanted)}
        for name in self._devices:
            device = self._state.device(name)
            found[name] = _same(run_compiled(device, self._state.blobs, files, calls, hang_seconds=30), wanted)
        return found


def _telling(config: Path) -> tuple[int, list[int]]:
    """transformers' own tokens, of the first seed that gives many different ones: a model of random weights may repeat
    one for ever, whatever its attention does. Of those that give few the one with most."""
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    found: list[tuple[int, list[int]]] = []
    for seed in range(_SEEDS):
        found.append((seed, greedy(open_decoder(config, seed).model, PROMPT, COUNT)))
        if len(set(found[-1][1])) >= _MANY:
            break
    return max(found, key=lambda pair: len(set(pair[1])))


def _call(tokens: Sequence[int], begin: int, end: int) -> dict[str, np.ndarray]:
    return {
        "input_ids": np.array([tokens[begin:end]], np.int32),
        "positions": np.arange(begin, end, dtype=np.int32),
        "last": np.array([end - begin - 1], np.int32),
    }


def _same(run: CompiledRun, wanted: Sequence[int]) -> int:
    """How many tokens are the same, from the first on. Each call is given what is wanted, whatever the one before
    gave."""
    got = [int(np.argmax(outputs["logits"])) for outputs in run.outputs[1:]]
    return next((place for place, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]), len(got))


if __name__ == "__main__":
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    serve(sys.argv[1:], Decoders)
