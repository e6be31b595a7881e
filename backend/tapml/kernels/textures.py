"""Textures of a kernel's variant: whether launches bind them as its texts declare them, and what they require."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tapml.protocol.kernels import NUMBERS, Binding, Launch, TexelFormat, TextureDimension, TextureOperand


class Texture(Protocol):
    """Of a kernel's document, or of a compiled model's."""

    @property
    def dimension(self) -> TextureDimension: ...
    @property
    def format(self) -> TexelFormat: ...
    @property
    def size(self) -> Sequence[Any]: ...


class _EntryPoint(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def bindings(self) -> Sequence[Binding]: ...


class Variant(Protocol):
    """As above."""

    @property
    def entry_points(self) -> Sequence[_EntryPoint]: ...
    @property
    def launches(self) -> Sequence[Launch]: ...
    @property
    def textures(self) -> Sequence[Texture]: ...


_LIMITS = {
    "2d": ("maxTextureDimension2D", "maxTextureDimension2D"),
    "2d-array": ("maxTextureDimension2D", "maxTextureDimension2D", "maxTextureArrayLayers"),
    "3d": ("maxTextureDimension3D", "maxTextureDimension3D", "maxTextureDimension3D"),
}
"""GPUSupportedLimits that a texture's width, height, and depth or layers are held to."""


def check_textures(launch: Launch, bindings: Sequence[Binding], textures: Sequence[Texture]) -> tuple[int, str] | None:
    """The first operand of a launch that does not fit its binding, and why; None where all fit. There are as many
    operands as bindings for them."""
    bound = sorted((one for one in bindings if one.access != "uniform"), key=lambda one: one.binding)
    accesses: dict[int, str] = {}
    for index, (operand, binding) in enumerate(zip(launch.operands, bound, strict=True)):
        wanted = binding.texture
        if not isinstance(operand, TextureOperand):
            if wanted is not None:
                return index, f"binding {binding.binding} is a texture, and a buffer is given"
            continue
        if wanted is None:
            return index, f"binding {binding.binding} is a buffer, and a texture is given"
        if operand.texture >= len(textures):
            return index, f"there are {len(textures)} textures"
        given = textures[operand.texture]
        if given.dimension != wanted.dimension:
            return index, f"binding {binding.binding} is {wanted.dimension}, and the texture {given.dimension}"
        if wanted.format not in (None, given.format):
            return index, f"binding {binding.binding} writes {wanted.format}, and the texture is {given.format}"
        numbers = numbers_of(given.format)
        if wanted.numbers != numbers:
            return index, f"binding {binding.binding} has {wanted.numbers}, and a texture of {given.format} {numbers}"
        if accesses.setdefault(operand.texture, binding.access) != binding.access:
            return index, f"texture {operand.texture} is read and written in one launch"
    return None


def misused_texture(variant: Variant) -> str | None:
    """The end of a sentence about the first texture of a variant that has a depth and none is seen of it, or that is
    read before a launch writes it; None where there is none. All launches fit their bindings."""
    for number, texture in enumerate(variant.textures):
        if texture.dimension == "2d" and texture.size[2] != 1:
            return f"has a depth of {texture.size[2]} for its texture {number}, which is 2d: make it 1, or 2d-array"
    bindings = {entry_point.name: entry_point.bindings for entry_point in variant.entry_points}
    written: set[int] = set()
    for place, launch in enumerate(variant.launches):
        bound = sorted(bindings[launch.entry_point], key=lambda one: one.binding)
        used = zip(launch.operands, (one.access for one in bound if one.access != "uniform"), strict=True)
        accesses = {operand.texture: access for operand, access in used if isinstance(operand, TextureOperand)}
        for number, access in accesses.items():
            if access == "read" and number not in written:
                return f"reads its texture {number} in launch {place}, and no launch before that writes it"
        written |= {number for number, access in accesses.items() if access == "write"}
    return None


def numbers_of(texel_format: str) -> str:
    """What WGSL has of a texel of a GPUTextureFormat."""
    return next(numbers for end, numbers in NUMBERS.items() if texel_format.endswith(end))


def texture_expressions(variant: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The sizes of a variant's textures, each with its field."""
    for position, texture in enumerate(variant.get("textures", ())):
        for axis, found in enumerate(texture["size"]):
            yield f"textures[{position}].size[{axis}]", found


def texture_limits(textures: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Limits that a device must offer for textures of fixed sizes."""
    found: dict[str, int] = {}
    for texture in textures:
        for limit, extent in zip(_LIMITS[texture["dimension"]], texture["size"], strict=False):
            found[limit] = max(found.get(limit, 0), extent)
    return found
