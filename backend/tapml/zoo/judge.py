"""What becomes of a configuration: what is made of it is validated on devices, and run for a prompt and the tokens
behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tapml.compiled.call import CompiledRun
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.devices.device import Device
from tapml.jobs.job import JobSpecification, run_job
from tapml.platforms.compiled import run_on_cpu
from tapml.program.generation import call_inputs
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.zoo.code import DEFAULT, code, codes, compiler_of, of_this_code
from tapml.zoo.made import PROMPT, Made, made

CPU = "cpu"

Runs = Callable[[CompiledFiles, Sequence[Mapping[str, np.ndarray]]], CompiledRun]
Record = dict[str, Any]


def judged(
    name: str,
    folder: Path,
    devices: Mapping[str, Device],
    blobs: Any,
    before: Mapping[str, Any] | None = None,
    any_code: bool = False,
    compiler: str = DEFAULT,
) -> Record:
    """A record: `outcome` is right or wrong, `why` says more, `tokens` how many each place gives before it gives
    another, of as many as `wanted`; `codes` made and ran it, with kernels of `compiler`. What is made lies in `folder`,
    or is made there; what `before` says of other places is kept, and not done again. Of both what other code made or
    ran counts only with `any_code`, and what has kernels of another compiler not at all.

    Raises TapmlError where the configuration is refused.
    """
    model = made(name, folder, any_code, compiler)
    known: Mapping[str, Any] = {"tokens": {}, "verdicts": {}, "codes": []}
    if before is not None and "tokens" in before and compiler_of(before) == compiler:
        known = before if any_code or of_this_code(before) else known
    places: dict[str, Runs] = {CPU: _on_cpu}
    for place, device in devices.items():
        places[place] = partial(_on_device, device, blobs)
    new = {place: runs for place, runs in places.items() if place not in known["tokens"]}
    tokens = {**known["tokens"], **_generated(model, new)}
    said = [f"on {where} token {place + 1} is another" for where, place in tokens.items() if place < len(model.wanted)]
    doubts = [doubt for suite in model.suites.values() for doubt in suite.doubts]
    doubts += [missing for suite in model.suites.values() if (missing := suite.manifest.get("oracle_missing"))]
    verdicts = {
        place: [line for suite in model.suites.values() for line in verdict_lines(suite, place, device, blobs)]
        for place, device in devices.items()
        if place not in known["verdicts"]
    }
    return {
        "outcome": "wrong" if doubts or said else "right",
        "why": "; ".join([*map(str, doubts), *said]),
        "noticed": bool(doubts),
        "kernels": sum(len(suite.kernels) for suite in model.suites.values()),
        "calls": sum(len(suite.tests) for suite in model.suites.values()),
        "distinct": len(set(model.wanted)),
        "wanted": len(model.wanted),
        "codes": [*dict.fromkeys([*codes(known), model.code, code()])],
        "compiler": compiler,
        "tokens": tokens,
        "verdicts": {**known["verdicts"], **verdicts},
    }


def verdict_lines(suite: Suite, name: str, device: Device, blobs: Any) -> list[str]:
    """Of the suite's tests that do not pass on a device, each once, what the first says."""
    context = JobContext(suite, [device], blobs, hang_seconds=10)
    document = run_job(JobSpecification(kind="validation", devices=[name], save=False, record=False), context)
    tests = [test for test in document["tests"] if test["verdict"] != "pass"]
    return list(dict.fromkeys(f"{test['verdict']}: {test.get('message')}" for test in tests))


def _generated(model: Made, places: Mapping[str, Runs]) -> dict[str, int]:
    """How many of the wanted tokens each place gives before it gives another."""
    tokens, prompt = [*PROMPT, *model.wanted], len(PROMPT)
    ends = [*range(model.chunk, prompt, model.chunk), *range(prompt, len(tokens))]
    calls = [call_inputs(tokens[begin:end], begin) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    found = {}
    for place, runs in places.items():
        also = {} if model.source is None else runs(model.models["encoder"], [{"source": model.source}]).outputs[0]
        found[place] = _same(runs(model.models["decoder"], [{**call, **also} for call in calls]), model.wanted)
    return found


def _on_device(device: Device, blobs: Any, model: CompiledFiles, calls: Any) -> CompiledRun:
    return run_compiled(device, blobs, model, calls, function=_function(model), hang_seconds=30)


def _on_cpu(model: CompiledFiles, calls: Any) -> CompiledRun:
    return run_on_cpu(model, calls, function=_function(model))


def _function(files: CompiledFiles) -> str | None:
    """That of some tokens, which takes one, too; what does not generate has one."""
    return files.model.generation.prefill if files.model.generation else None


def _same(run: CompiledRun, wanted: Sequence[int]) -> int:
    """How many tokens are the same, from the first on. Each call is given what is wanted, whatever the one before
    gave."""
    got = [int(np.argmax(outputs["logits"])) for outputs in run.outputs[-len(wanted) :]]
    return next((place for place, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]), len(got))
