"""What becomes of a configuration: it is imported with random weights, carved, validated on devices, built, and run for
a prompt and the tokens behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.call import CompiledRun
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.devices.device import Device
from tapml.importing import import_decoder
from tapml.jobs.job import JobSpecification, run_job
from tapml.platforms.compiled import run_on_cpu
from tapml.program.generation import call_inputs
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.zoo.configurations import configuration

CPU = "cpu"
PROMPT = [3, 17, 42, 99, 7, 100, 31, 55, 12, 60, 4]
COUNT = 48
CAPACITY, CHUNK = 64, 8
"""The prompt and what follows fit; its 11 tokens are two chunks."""


_SEEDS, _MANY = 24, 12
"""Of weights that are tried, until there are so many different tokens."""

Runs = Callable[[CompiledFiles, Sequence[Mapping[str, np.ndarray]]], CompiledRun]


def judged(name: str, folder: Path, devices: Mapping[str, Device], blobs: Any) -> dict[str, Any]:
    """A record: `outcome` is right or wrong, `why` says more, `tokens` how many each place gives before it gives
    another. Raises TapmlError where the configuration is refused. `folder` is empty, and written."""
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
    places: dict[str, Runs] = {CPU: _on_cpu}
    for place, device in devices.items():
        places[place] = partial(_on_device, device, blobs)
    found = _generated(suites, wanted, chunk, source, places)
    wrong = {where: place for where, place in found.items() if place < COUNT}
    said = [f"on {where} token {place + 1} is another" for where, place in wrong.items()]
    doubts = [doubt for suite in suites.values() for doubt in suite.doubts]
    doubts += [missing for suite in suites.values() if (missing := suite.manifest.get("oracle_missing"))]
    return {
        "outcome": "wrong" if doubts or wrong else "right",
        "why": "; ".join([*map(str, doubts), *said]),
        "noticed": bool(doubts),
        "kernels": sum(len(suite.kernels) for suite in suites.values()),
        "calls": sum(len(suite.tests) for suite in suites.values()),
        "distinct": len(set(wanted)),
        "tokens": found,
        "verdicts": {
            place: [line for suite in suites.values() for line in verdict_lines(suite, place, device, blobs)]
            for place, device in devices.items()
        },
    }


def verdict_lines(suite: Suite, name: str, device: Device, blobs: Any) -> list[str]:
    """Of the suite's tests that do not pass on a device, each once, what the first says."""
    context = JobContext(suite, [device], blobs, hang_seconds=10)
    document = run_job(JobSpecification(kind="validation", devices=[name], save=False, record=False), context)
    tests = [test for test in document["tests"] if test["verdict"] != "pass"]
    return list(dict.fromkeys(f"{test['verdict']}: {test.get('message')}" for test in tests))


def _generated(
    suites: Mapping[str, Suite],
    wanted: Sequence[int],
    chunk: int,
    source: np.ndarray | None,
    places: Mapping[str, Runs],
) -> dict[str, int]:
    """How many of the wanted tokens each place gives before it gives another."""
    models = {
        name: CompiledFiles(build(suite, suite.path.with_suffix(".tapml"), keep_disagreeing=True).path)
        for name, suite in suites.items()
    }
    tokens = [*PROMPT, *wanted]
    ends = [*range(chunk, len(PROMPT), chunk), *range(len(PROMPT), len(tokens))]
    calls = [call_inputs(tokens[begin:end], begin) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    found = {}
    for place, runs in places.items():
        also = {} if source is None else runs(models["encoder"], [{"source": source}]).outputs[0]
        found[place] = _same(runs(models["decoder"], [{**call, **also} for call in calls]), wanted)
    return found


def _on_device(device: Device, blobs: Any, model: CompiledFiles, calls: Any) -> CompiledRun:
    return run_compiled(device, blobs, model, calls, function=_function(model), hang_seconds=30)


def _on_cpu(model: CompiledFiles, calls: Any) -> CompiledRun:
    return run_on_cpu(model, calls, function=_function(model))


def _function(files: CompiledFiles) -> str | None:
    """That of some tokens, which takes one, too; what does not generate has one."""
    return files.model.generation.prefill if files.model.generation else None


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


def _same(run: CompiledRun, wanted: Sequence[int]) -> int:
    """How many tokens are the same, from the first on. Each call is given what is wanted, whatever the one before
    gave."""
    got = [int(np.argmax(outputs["logits"])) for outputs in run.outputs[-len(wanted) :]]
    return next((place for place, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]), len(got))
