"""Kernel documents of former versions (tapml.kernel/1 and /2) as tapml.kernel/3.

They held what TVM's runtime for JavaScript needs: an entry point's signature with tags, buffers and scalars in one
list, and a grid of which the device folded x into z. What that meant stands here and nowhere else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tapml.errors import InputError
from tapml.formats import validated
from tapml.protocol.base import Extent, Name, Text
from tapml.protocol.fields import Open
from tapml.protocol.kernels import MOST_WORKGROUPS

_VERSION_1_VARIANT = "256"
"""What version 1 held, in today's words: TVM's code for up to 256 invocations."""

_WRITTEN = re.compile(r"paramWriteAccess:\[([01](?:,[01])*)\]")


class _Info(Open):
    arg_types: list[Text]
    launch_param_tags: list[Text]


class _EntryPoint(Open):
    name: Name
    bindings: list[dict[str, Any]] = Field(default_factory=list)
    info: _Info


class _Argument(Open):
    argument: int | None = None
    temporary: int | None = None
    scalar: float | None = None


class _Launch(Open):
    entry_point: Name
    arguments: list[_Argument]
    dispatch: Annotated[list[Extent], Field(min_length=3, max_length=3)]


class _Variant(Open):
    entry_points: list[_EntryPoint]
    launches: list[_Launch]


class _Kernel(Open):
    generator: dict[str, Any]
    variants: Annotated[list[_Variant], Field(max_length=100)]


def upgraded(path: Path, found: Mapping[str, Any], version: int) -> dict[str, Any]:
    """A document of `version` 1 or 2 as one of version 3, as far as its fields can be understood.

    Raises InputError naming `path` and the first field that cannot; what is carried over is for others to check.
    """
    document = dict(found) if version == 2 else _of_version_1(found)
    kernel = validated(path, _Kernel, document, "; copy the suite again, or carve it again")
    document["compiler"] = {"name": "", "version": "", **document.pop("generator")}
    if "source_sha256" in document:
        document["compiler"]["source_sha256"] = document.pop("source_sha256")
    document["variants"] = [
        _variant(path, f"variants[{number}]", variant, document["variants"][number])
        for number, variant in enumerate(kernel.variants)
    ]
    return document


def _of_version_1(found: Mapping[str, Any]) -> dict[str, Any]:
    """As version 2: the one implementation of version 1 lay beside the kernel's own fields."""
    held = ("entry_points", "dispatches", "requires")
    document = {name: value for name, value in found.items() if name not in held}
    variants = []
    if not found.get("unsupported"):
        dispatches = found.get("dispatches")
        first = dispatches[0] if isinstance(dispatches, list) and dispatches else {}
        launches = {name: value for name, value in first.items() if name != "shapes"} if isinstance(first, dict) else {}
        stated = {name: found[name] for name in ("requires", "entry_points") if name in found}
        variants = [{"name": _VERSION_1_VARIANT, **stated, **launches}]
    return {**document, "variants": variants}


def _variant(path: Path, place: str, variant: _Variant, raw: Mapping[str, Any]) -> dict[str, Any]:
    signatures = {entry_point.name: entry_point.info.arg_types for entry_point in variant.entry_points}
    launches = []
    for number, launch in enumerate(variant.launches):
        types = signatures.get(launch.entry_point)
        if types is not None and len(types) != len(launch.arguments):
            raise InputError(
                f"{path}: {place}.launches[{number}].arguments: {len(launch.arguments)} given, info.arg_types of "
                f"{launch.entry_point} has {len(types)}"
            )
        launches.append(_launch(launch, types or []))
    entry_points = [
        {**{key: value for key, value in kept.items() if key != "info"}, "bindings": _bindings(entry_point)}
        for entry_point, kept in zip(variant.entry_points, raw["entry_points"], strict=True)
    ]
    return {**raw, "entry_points": entry_points, "launches": launches}


def _bindings(entry_point: _EntryPoint) -> list[dict[str, Any]]:
    """Buffers are bindings 0, 1 and so on, those written told by a tag; then comes the uniform."""
    buffers = sum(kind == "handle" for kind in entry_point.info.arg_types)
    tags = (_WRITTEN.fullmatch(tag) for tag in entry_point.info.launch_param_tags)
    flags = next((tag[1].split(",") for tag in tags if tag), [])
    shown = {b["binding"]: b for b in entry_point.bindings if isinstance(b.get("binding"), int)}
    accesses = ["read_write" if flag == "1" else "read" for flag in (*flags, *"0" * buffers)]
    return [
        {
            "binding": number,
            "access": access,
            **{key: shown[number][key] for key in ("name", "type") if key in shown.get(number, {})},
        }
        for number, access in enumerate([*accesses[:buffers], "uniform"])
    ]


def _launch(launch: _Launch, types: list[str]) -> dict[str, Any]:
    uniforms: list[dict[str, Any]] = []
    operands = []
    for argument, kind in zip(launch.arguments, types, strict=False):
        if argument.scalar is None:
            operands.append(argument.model_dump(exclude_none=True))
            continue
        real = kind.startswith("float")
        whole = "uint32" if kind.startswith("uint") else "int32"
        value = argument.scalar if real or not argument.scalar.is_integer() else int(argument.scalar)
        uniforms.append({"name": f"scalar{len(uniforms)}", "dtype": "float32" if real else whole, "value": value})
    uniforms.append({"name": "packGridDimX", "dtype": "uint32", "value": launch.dispatch[0]})
    x, y, z = launch.dispatch
    while x > MOST_WORKGROUPS:
        x, z = math.ceil(x / 2), z * 2
    return {"entry_point": launch.entry_point, "operands": operands, "uniforms": uniforms, "grid": [x, y, z]}
