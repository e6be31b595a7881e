"""Which variants of a kernel there are: what may be asked for, which are kept, in which order.

A device takes the first variant whose requirements it meets, so the one that asks most comes first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapml.errors import InputError
from tapml.kernels.bundle import CompiledKernel, WgslFile

_SPEC = re.compile(r"(\d{1,5})((?:\+\w+)*)")
_THREADS = (32, 64, 128, 256, 512, 1024)
_BY_HAND = "docs/suite-format.md, 'A variant by hand'"


@dataclass(frozen=True, order=True)
class VariantSpec:
    """A variant to generate: at most `threads` invocations a workgroup, with or without subgroup operations.

    Sorted from what every device runs to what few do.
    """

    subgroups: bool
    threads: int

    @property
    def name(self) -> str:
        return f"{self.threads}+subgroups" if self.subgroups else str(self.threads)

    @property
    def target(self) -> dict[str, Any]:
        """Attributes of TVM's target. `supports_subgroups` makes it count on subgroups of 32."""
        target: dict[str, Any] = {"kind": "webgpu", "max_num_threads": self.threads}
        return {**target, "supports_subgroups": True} if self.subgroups else target


BASE = VariantSpec(False, 256)
"""256 invocations a workgroup: WebGPU's default limit, which every device has."""


def parse_specs(texts: Sequence[str]) -> list[VariantSpec]:
    """Specs such as "256" or "1024+subgroups", each once, those that ask least first. Raises InputError."""
    if not texts:
        raise InputError("no variant is asked for: name at least one, 256 for example")
    return sorted({_parse(text.strip()) for text in texts})


def _parse(text: str) -> VariantSpec:
    match = _SPEC.fullmatch(text)
    extras = set(match[2].split("+")[1:]) if match else set()
    if match and "f16" in extras:
        raise InputError(
            f"variant {text!r}: tapml generates no float16 arithmetic for float32 operators, whose range and tolerance "
            f"it would break; write such a variant by hand where you know that it is accurate enough ({_BY_HAND})"
        )
    if not match or int(match[1]) not in _THREADS or extras - {"subgroups"}:
        choices = ", ".join(map(str, _THREADS))
        raise InputError(
            f"variant {text!r}: give the most invocations of a workgroup ({choices}), with +subgroups where wanted"
        )
    return VariantSpec("subgroups" in extras, int(match[1]))


def combine(candidates: Sequence[tuple[VariantSpec, CompiledKernel]]) -> CompiledKernel:
    """One kernel with the variants of several (each with one, or unsupported), the most demanding first.

    Of variants that require the same only the least specialised stays, for no device would take another; the
    document's `compiler.left_out` says so. The last variant's files carry the kernel's plain name.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate[0])
    document = ordered[0][1].document
    kept: list[tuple[dict[str, Any], list[WgslFile]]] = []
    left_out: dict[str, str] = {}
    for spec, kernel in ordered:
        if kernel.document["unsupported"]:
            left_out[spec.name] = kernel.document["unsupported"]
            continue
        (variant,) = kernel.document["variants"]
        twin = next((other["name"] for other, _ in kept if other["requires"] == variant["requires"]), None)
        if twin:
            left_out[spec.name] = f"requires the same as {twin}"
        else:
            kept.append((variant, kernel.files))
    kept.sort(key=lambda one: _demands(one[0]["requires"]), reverse=True)
    name = document["kernel"]
    stems = [f"{name}@{variant['name']}" for variant, _ in kept[:-1]] + [name]
    named = [_with_files(*one, stem) for one, stem in zip(kept, stems, strict=False)]
    combined = {
        **document,
        "compiler": {
            **document["compiler"],
            "targets": {spec.name: spec.target for spec, _ in ordered},
            "left_out": left_out if kept else {},
        },
        "variants": [variant for variant, _ in named],
        "unsupported": None if kept else document["unsupported"],
    }
    return CompiledKernel(combined, [file for _, files in named for file in files])


def _demands(requires: dict[str, Any]) -> tuple[bool, bool, list[int]]:
    """Sorts requirements: subgroups, then float16, then invocations and the other limits."""
    features = requires["features"]
    return "subgroups" in features, "shader-f16" in features, list(requires["limits"].values())


def _with_files(variant: dict[str, Any], files: Sequence[WgslFile], stem: str) -> tuple[dict[str, Any], list[WgslFile]]:
    """The variant with its files named `stem`.wgsl, `stem`.2.wgsl and so on."""
    names = [f"{stem}.wgsl" if number == 1 else f"{stem}.{number}.wgsl" for number in range(1, len(files) + 1)]
    entry_points = [
        {**entry_point, "file": name} for entry_point, name in zip(variant["entry_points"], names, strict=True)
    ]
    renamed = [WgslFile(name, file.text) for name, file in zip(names, files, strict=True)]
    return {**variant, "entry_points": entry_points}, renamed
