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
