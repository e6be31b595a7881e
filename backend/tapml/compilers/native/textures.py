"""Textures as a kernel's text and document name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tapml.compilers.native.words import Unknown, wgsl_type

TEXEL = 4
"""Channels of a texel."""

Dimension = Literal["2d", "2d-array", "3d"]
"""A GPUTextureViewDimension."""

_FORMATS = {
    ("float32", 4): "rgba32float", ("float16", 4): "rgba16float", ("int32", 4): "rgba32sint",
    ("uint32", 4): "rgba32uint", ("float32", 1): "r32float", ("int32", 1): "r32sint", ("uint32", 1): "r32uint",
}  # fmt: skip
"""GPUTextureFormats that every device can write, by dtype and channels of a texel."""


@dataclass(frozen=True)
class Texture:
    """One texture, or several `objects` of one kind. `size`: width, height, and depth or layers."""

    dimension: Dimension
    size: tuple[int, int, int]
    channels: int
    objects: int = 1

    def format(self, dtype: str) -> str:
        """Raises Unknown for numbers that no texture holds, or none that a kernel may write."""
        if (dtype, self.channels) not in _FORMATS:
            raise Unknown(f"a texture of {dtype}, {self.channels} a texel")
        return _FORMATS[dtype, self.channels]

    def document(self, dtype: str) -> dict[str, Any]:
        """A temporary of a kernel's document (docs/suite-format.md)."""
        return {"dimension": self.dimension, "format": self.format(dtype), "size": [*self.size]}

    def names(self, name: str) -> list[str]:
        """In a kernel's text, of each object."""
        return [name] if self.objects == 1 else [f"{name}_{number}" for number in range(self.objects)]

    def declared(self, dtype: str, written: bool) -> str:
        """The type of the variable."""
        kind = self.dimension.replace("-", "_")
        if written:
            return f"texture_storage_{kind}<{self.format(dtype)}, write>"
        self.format(dtype)
        return f"texture_{kind}<{texel_type(dtype)}>"

    def place(self, coordinates: Sequence[str]) -> str:
        """The arguments of textureLoad and textureStore that say where, of x, y and z."""
        x, y, z = coordinates
        if self.dimension == "3d":
            return f"vec3<i32>({x}, {y}, {z})"
        return f"vec2<i32>({x}, {y}){f', {z}' if self.dimension == '2d-array' else ''}"

    def functions(self, name: str, dtype: str, written: bool) -> list[str]:
        """Of several objects, the function that reads or writes a texel of one of them."""
        if self.objects == 1:
            return []
        where = "x : i32, y : i32, z : i32"
        place = self.place("xyz")
        vector = f"vec4<{texel_type(dtype)}>"
        if written:
            lines = [f"fn write_{name}(object : i32, {where}, texel : {vector}) {{", "  switch (object) {"]
            calls = [f"textureStore({one}, {place}, texel);" for one in self.names(name)]
        else:
            lines = [f"fn read_{name}(object : i32, {where}) -> {vector} {{", "  switch (object) {"]
            calls = [f"return textureLoad({one}, {place}, 0);" for one in self.names(name)]
        for number, call in enumerate(calls):
            case = "default" if number == len(calls) - 1 else f"case {number}"
            lines.append(f"    {case}: {{ {call} }}")
        return [*lines, "  }", "}"]


def texel_type(dtype: str) -> str:
    """Of what a texel holds in a kernel's text: WGSL reads and writes float16 as f32."""
    return "f32" if dtype == "float16" else wgsl_type(dtype)
