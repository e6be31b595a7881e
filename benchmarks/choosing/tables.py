"""Tables of times: measured here, of measure.mjs' results, of several runs, and as they come with tapml."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tapml as tml
from benchmarks.choosing.operators import operators_of
from tapml.api.devices import WebGpuDevice
from tapml.compilers.auto.table import FORMAT, Measured, MeasuredKernel, Tuned, text_key
from tapml.kernels.device_class import device_classes
from tapml.tuning.timing import Timing
from tapml.tuning.tune import Told, tune

_WORTH_KEEPING = 1.3
"""Times the least: what takes longer on all devices is left out of what comes with tapml."""

_LONG = ("2048x2048", "500x4096", "4096x4095", "512x4097", "4096x4096, by", "4097x4095, by", "attention, 512")
"""Works that say of a GPU in software what others say that take less time."""


def measured(device: str, models: Sequence[str], told: Callable[[Told], None]) -> Tuned:
    """Of all operators of these models in float32, on a device of this machine."""
    found = tml.webgpu(device)
    assert isinstance(found, WebGpuDevice)
    operators = [
        (name, operator)
        for model in models
        for name, operator, _ in operators_of(model)
        if "float16" not in name and not any(part in name for part in _LONG)
    ]
    timing = Timing(found.session.device, found.session.blobs, turns=4, hang_seconds=15.0)
    return tune(operators, timing, told)


def of_result(plan: Path, result: Path) -> Tuned:
    """Of what measure.mjs said of a plan (plan.py)."""
    works = json.loads(gzip.decompress(plan.read_bytes()))["works"]
    lines = [json.loads(line) for line in result.read_text().splitlines() if line.startswith("{")]
    adapter = next(line["adapter"] for line in lines if "adapter" in line)
    by_name = {line["name"]: line for line in lines if "candidates" in line}
    kernels = []
    for work in works:
        if (line := by_name.get(work["name"])) is None:
            continue
        texts = {one["parameters"]: [launch["text"] for launch in one["launches"]] for one in work["candidates"]}
        candidates = [_of_line(one, texts[one["parameters"]]) for one in line["candidates"]]
        kernels.append(MeasuredKernel(operator=work["digest"], name=work["name"][:100], candidates=candidates))
    shown = adapter["description"] or adapter["device"] or adapter["vendor"]
    return Tuned(format=FORMAT, classes=device_classes(adapter), device=shown, clock="gpu", kernels=kernels)


_APART = {"float32": 1e-3, "float16": 5e-2}


def _of_line(one: dict[str, Any], texts: Sequence[str]) -> Measured:
    # Entry points of a kernel share a text where TVM makes several: a text is one file's.
    key = text_key(list(dict.fromkeys(texts)))
    if "us" not in one:
        return Measured(name=one["parameters"], text=key, refused=str(one.get("error", "no time"))[:300])
    return Measured(name=one["parameters"], text=key, microseconds=one["us"])


def least(tables: Sequence[Tuned]) -> Tuned:
    """One of several of the same device: of each candidate the least time."""
    kernels: dict[str, MeasuredKernel] = {}
    for table in tables:
        for kernel in table.kernels:
            before = kernels.get(kernel.operator)
            kernels[kernel.operator] = kernel if before is None else _least(before, kernel)
    return tables[0].model_copy(update={"kernels": list(kernels.values())})


def _least(one: MeasuredKernel, other: MeasuredKernel) -> MeasuredKernel:
    found = {(candidate.name, candidate.text): candidate for candidate in one.candidates}
    for candidate in other.candidates:
        before = found.get((candidate.name, candidate.text))
        if before is None or (candidate.microseconds or 1e99) < (before.microseconds or 1e99):
            found[candidate.name, candidate.text] = candidate
    return one.model_copy(update={"candidates": list(found.values())})


def worth_keeping(tables: Sequence[Tuned]) -> list[Tuned]:
    """What comes with tapml: of each operator what both compilers make first, and what is among the fastest on some
    device, with its time on all."""
    kept: defaultdict[str, set[str]] = defaultdict(lambda: {"tvm", "native"})
    for table in tables:
        for kernel in table.kernels:
            times = {one.name: one.microseconds for one in kernel.candidates if one.microseconds}
            least = min(times.values(), default=0.0)
            kept[kernel.operator] |= {name for name, spent in times.items() if spent <= _WORTH_KEEPING * least}
    return [
        table.model_copy(
            update={
                "kernels": [
                    kernel.model_copy(
                        update={"candidates": [one for one in kernel.candidates if one.name in kept[kernel.operator]]}
                    )
                    for kernel in table.kernels
                    if any(one.microseconds for one in kernel.candidates)
                ]
            }
        )
        for table in tables
    ]
