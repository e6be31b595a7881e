"""Imports, carves, validates and builds decoders that it is told on standard input, and generates with them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
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


_SEEDS, _MANY = 24, 12
"""Of weights that are tried, until there are so many different tokens."""


class Decoders(Worker):
    """Of configurations, by name, with random weights."""

    def judged(self, name: str, folder: Path) -> dict[str, Any]:
        configuration(name).save_pretrained(folder)
        config = folder / "config.json"
        seed, wanted, source = _telling(config)
        suites = {}
        if source is not None:
            encoder = import_decoder(config, seed=seed, encoder=True)
            suites["encoder"] = carve(encoder, folder / "encoder.suite", name="encoder", keep_disagreeing=True)
        imported = import_decoder(config, prompt=PROMPT, steps=2, capacity=CAPACITY, chunk=CHUNK, seed=seed)
        suites["decoder"] = carve(imported, folder / "decoder.suite", name="decoder", keep_disagreeing=True)
        chunk = imported.steps[0].inputs["input_ids"].shape[1]
        found = self._generated(suites, wanted, chunk, source)
        wrong = {where: place for where, place in found.items() if place < COUNT}
        said = [f"on {where} token {place + 1} is another" for where, place in wrong.items()]
        doubts = [doubt for suite in suites.values() for doubt in suite.doubts]
        verdicts = [self.verdicts(suite) for suite in suites.values()]
        return {
            "outcome": "wrong" if doubts or wrong else "right",
            "why": "; ".join([*map(str, doubts), *said]),
            "noticed": bool(doubts),
            "kernels": sum(len(suite.kernels) for suite in suites.values()),
            "calls": sum(len(suite.tests) for suite in suites.values()),
            "distinct": len(set(wanted)),
            "tokens": found,
            "verdicts": {name: [line for each in verdicts for line in each[name]] for name in self._devices},
        }

    def _generated(
        self, suites: Mapping[str, Suite], wanted: Sequence[int], chunk: int, source: np.ndarray | None
    ) -> dict[str, int]:
        """How many of the wanted tokens each place gives before it gives another."""
        models = {
            name: CompiledFiles(build(suite, suite.path.with_suffix(".tapml"), keep_disagreeing=True).path)
            for name, suite in suites.items()
        }
        tokens = [*PROMPT, *wanted]
        ends = [*range(chunk, len(PROMPT), chunk), *range(len(PROMPT), len(tokens))]
        calls = [_call(tokens, begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

        def on_device(name: str) -> Runs:
            return lambda model, calls: run_compiled(
                self._state.device(name), self._state.blobs, model, calls, hang_seconds=30
            )

        found = {}
        for place, runs in {CPU: run_on_cpu, **{name: on_device(name) for name in self._devices}}.items():
            also = {} if source is None else runs(models["encoder"], [{"source": source}]).outputs[0]
            found[place] = _same(runs(models["decoder"], [{**call, **also} for call in calls]), wanted)
        return found


Runs = Callable[[CompiledFiles, Sequence[Mapping[str, np.ndarray]]], CompiledRun]


def _telling(config: Path) -> tuple[int, list[int], np.ndarray | None]:
    """transformers' own tokens, of the first seed that gives many different ones: a model of random weights may repeat
    one for ever, whatever its attention does. Of those that give few the one with most. And what its encoder is given,
    where it has one."""
    from tapml.importing.hf_encoder import has_encoder, source_of
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    found: list[tuple[int, list[int], np.ndarray | None]] = []
    for seed in range(_SEEDS):
        model = open_decoder(config, seed).model
        source = source_of(model, None, seed) if has_encoder(model) else None
        array = None if source is None else next(iter(source.values())).numpy()
        found.append((seed, greedy(model, PROMPT, COUNT, source), array))
        if len(set(found[-1][1])) >= _MANY:
            break
    return max(found, key=lambda each: len(set(each[1])))


def _call(tokens: Sequence[int], begin: int, end: int) -> dict[str, np.ndarray]:
    return {
        "input_ids": np.array([tokens[begin:end]], np.int32),
        "positions": np.arange(begin, end, dtype=np.int32),
        "last": np.array([end - begin - 1], np.int32),
    }


def _same(run: CompiledRun, wanted: Sequence[int]) -> int:
    """How many tokens are the same, from the first on. Each call is given what is wanted, whatever the one before
    gave."""
    got = [int(np.argmax(outputs["logits"])) for outputs in run.outputs[-len(wanted) :]]
    return next((place for place, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]), len(got))


if __name__ == "__main__":
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    serve(sys.argv[1:], Decoders)
