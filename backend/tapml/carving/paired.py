"""Which of a run's values are which of the oracle's: found by what they are, for names do not survive compilation.

A run that agrees with its oracle as a whole has values that are near to the oracle's. What rounding, or a small fault,
makes of a value is far less than what another value is away; where two of the oracle's are so near to each other that
it could be either, neither is taken.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapml.carving.grouped import Group, groups
from tapml.carving.runs import Run
from tapml.carving.spill import let_go
from tapml.importing.model import Array
from tapml.program import Graph, Node, NodeKind

_SAMPLES = 2048
_NEAR = 2.0**-5
"""How far a value may be away from what it is, as a share of its size."""
_CLEARLY = 16.0
"""Times that another must be further away."""
_SMALLEST = 2.0**-23
_FILL = 0.25
"""Of the largest number of a dtype: beyond it, it stands for infinity. Masks are filled so, and may be added."""


@dataclass(frozen=True)
class Seen:
    """What is kept of a value of the oracle's: what it is for people, and some of its elements."""

    said: str
    shape: tuple[int, ...]
    is_float: bool
    sample: Array
    digest: bytes

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @functools.cached_property
    def known(self) -> _Sampled:
        """Its sample."""
        return _Sampled(self.sample)


@dataclass(frozen=True)
class _Sampled:
    """Some elements of a value."""

    sample: Array

    @functools.cached_property
    def finite(self) -> Array | None:
        """Which of them are; None where all are."""
        found = np.isfinite(self.sample)
        return None if found.all() else found

    @functools.cached_property
    def length(self) -> float:
        """Of those that are finite, as a vector."""
        return _length(self.sample if self.finite is None else self.sample[self.finite])


def seen(said: str, array: Array) -> Seen | None:
    """None of what is no tensor of numbers, or has none."""
    if not isinstance(array, np.ndarray) or not array.size or array.dtype.kind not in "fiub":
        return None
    return Seen(said, array.shape, array.dtype.kind == "f", _sample(array), digest(array))


def digest(array: Array) -> bytes:
    """The same for arrays of the same bytes."""
    # Of what processors compute themselves: twice as fast as blake2b.
    return hashlib.sha256(np.ascontiguousarray(array).data).digest()


@dataclass(frozen=True)
class Paired:
    """A value of the oracle's: what it is for people, and what it is in the shape and dtype of ours, where that is
    known already. `unit`: of the dtype that the oracle has it in, which may be coarser than that of ours."""

    said: str
    array: Array | None = None
    unit: float = 0.0


def like(array: Array, own: Array) -> Array:
    """The oracle's array in the shape and dtype of ours."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.reshape(own.shape).astype(own.dtype, copy=False)


@dataclass(frozen=True)
class Pairs:
    """By value of a run's graph: all that are one of the oracle's, and of these `held` what is held against it."""

    all: dict[str, Paired]
    held: dict[str, Paired]


def paired(run: Run, oracle: Iterable[Seen], outputs: list[str], rounds: Callable[[Group], bool]) -> Pairs:
    """`outputs` are what the model calls its outputs, which need not be found. `rounds` tells of operators whether they
    do more than to move, select, compare or widen values."""
    kinds: dict[tuple[int, bool], list[Seen]] = {}
    for one in oracle:
        kinds.setdefault((one.size, one.is_float), []).append(one)
    claims: dict[str, list[_Claim]] = {}
    # A view has the values of what it shows.
    for value in (value for node in run.graph.kernel_nodes for value in node.outputs):
        own = run.arrays[value]
        if (claim := _nearest(value, own, kinds.get((own.size, _is_float(own)), []))) is not None:
            claims.setdefault(claim.candidate.said, []).append(claim)
        let_go([own])
    nearest = [claim for rivals in claims.values() for claim in _clearly_nearest(rivals)]
    found = {claim.value: Paired(claim.candidate.said) for claim in nearest}
    given = {
        value: Paired(f"output {name}", wanted)
        for value, name, wanted in zip(run.graph.outputs, outputs, run.step.expected or [], strict=False)
        if value not in run.graph.inputs and wanted.shape == run.arrays[value].shape and wanted.size
    }
    return Pairs(found | given, _last(run, found, rounds) | given)


def near(one: Array, other: Array | Seen) -> bool:
    """Whether they may be the same value, up to a small fault."""
    known = other.known if isinstance(other, Seen) else _Sampled(_sample(other))
    return one.size == other.size and _distance(_Sampled(_sample(one)), known) <= _NEAR


def strangers(run: Run, among: Run, jumps: Callable[[Node], bool]) -> list[tuple[Node, str]]:
    """Values that the operators of a run give, and that no value of another run of the same model is anywhere near.
    `among` need not have what only outputs of integers are made of, or outputs that it does not give itself: a model in
    detail gives floating-point values, and none whose shape is not known (the rows of a loop that ends by its values).

    What an operator gives that `jumps` tells nothing where the other run has what it takes in other last places: it
    chose otherwise between what is nearly equal. Nor does what is made of that. An integer may lie within one of the
    other run's operators, where none of its values is it: if it is wrong, so is the number that is made of it.
    """
    # Nearly all are the same to the last bit: there are thousands of either where a loop is written out.
    known = {(array.dtype, digest(array)) for array in among.arrays.values()}
    samples: dict[int, list[_Sampled]] = {}
    for array in among.arrays.values():
        samples.setdefault(array.size, []).append(_Sampled(_sample(array)))

    def strange(own: Array) -> bool:
        if not own.size or (own.dtype, digest(own)) in known:
            return False
        sample = _Sampled(_sample(own))
        return not any(_distance(sample, other) <= _NEAR for other in samples.get(own.size, ()))

    def moved(value: str) -> bool:
        array = run.arrays[value]
        return (array.dtype, digest(array)) not in known

    found: list[tuple[Node, str]] = []
    excused: set[str] = set()
    given = {value for value in run.graph.outputs if _is_float(run.arrays[value]) and not strange(run.arrays[value])}
    for node in _behind(run.graph, given):
        of_excused = not excused.isdisjoint(node.inputs)
        for value in node.outputs:
            if not strange(run.arrays[value]):
                continue
            if of_excused or (node.kind is NodeKind.KERNEL and jumps(node) and any(map(moved, node.inputs))):
                excused.add(value)
            elif node.kind is NodeKind.KERNEL and _is_float(run.arrays[value]):
                found.append((node, value))
    return found


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _behind(graph: Graph, values: Collection[str]) -> list[Node]:
    """What they are made of, in order."""
    wanted = set(values)
    found: list[Node] = []
    for node in reversed(graph.nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(node.inputs)
            found.append(node)
    return found[::-1]


@dataclass(frozen=True)
class _Claim:
    """A value of ours that is nearest to a candidate, by `distance`."""

    value: str
    sample: _Sampled
    candidate: Seen
    distance: float


def _nearest(value: str, own: Array, candidates: list[Seen]) -> _Claim | None:
    sample = _Sampled(_sample(own))
    distances = [_distance(sample, other.known) for other in candidates]
    if not distances or (best := min(distances)) > _NEAR:
        return None
    chosen = candidates[distances.index(best)]
    limit = _CLEARLY * max(best, _SMALLEST)
    for distance, other in zip(distances, candidates, strict=True):
        if distance <= limit and not np.array_equal(other.sample, chosen.sample, equal_nan=True):
            return None
    return _Claim(value, sample, chosen, best)


def _clearly_nearest(rivals: list[_Claim]) -> list[_Claim]:
    """The one that is nearest, and what is the same; none where others are about as near."""
    best = min(rivals, key=lambda claim: claim.distance)
    limit = _CLEARLY * max(best.distance, _SMALLEST)
    near = [claim for claim in rivals if claim.distance <= limit]
    same = [claim for claim in near if _distance(claim.sample, best.sample) <= 2 * _SMALLEST]
    return near if len(same) == len(near) else []


def _last(run: Run, pairs: dict[str, Paired], rounds: Callable[[Group], bool]) -> dict[str, Paired]:
    """Without what is rounded on the way to another that is taken for the same value of the oracle's: products by 1 and
    sums with 0 change nothing of ours, and the oracle, whose weights are not quite 0 and 1, may have the last alone."""
    while True:
        early = {
            value
            for group in groups(run.graph, pairs)
            for value in group.inputs
            if value in pairs and pairs[value].said == pairs[group.value].said and rounds(group)
        }
        if not early:
            return pairs
        # What only copies one of these is copied on the way to the last as well: it shows once they are gone.
        pairs = {value: pair for value, pair in pairs.items() if value not in early}


def without_fill(array: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """With the same number for all that stand for infinity in a tensor of `dtype` (its own), of each sign: how large a
    mask's are nothing tells."""
    if array.dtype.kind != "f":
        return array
    most = float(np.finfo(np.float16 if (dtype or array.dtype) == np.float16 else np.float32).max) * _FILL
    return np.clip(array, -most, most)


def _sample(array: Array) -> Array:
    """Elements at random places, the same of all arrays of a size."""
    flat = array.reshape(-1)
    if flat.size > _SAMPLES:
        flat = flat[np.random.default_rng(flat.size).integers(0, flat.size, _SAMPLES)]
    return without_fill(flat).astype(np.float64)


def _distance(one: _Sampled, two: _Sampled) -> float:
    """How far the first is from the second, as a share of the second's size."""
    if one.finite is None and two.finite is None:
        away = _length(one.sample - two.sample)
    elif one.finite is None or two.finite is None or not np.array_equal(one.finite, two.finite):
        return float("inf")
    else:
        away = _length(one.sample[one.finite] - two.sample[two.finite])
    return 0.0 if away == 0 else away / two.length if two.length else float("inf")


def _length(vector: Array) -> float:
    return math.sqrt(float(vector @ vector))
