"""What a kernel is expected to take on classes of devices: by tables, where these know it, else by a model.

The model is that of MNN's search: the time of an algorithm is what it does over how fast a device does it, and what
scheduling it costs. Here both are sums over what is counted in the text (cost.py); how fast a class of devices is was
fitted to tables (benchmarks/choosing).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources

from tapml.compilers.auto.choice import NEVER
from tapml.compilers.auto.combined import Offer
from tapml.compilers.auto.cost import Cost, cost
from tapml.compilers.auto.space import DEFAULT, Candidate
from tapml.compilers.auto.table import MeasuredKernel, Tuned
from tapml.kernels.device_class import GPU, SOFTWARE

KINDS = (GPU, SOFTWARE)


@functools.cache
def coefficients() -> dict[str, list[float]]:
    """By kind of device: microseconds of each number of a Cost, and first those of a call."""
    text = (resources.files("tapml.compilers.auto") / "model.json").read_text()
    found: dict[str, list[float]] = json.loads(text)
    return found


def modelled(candidate: Candidate, sizes: Mapping[str, int]) -> dict[str, float] | None:
    """By kind of device; None where its text is not understood."""
    counted = cost(candidate.kernel, candidate.variant, sizes, keep=candidate.name == "tvm")
    if counted is None:
        return None
    return {kind: microseconds(kind, counted) for kind in coefficients()}


def microseconds(kind: str, counted: Cost) -> float:
    """What a call that does this takes on a kind of devices."""
    numbers = 1.0, *counted.numbers
    own = coefficients()[kind]
    return max(1e-3, math.fsum(each * number for each, number in zip(own, numbers, strict=True)))


def offers(
    candidates: Sequence[Candidate], tables: Sequence[tuple[Tuned, MeasuredKernel]], sizes: Mapping[str, int]
) -> list[Offer]:
    """Each candidate with what it takes on all classes that the tables are of, and on each kind of device: by the
    tables of that kind, or else by the model. `tables`: with what they say of the operator."""
    found: list[tuple[Candidate, dict[str, float]]] = [(candidate, {}) for candidate in candidates]
    keys = [candidate.key for candidate in candidates] if tables else []
    for table, kernel in tables:
        known = {(one.name, one.text): one.microseconds for one in kernel.candidates}
        for (candidate, expected), key in zip(found, keys, strict=True):
            expected[table.classes[0]] = known.get((candidate.name, key)) or NEVER
    for kind in KINDS:
        names = [table.classes[0] for table, _ in tables if kind in table.classes]
        if not names:
            continue
        for _, expected in found:
            expected[kind] = math.exp(sum(math.log(expected[name]) for name in names) / len(names))
    missing = [kind for kind in coefficients() if not any(kind in table.classes for table, _ in tables)]
    if missing:
        for candidate, expected in found:
            guessed = modelled(candidate, sizes) or {}
            expected.update({kind: guessed.get(kind, NEVER) for kind in missing})
    return list(found)


def by_own_estimates(found: Sequence[Offer]) -> list[Offer]:
    """The offers of an operator that no table of a GPU knows, where a template's own estimates choose for GPUs among
    the native ones: they are of measurements there, and know more than the model does of products of few rows. The one
    that they choose takes there what the model expects of the fastest."""
    native = [expected[GPU] for candidate, expected in found if candidate.name != "tvm"]
    of_gpus = {DEFAULT: {GPU: min(native, default=NEVER)}, "tvm": {}}
    return [(candidate, {**expected, **of_gpus.get(candidate.name, {GPU: NEVER})}) for candidate, expected in found]
