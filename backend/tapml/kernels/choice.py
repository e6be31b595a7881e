"""Which variant of a kernel a device runs.

The runner has the same (`bestFitting` in runner_js/src/program/requirements.ts); tests/vectors/choices.json is held
against both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeVar

from tapml.kernels.device_class import device_classes
from tapml.protocol.kernels import Requires

_LESS_IS_MORE = re.compile(r"^min|^subgroupMaxSize$")


class _Variant(Protocol):
    @property
    def requires(self) -> Requires: ...

    @property
    def expected(self) -> Mapping[str, float] | None: ...


Variant = TypeVar("Variant", bound=_Variant)


def fits(requires: Requires, features: Collection[str], limits: Mapping[str, float]) -> bool:
    """Whether a device with these has all that is asked for. A limit that it does not know cannot be checked ahead."""
    if not all(feature in features for feature in requires.features):
        return False
    for name, wanted in requires.limits.items():
        allowed = limits.get(name, wanted)
        if stricter(name, allowed, wanted) != allowed:
            return False
    return True


DEFAULT_LIMITS: Mapping[str, float] = MappingProxyType(
    {
        "maxComputeInvocationsPerWorkgroup": 256,
        "maxComputeWorkgroupSizeX": 256,
        "maxComputeWorkgroupSizeY": 256,
        "maxComputeWorkgroupSizeZ": 64,
        "maxComputeWorkgroupStorageSize": 16_384,
        "maxStorageBuffersPerShaderStage": 8,
        "maxStorageBufferBindingSize": 134_217_728,
        "maxSampledTexturesPerShaderStage": 16,
        "maxStorageTexturesPerShaderStage": 4,
        "maxTextureArrayLayers": 256,
        "maxTextureDimension2D": 8192,
        "maxTextureDimension3D": 2048,
    }
)
"""Of WebGPU: what every device allows, of what kernels ask for."""


def unmet(name: str) -> float:
    """The value of a limit by which a device has nothing of what may be asked for."""
    return math.inf if _LESS_IS_MORE.search(name) else 0.0


def all_limits(asked: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """What a device is asked for by all of these."""
    found: dict[str, float] = {}
    for limits in asked:
        for name, wanted in limits.items():
            found[name] = stricter(name, found.get(name, wanted), wanted)
    return found


def stricter(name: str, one: float, other: float) -> float:
    """The limit that fewer devices meet."""
    return min(one, other) if _LESS_IS_MORE.search(name) else max(one, other)


def best_fitting(
    variants: Sequence[Variant], adapter: Mapping[str, str], features: Collection[str], limits: Mapping[str, float]
) -> Variant | None:
    """Of the variants that a device can run, the one that is expected to take the least time there: by the closest of
    its classes that all of them say something of. Where there is none, the first. None where it can run none."""
    return best_of([one for one in variants if fits(one.requires, features, limits)], device_classes(adapter))


def best_of(fitting: Sequence[Variant], classes: Sequence[str]) -> Variant | None:
    """As `best_fitting`, of those that a device of these classes can run."""
    for name in classes if len(fitting) > 1 else ():
        times = [(one.expected or {}).get(name, 0.0) for one in fitting]
        if all(times):
            return fitting[times.index(min(times))]
    return fitting[0] if fitting else None
