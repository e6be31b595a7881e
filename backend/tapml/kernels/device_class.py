"""Classes of devices: those of one class are supposed to be fast and slow at the same things.

The runner has the same (runner_js/src/program/device_class.ts); tests/vectors/choices.json is held against both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SOFTWARE = "software"
"""Of GPUs that are a CPU's, and not known closer."""

GPU = "gpu"
"""Of all others."""

_IN_SOFTWARE = {"swiftshader": "swiftshader", "llvmpipe": "llvmpipe", "lavapipe": "llvmpipe", "microsoft basic": "warp"}
_WORD = re.compile(r"[a-z0-9][a-z0-9._-]*")


def device_classes(adapter: Mapping[str, str]) -> list[str]:
    """Of GPUAdapterInfo's `vendor`, `architecture`, `device` and `description`, from the closest class to the widest:
    `swiftshader`, `software`; or `nvidia/hopper`, `nvidia`, `gpu`. What is not told, or is no word, is left out."""
    told = " ".join(adapter.get(name, "") for name in ("architecture", "device", "description")).lower()
    for sign, name in _IN_SOFTWARE.items():
        if sign in told:
            return [name, SOFTWARE]
    vendor, architecture = (_word(adapter.get(name, "")) for name in ("vendor", "architecture"))
    if not vendor:
        return [GPU]
    return [*([f"{vendor}/{architecture}"] if architecture else []), vendor, GPU]


def classes_from(name: str) -> list[str]:
    """The classes of a device whose closest one is `name`, as `device_classes` has them."""
    if name in _IN_SOFTWARE.values():
        return [name, SOFTWARE]
    if name in (GPU, SOFTWARE):
        return [name]
    return list(dict.fromkeys([name, name.partition("/")[0], GPU]))


def _word(text: str) -> str:
    found = text.lower().replace(" ", "-")[:40]
    # wgpu has numbers of the PCI registry in place of names, which say nothing to people.
    return found if _WORD.fullmatch(found) and not found.isdigit() else ""
