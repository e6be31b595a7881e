"""Kernels as a page needs them: documents without what only people and compilers read, and each WGSL text once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tapml.building.uniforms import without_fixed
from tapml.errors import InputError
from tapml.expressions import ExpressionError, evaluate
from tapml.suite import Suite

_REASON = 300


def kernel_names(suite: Suite) -> list[str]:
    """Of all functions of the suite's model, in the order of their first call."""
    functions = suite.program.functions.values()
    return list(dict.fromkeys(n.kernel for function in functions for n in function.nodes if n.kind == "kernel"))


def kernel_documents(suite: Suite) -> dict[str, dict[str, Any]]:
    """By name, all that the suite's model calls. Raises InputError for one that no device can run."""
    documents = {name: suite.bundle(name) for name in kernel_names(suite)}
    for name, document in documents.items():
        if document["unsupported"]:
            raise InputError(
                f"{suite.path} has no WGSL for {name} ({document['unsupported'][:_REASON]}): write the kernel by hand "
                "and carve with --external FOLDER (docs/carve.md), or take the operator out of the model",
                reason=document["unsupported"],
            )
    return documents


def compiled_kernels(
    suite: Suite,
    documents: Mapping[str, Mapping[str, Any]],
    made: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[list[str], list[dict[str, Any]]]:
    """The WGSL texts, and the kernels that name them by their place among these. `made`: texts of those that the suite
    has not, whose documents say how many `inputs` they have."""
    places: dict[str, int] = {}
    kernels = []
    inputs = {n.kernel: len(n.inputs) for function in suite.program.functions.values() for n in function.nodes}
    inputs |= {name: documents[name]["inputs"] for name in made}
    for name, document in documents.items():
        texts = iter(made[name] if name in made else [file.text for file in suite.kernel_files(name)])
        variants = [
            {
                **_variant(variant, [next(texts) for _ in variant["entry_points"]], places),
                **({"textures": _textures(name, variant)} if variant.get("textures") else {}),
            }
            for variant in document["variants"]
        ]
        kernels.append(
            {
                "kernel": name,
                "symbols": document["symbols"],
                "arguments": [
                    {**_type(argument), "role": "input" if place < inputs[name] else "output", **_in_place(argument)}
                    for place, argument in enumerate(document["arguments"])
                ],
                "variants": variants,
            }
        )
    return list(places), kernels


def _variant(variant: Mapping[str, Any], texts: Sequence[str], places: dict[str, int]) -> dict[str, Any]:
    entry_points = []
    launches = list(variant["launches"])
    for entry_point, written in zip(variant["entry_points"], texts, strict=True):
        bindings = [
            {field: found[field] for field in ("binding", "access", "texture") if found.get(field) is not None}
            for found in entry_point["bindings"]
        ]
        text = written
        own = [number for number, launch in enumerate(launches) if launch["entry_point"] == entry_point["name"]]
        if len(own) == 1 and launches[own[0]]["uniforms"]:
            fixed = without_fixed(written, launches[own[0]]["uniforms"])
            if fixed is not None:
                text = fixed
                bindings = [found for found in bindings if found["access"] != "uniform"]
                launches[own[0]] = {**launches[own[0]], "uniforms": []}
        entry_points.append(
            {
                "name": entry_point["name"],
                "file": entry_point["file"],
                "wgsl": places.setdefault(text, len(places)),
                "workgroup_size": entry_point["workgroup_size"],
                "bindings": sorted(bindings, key=lambda found: int(found["binding"])),
            }
        )
    return {
        "name": variant["name"],
        "requires": variant["requires"],
        "entry_points": entry_points,
        "launches": launches,
        "temporaries": variant["temporaries"],
        **({"expected": variant["expected"]} if variant.get("expected") else {}),
    }


def _textures(kernel: str, variant: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Raises InputError for those that have another size at another call."""
    try:
        return [
            {**texture, "size": [evaluate(extent, {}) for extent in texture["size"]]} for texture in variant["textures"]
        ]
    except ExpressionError:
        raise InputError(
            f"kernel {kernel}: variant {variant['name']} has textures of sizes that calls decide, and a compiled model "
            "has them of one size: leave the variant out, or carve the model for fixed sizes"
        ) from None


def _in_place(argument: Mapping[str, Any]) -> dict[str, Any]:
    return {} if argument.get("overwrites") is None else {"overwrites": argument["overwrites"]}


def _type(argument: Mapping[str, Any]) -> dict[str, Any]:
    encoding = {"encoding": argument["encoding"]} if argument.get("encoding") else {}
    return {"dtype": argument["dtype"], "shape": argument["shape"], **encoding}
