"""`kernels/NAME.json`: read, upgraded from version 1, checked field by field (docs/suite-format.md).

People write entries of `variants` by hand, so each mistake is one sentence that names the file and the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tapml.errors import InputError
from tapml.protocol.base import Bytes, Digest, Extent, Message, Name, Shape, Text
from tapml.protocol.kernels import EntryPointInfo, Launch, Requires
from tapml.suite.fields import KernelName, WgslName
from tapml.suite.formats import format_version, validated

FORMAT = "tapml.kernel/2"

_V1_VARIANT = "256"
"""What version 1 held, in today's words: TVM's code for up to 256 invocations."""

# Far more than TVM makes, and so few that a device is not held by one kernel.
_MOST_VARIANTS = 100
_MOST_ENTRY_POINTS = 1_000
_MOST_LAUNCHES = 10_000
_MOST_TEMPORARIES = 1_000
_MOST_ARGUMENTS = 10_000

_VariantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_+.-]*$", max_length=100)]


class _Argument(Message):
    name: Text
    dtype: Text
    shape: Shape
    role: Text


class _EntryPoint(Message):
    name: Name
    file: WgslName
    generated_sha256: Digest | None = None
    workgroup_size: Annotated[list[Extent], Field(min_length=3, max_length=3)]
    bindings: Annotated[list[dict[str, Any]], Field(default_factory=list)]
    info: EntryPointInfo


class _Variant(Message):
    name: _VariantName
    requires: Requires
    entry_points: Annotated[list[_EntryPoint], Field(min_length=1, max_length=_MOST_ENTRY_POINTS)]
    launches: Annotated[list[Launch], Field(min_length=1, max_length=_MOST_LAUNCHES)]
    temporaries: Annotated[list[Bytes], Field(max_length=_MOST_TEMPORARIES)]


class _Numerics(Message):
    accumulation_length: int
    builtins: list[Text]
    operations: int


class _Kernel(Message):
    format: Text
    kernel: KernelName
    generator: dict[str, Any]
    source_sha256: Text
    arguments: Annotated[list[_Argument], Field(max_length=_MOST_ARGUMENTS)]
    numerics: _Numerics
    variants: Annotated[list[_Variant], Field(max_length=_MOST_VARIANTS)]
    unsupported: str | None


def kernel_document(path: Path, found: Any) -> dict[str, Any]:
    """What lies in `path`, as version 2. Raises InputError naming `path` and the first field that is wrong.

    What an author may leave out of an entry point is filled in: `generated_sha256` null, no `bindings`.
    """
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object: copy the suite again, or carve it again")
    version = format_version(path, found.get("format"), FORMAT, "a kernel's description")
    document = _from_version_1(found) if version < 2 else found
    kernel = validated(path, _Kernel, document, " (docs/suite-format.md)")
    _check_references(path, kernel)
    for variant in document["variants"]:
        for entry_point in variant["entry_points"]:
            entry_point.setdefault("generated_sha256", None)
            entry_point.setdefault("bindings", [])
    return document


def _from_version_1(found: Mapping[str, Any]) -> dict[str, Any]:
    """Version 1 held one implementation, its fields beside the kernel's own."""
    held = ("entry_points", "dispatches", "requires")
    document = {name: value for name, value in found.items() if name not in held}
    variants = []
    if not found.get("unsupported"):
        dispatches = found.get("dispatches")
        first = dispatches[0] if isinstance(dispatches, list) and dispatches else {}
        launches = {name: value for name, value in first.items() if name != "shapes"} if isinstance(first, dict) else {}
        stated = {name: found[name] for name in ("requires", "entry_points") if name in found}
        variants = [{"name": _V1_VARIANT, **stated, **launches}]
    return {**document, "format": FORMAT, "variants": variants}


def _check_references(path: Path, kernel: _Kernel) -> None:
    """Names and numbers that point at something else in the document do so."""
    if kernel.unsupported and kernel.variants:
        raise _wrong(path, "unsupported", f"{kernel.unsupported[:80]!r} contradicts the variants: make it null")
    if not kernel.unsupported and not kernel.variants:
        raise _wrong(path, "variants", "none there: add one, or say in `unsupported` why there is none")
    names = [variant.name for variant in kernel.variants]
    for number, variant in enumerate(kernel.variants):
        place = f"variants[{number}]"
        if variant.name in names[:number]:
            raise _wrong(path, f"{place}.name", f"{variant.name!r} stands twice: give each variant its own")
        for limit, value in variant.requires.limits.items():
            if value < 0:
                raise _wrong(path, f"{place}.requires.limits.{limit}", f"{value:g} is negative")
        _check_launches(path, place, variant, len(kernel.arguments))


def _check_launches(path: Path, place: str, variant: _Variant, arguments: int) -> None:
    entry_points = {entry_point.name: entry_point for entry_point in variant.entry_points}
    if len(entry_points) != len(variant.entry_points):
        raise _wrong(path, f"{place}.entry_points", "a name stands twice")
    counts = {"argument": arguments, "temporary": len(variant.temporaries)}
    for number, launch in enumerate(variant.launches):
        field = f"{place}.launches[{number}]"
        entry_point = entry_points.get(launch.entry_point)
        if entry_point is None:
            known = ", ".join(list(entry_points)[:8])
            raise _wrong(path, f"{field}.entry_point", f"{launch.entry_point!r} is none of the variant's ({known})")
        given, wanted = len(launch.arguments), len(entry_point.info.arg_types)
        if given != wanted:
            raise _wrong(
                path, f"{field}.arguments", f"{given} given, info.arg_types of {entry_point.name} has {wanted}"
            )
        for index, argument in enumerate(launch.arguments):
            for kind, count in counts.items():
                if getattr(argument, kind, -1) >= count:
                    raise _wrong(path, f"{field}.arguments[{index}].{kind}", f"there are {count}")


def _wrong(path: Path, field: str, why: str) -> InputError:
    return InputError(f"{path}: {field}: {why} (docs/suite-format.md)")
