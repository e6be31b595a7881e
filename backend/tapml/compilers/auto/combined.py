"""One kernel of several candidates: a variant each, with what it is expected to take on classes of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapml.compilers.auto.space import VARIANT, Candidate
from tapml.kernels.bundle import CompiledKernel, WgslFile

Offer = tuple[Candidate, Mapping[str, float]]
"""A candidate, and microseconds by class of devices."""


def combined(operator: str, offers: Sequence[Offer]) -> CompiledKernel:
    """In this order, the one that every device can run last. Of one alone nothing is said that it is expected to
    take: there is nothing to choose. A device that can run one of which nothing is told does."""
    native = next((one for one, _ in offers if one.compiler != "tvm"), None)
    head = (native or offers[0][0]).kernel.document
    variants, files = [], []
    for place, (candidate, expected) in enumerate(offers):
        suffix = "" if place == len(offers) - 1 else f"@{_suffix(candidate)}"
        texts = candidate.kernel.files
        names = [f"{operator}{suffix}{f'.{number}' if number else ''}.wgsl" for number in _numbers(len(texts))]
        files += [WgslFile(name, file.text) for name, file in zip(names, texts, strict=True)]
        renamed = {file.name: name for file, name in zip(texts, names, strict=True)}
        made = _variant(candidate, renamed, expected if len(offers) > 1 else {}, head["compiler"]["name"])
        variants.append({**made, "name": _name(candidate, len(offers) > 1)})
    arguments = _arguments([candidate.kernel.document["arguments"] for candidate, _ in offers])
    return CompiledKernel({**head, "arguments": arguments, "variants": variants}, files)


def _variant(
    candidate: Candidate, files: Mapping[str, str], expected: Mapping[str, float], compiler: str
) -> dict[str, Any]:
    found = candidate.variant
    points = [{**point, "file": files[point["file"]]} for point in found["entry_points"]]
    made = {**found, "entry_points": points}
    if expected:
        made["expected"] = {name: float(f"{value:.4g}") for name, value in sorted(expected.items())}
    if candidate.compiler != compiler:
        made["compiler"] = candidate.compiler
    return made


def _name(candidate: Candidate, several: bool) -> str:
    return f"{VARIANT}+{_suffix(candidate)}" if several and candidate.name != "native" else VARIANT


def _suffix(candidate: Candidate) -> str:
    return candidate.name.split(".", 1)[-1]


def _numbers(count: int) -> list[int]:
    return [0, *range(2, count + 1)]


def _arguments(all_: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """What all of them are: an axis of which only some take any size is none."""
    found = [dict(argument) for argument in all_[0]]
    for others in all_[1:]:
        for argument, other in zip(found, others, strict=True):
            if argument.get("grows") != other.get("grows"):
                argument.pop("grows", None)
    return found


def together(candidates: Sequence[Candidate]) -> bool:
    """Whether they take the same arguments, none of them changed in place: so they are one kernel's."""

    def facts(candidate: Candidate) -> list[Any]:
        return [
            {name: value for name, value in argument.items() if name != "grows"}
            for argument in candidate.kernel.document["arguments"]
        ]

    return all(
        facts(one) == facts(candidates[0]) and not any("overwrites" in argument for argument in facts(one))
        for one in candidates
    )
