"""Which candidates of an operator are shipped: as few as are close to the fastest on every class of devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tapml.compilers.auto.combined import Offer
from tapml.compilers.auto.space import DEFAULT, Candidate
from tapml.compilers.native.matrices import FEATURES
from tapml.kernels.choice import DEFAULT_LIMITS
from tapml.kernels.device_class import GPU

CLOSE = 1.05
"""Times the least that any candidate takes: what is slower on a class is not chosen for it."""

MOST = 4
"""Variants of a kernel besides one of subgroup matrices, so that models stay small."""

NEVER = 1e9
"""Microseconds of what a class of devices cannot run, or takes too long for to be measured."""

_LIMITS = (
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupStorageSize",
    "maxSampledTexturesPerShaderStage",
    "maxStorageTexturesPerShaderStage",
    "maxTextureArrayLayers",
    "maxTextureDimension2D",
    "maxTextureDimension3D",
)
"""Those by which candidates differ."""


def chosen(offers: Sequence[Offer], *, measured: bool = True) -> list[Offer]:
    """Of those that every device can run, as few as are close to the fastest on each class that is told of, the fastest
    on an unknown GPU first; before them the fastest of subgroup matrices, where it is faster on some class. All offers
    tell of the same classes. `measured`: what GPUs take was; else the template's own one of subgroup matrices stands
    there, and tells nothing, so that each device which can run it does: it is made where the template's estimates, of a
    GPU that has such matrices, say that it is faster, and the model knows less. Empty where no device is sure to run
    any."""
    plain = [offer for offer in offers if everywhere(offer[0])]
    if not plain:
        return []
    classes = list(plain[0][1])
    found = _cover(plain, classes)
    if GPU in classes:
        found.sort(key=lambda offer: offer[1][GPU])
    elif (own := next((offer for offer in plain if offer[0].name == DEFAULT), None)) is not None:
        # Of GPUs nothing is known but what the template's own estimates are made for. They take the first.
        found = [own, *(offer for offer in found if offer[0] is not own[0])]
    matrices = [offer for offer in offers if _matrices(offer[0])]
    if matrices:
        first = min(matrices, key=lambda offer: min(offer[1].values()))
        if not measured:
            found.insert(0, (first[0], {}))
        elif any(CLOSE * first[1][name] < min(expected[name] for _, expected in found) for name in classes):
            found.insert(0, first)
    return found


def _cover(offers: Sequence[Offer], classes: Iterable[str]) -> list[Offer]:
    best = {name: min(expected[name] for _, expected in offers) for name in classes}
    left, found = set(best), list[Offer]()
    while left and len(found) < MOST:
        worths = [_worth(offer[1], left, best) for offer in offers]
        one = offers[worths.index(max(worths))]
        left -= {name for name in left if one[1][name] <= CLOSE * best[name]}
        found.append(one)
    return found


def _worth(expected: Mapping[str, float], left: Iterable[str], best: Mapping[str, float]) -> tuple[int, float]:
    """On how many of the classes that are left it is close to the best; and then how close to it on all."""
    good = sum(expected[name] <= CLOSE * best[name] for name in left)
    return good, -sum(min(expected[name] / best[name], 10.0) for name in best)


def everywhere(candidate: Candidate) -> bool:
    """Whether each device has what it asks for, but for the dtypes of its operator."""
    requires = candidate.variant["requires"]
    limits = requires["limits"]
    return not _matrices(candidate) and all(limits.get(name, 0) <= DEFAULT_LIMITS[name] for name in _LIMITS)


def _matrices(candidate: Candidate) -> bool:
    return FEATURES[0] in candidate.variant["requires"]["features"]
