"""`kernels/NAME.json`: read, upgraded from former versions, checked field by field (docs/suite-format.md).

People write entries of `variants` by hand, so each mistake is one sentence that names the file and the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from tapml.encodings import Encoding, check_encoding
from tapml.errors import InputError
from tapml.expressions import (
    MOST,
    CheckedExpression,
    ExpressionError,
    Symbol,
    check_sizes,
    check_symbols,
    extent,
)
from tapml.files import sha256
from tapml.formats import format_version, validated
from tapml.kernels.former import upgraded
from tapml.kernels.textures import check_textures, misused_texture, texture_expressions
from tapml.program import TensorType
from tapml.protocol.base import MAX_BYTES, MOST_ELEMENTS, Digest, Extent, Message, Name, Text
from tapml.protocol.fields import KernelName, Open, WgslName
from tapml.protocol.kernels import MOST_TEXELS, Binding, Expected, Launch, Requires, Textures

FORMAT = "tapml.kernel/4"
DOCUMENTED = " (docs/suite-format.md)"

# Far more than compilers make, and so few that a device is not held by one kernel.
_MOST_VARIANTS = 100
_MOST_ENTRY_POINTS = 1_000
_MOST_LAUNCHES = 10_000
_MOST_TEMPORARIES = 1_000
_MOST_ARGUMENTS = 10_000

_EXPLICIT = 3
"""The first version that says how launches bind their arguments."""

_VariantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_+.-]*$", max_length=100)]
_RANGES = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}


class _Compiler(Open):
    name: Text
    version: Text
    generated_sha256: Digest | None = None


class _Argument(Message):
    name: Text
    dtype: Text
    shape: Annotated[list[CheckedExpression], Field(max_length=32)]
    role: Text
    encoding: Encoding | None = None
    overwrites: Annotated[int, Field(ge=0)] | None = None
    grows: Annotated[int, Field(ge=0)] | None = None
    """The axis of which the kernel takes any size: it reads it off the buffer."""

    @model_validator(mode="after")
    def _fits(self) -> _Argument:
        check_encoding(self.encoding, self.dtype)
        if self.grows is not None and self.grows >= len(self.shape):
            raise ValueError(f"there is no axis {self.grows} that could grow")
        return self


class _Binding(Binding):
    name: Text = ""
    type: Text = ""


class _EntryPoint(Message):
    name: Name
    file: WgslName
    generated_sha256: Digest | None = None
    workgroup_size: Annotated[list[Extent], Field(min_length=3, max_length=3)]
    bindings: Annotated[list[_Binding], Field(max_length=1000)]

    @property
    def uniforms(self) -> int:
        return sum(binding.access == "uniform" for binding in self.bindings)


class _Variant(Message):
    name: _VariantName
    requires: Requires
    entry_points: Annotated[list[_EntryPoint], Field(min_length=1, max_length=_MOST_ENTRY_POINTS)]
    launches: Annotated[list[Launch], Field(min_length=1, max_length=_MOST_LAUNCHES)]
    temporaries: Annotated[list[CheckedExpression], Field(max_length=_MOST_TEMPORARIES)]
    textures: Annotated[Textures, Field(default_factory=list)]
    encodings: Annotated[dict[Text, Text], Field(max_length=_MOST_ARGUMENTS, default_factory=dict)]
    """Argument -> the layout that the kernel reads or writes it in, for people: the others are as they are given."""
    expected: Expected | None = None
    compiler: Text | None = None
    """Where it is another one than the kernel's."""


class _Numerics(Message):
    accumulation_length: int
    builtins: list[Text]
    operations: int


class _Kernel(Message):
    format: Text
    kernel: KernelName
    compiler: _Compiler
    symbols: Annotated[list[Symbol], Field(max_length=100, default_factory=list)]
    arguments: Annotated[list[_Argument], Field(max_length=_MOST_ARGUMENTS)]
    numerics: _Numerics
    variants: Annotated[list[_Variant], Field(max_length=_MOST_VARIANTS)]
    unsupported: str | None


def kernel_document(path: Path, found: Any) -> dict[str, Any]:
    """What lies in `path`, as version 4. Raises InputError naming `path` and the first field that is wrong.

    What an author may leave out is filled in: no `symbols`, and `generated_sha256` null.
    """
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object: copy the suite again, or carve it again")
    version = format_version(path, found, FORMAT, "a kernel's description")
    # Version 3 had no arguments that overwrite others, and is the same otherwise.
    document: dict[str, Any] = {**(found if version >= _EXPLICIT else upgraded(path, found, version)), "format": FORMAT}
    kernel = validated(path, _Kernel, document, DOCUMENTED)
    _check_references(path, kernel)
    document.setdefault("symbols", [])
    _check_expressions(path, document, kernel.symbols)
    for variant in document["variants"]:
        for entry_point in variant["entry_points"]:
            entry_point.setdefault("generated_sha256", None)
    return document


def launches_sha256(document: Mapping[str, Any]) -> str:
    """Of all that a document of version 4 says of how its kernel is launched and what it takes, apart from WGSL."""
    variants = [
        {
            **{field: variant[field] for field in ("name", "requires", "launches", "temporaries")},
            **{field: variant[field] for field in ("expected", "textures") if variant.get(field)},
            "entry_points": [
                {field: entry_point[field] for field in ("name", "file", "workgroup_size", "bindings")}
                for entry_point in variant["entry_points"]
            ],
        }
        for variant in document["variants"]
    ]
    found = {"symbols": document.get("symbols", []), "arguments": document["arguments"], "variants": variants}
    return sha256(json.dumps(found, sort_keys=True))


def as_generated(document: Mapping[str, Any]) -> dict[str, Any]:
    """A compiler's document, with what tells an edit of its launches (`is_edited`)."""
    return {**document, "compiler": {**document["compiler"], "generated_sha256": launches_sha256(document)}}


def is_edited(document: Mapping[str, Any]) -> bool:
    """Whether its launches are others than were generated; documents of earlier versions of tapml do not tell, and
    count as they were."""
    generated = document["compiler"].get("generated_sha256")
    return generated is not None and generated != launches_sha256(document)


def argument_types(document: Mapping[str, Any], sizes: Mapping[str, int]) -> list[TensorType]:
    """What each argument is at a call with `sizes`: inputs, then outputs.

    Raises ExpressionError where `sizes` are not those of the kernel's symbols, or where something that the kernel
    counts with them (an extent, workgroups, bytes, a uniform) is nothing that can be.
    """
    check_sizes([Symbol.model_validate(symbol) for symbol in document["symbols"]], sizes)
    found = {field: extent(expression, sizes, field, *range_) for field, expression, *range_ in _expressions(document)}
    return [
        TensorType(
            tuple(found[_shape_field(number, axis)] for axis in range(len(argument["shape"]))),
            argument["dtype"],
            argument.get("encoding"),
        )
        for number, argument in enumerate(document["arguments"])
    ]


def overwritten(document: Mapping[str, Any]) -> dict[int, int]:
    """Of a kernel's document, or one in a compiled model: output -> the input whose bytes it is written into, both by
    their places among the arguments. The kernel finds there what the input held, and what it leaves out stays."""
    found = {number: argument.get("overwrites") for number, argument in enumerate(document.get("arguments", ()))}
    return {number: before for number, before in found.items() if before is not None}


def _check_references(path: Path, kernel: _Kernel) -> None:
    """Names and numbers that point at something else in the document do so."""
    _check_overwrites(path, kernel)
    if kernel.unsupported and kernel.variants:
        raise _wrong(path, "unsupported", f"{kernel.unsupported[:80]!r} contradicts the variants: make it null")
    if not kernel.unsupported and not kernel.variants:
        raise _wrong(path, "variants", "none there: add one, or say in `unsupported` why there is none")
    if len({symbol.name for symbol in kernel.symbols}) != len(kernel.symbols):
        raise _wrong(path, "symbols", "a name stands twice")
    names = [variant.name for variant in kernel.variants]
    for number, variant in enumerate(kernel.variants):
        place = f"variants[{number}]"
        if variant.name in names[:number]:
            raise _wrong(path, f"{place}.name", f"{variant.name!r} stands twice: give each variant its own")
        for limit, value in variant.requires.limits.items():
            if value < 0:
                raise _wrong(path, f"{place}.requires.limits.{limit}", f"{value:g} is negative")
        _check_launches(path, place, variant, len(kernel.arguments))
        if (misused := misused_texture(variant)) is not None:
            raise _wrong(path, f"{place}.textures", f"the kernel {kernel.kernel} {misused}")


def _check_overwrites(path: Path, kernel: _Kernel) -> None:
    """Each is of an output, names an input of the same type of its own, and no launch binds that input as well."""
    before: dict[int, int] = {}
    for number, argument in enumerate(kernel.arguments):
        if argument.overwrites is None:
            continue
        field = f"arguments[{number}].overwrites"
        if argument.role != "output":
            raise _wrong(path, field, "only an output can be written into an input's bytes")
        if argument.overwrites >= len(kernel.arguments) or kernel.arguments[argument.overwrites].role != "input":
            raise _wrong(path, field, f"argument {argument.overwrites} is no input")
        given = kernel.arguments[argument.overwrites]
        if (given.dtype, given.shape, given.encoding) != (argument.dtype, argument.shape, argument.encoding):
            raise _wrong(path, field, f"argument {argument.overwrites} has another dtype, shape or encoding")
        if argument.overwrites in before.values():
            raise _wrong(path, field, f"argument {argument.overwrites} is overwritten twice")
        before[number] = argument.overwrites
    for place, variant in enumerate(kernel.variants):
        for number, launch in enumerate(variant.launches):
            for index, operand in enumerate(launch.operands):
                if (bound := getattr(operand, "argument", None)) in before.values():
                    output = next(found for found, of in before.items() if of == bound)
                    field = f"variants[{place}].launches[{number}].operands[{index}].argument"
                    raise _wrong(path, field, f"argument {output} overwrites argument {bound}: bind {output} instead")


def _check_launches(path: Path, place: str, variant: _Variant, arguments: int) -> None:
    entry_points = {entry_point.name: entry_point for entry_point in variant.entry_points}
    if len(entry_points) != len(variant.entry_points):
        raise _wrong(path, f"{place}.entry_points", "a name stands twice")
    for number, entry_point in enumerate(variant.entry_points):
        field = f"{place}.entry_points[{number}].bindings"
        if len({binding.binding for binding in entry_point.bindings}) != len(entry_point.bindings):
            raise _wrong(path, field, "a number stands twice")
        if entry_point.uniforms > 1:
            raise _wrong(path, field, "more than one is a uniform")
    counts = {"argument": arguments, "temporary": len(variant.temporaries), "texture": len(variant.textures)}
    for number, launch in enumerate(variant.launches):
        field = f"{place}.launches[{number}]"
        called = entry_points.get(launch.entry_point)
        if called is None:
            known = ", ".join(list(entry_points)[:8])
            raise _wrong(path, f"{field}.entry_point", f"{launch.entry_point!r} is none of the variant's ({known})")
        given, wanted = len(launch.operands), len(called.bindings) - called.uniforms
        if given != wanted:
            raise _wrong(path, f"{field}.operands", f"{given} given, {called.name} has {wanted} bindings for them")
        if bool(launch.uniforms) != bool(called.uniforms):
            text = f"{len(launch.uniforms)} given, {called.name} has {called.uniforms or 'no'} uniform binding"
            raise _wrong(path, f"{field}.uniforms", text)
        for index, operand in enumerate(launch.operands):
            for kind, count in counts.items():
                if getattr(operand, kind, -1) >= count:
                    raise _wrong(path, f"{field}.operands[{index}].{kind}", f"there are {count}")
        misfit = check_textures(launch, called.bindings, variant.textures)
        if misfit is not None:
            raise _wrong(path, f"{field}.operands[{misfit[0]}]", misfit[1])


def _check_expressions(path: Path, document: Mapping[str, Any], symbols: Sequence[Symbol]) -> None:
    """Their symbols are the kernel's; where it has none, their values are known, and are what they count."""
    try:
        check_symbols(symbols, ((field, expression) for field, expression, *_ in _expressions(document)))
        if not symbols:
            argument_types(document, {})
    except ExpressionError as error:
        raise InputError(f"{path}: {error}{DOCUMENTED}") from None


def _expressions(document: Mapping[str, Any]) -> Iterator[tuple[str, Any, int, int]]:
    """Each with its field, the least and the most it may be."""
    for number, argument in enumerate(document["arguments"]):
        for axis, found in enumerate(argument["shape"]):
            yield _shape_field(number, axis), found, 0, MOST_ELEMENTS
    for number, variant in enumerate(document["variants"]):
        for position, found in enumerate(variant["temporaries"]):
            yield f"variants[{number}].temporaries[{position}]", found, 0, MAX_BYTES
        for place, found in texture_expressions(variant):
            yield f"variants[{number}].{place}", found, 1, MOST_TEXELS
        for position, launch in enumerate(variant["launches"]):
            place = f"variants[{number}].launches[{position}]"
            for axis, found in enumerate(launch["grid"]):
                yield f"{place}.grid[{axis}]", found, 0, MOST_ELEMENTS
            for index, uniform in enumerate(launch["uniforms"]):
                if uniform["dtype"] in _RANGES or not isinstance(uniform["value"], float):
                    least, most = _RANGES.get(uniform["dtype"], (-MOST, MOST))
                    yield f"{place}.uniforms[{index}].value", uniform["value"], least, most


def _shape_field(argument: int, axis: int) -> str:
    return f"arguments[{argument}].shape[{axis}]"


def _wrong(path: Path, field: str, why: str) -> InputError:
    return InputError(f"{path}: {field}: {why}{DOCUMENTED}")
