"""Buffers and textures as a kernel's text names them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tapml.compilers.native.textures import Texture
from tapml.compilers.native.words import wgsl_type


@dataclass(frozen=True)
class Access:
    """A buffer in a kernel's text. `width` 4: it is an array of vec4; 2: of words, each of two float16; 8: of vec4 of
    such words. A `texture` has its own width: the channels of a texel. `single`: what the same buffer is called as an
    array of its elements, where it is bound as that, too."""

    name: str
    dtype: str
    shape: tuple[Any, ...]
    width: int = 1
    texture: Texture | None = None
    single: str | None = None

    @property
    def element(self) -> str:
        plain = wgsl_type(self.dtype)
        return {1: plain, 2: "u32", 4: f"vec4<{plain}>", 8: "vec4<u32>"}[self.width]

    def declared(self, written: bool) -> Iterator[str]:
        """Its variables, one for each binding."""
        if self.texture is not None:
            for name in self.texture.names(self.name):
                yield f"var {name} : {self.texture.declared(self.dtype, written)};"
            return
        access = "read_write" if written else "read"
        yield f"var<storage, {access}> {self.name} : array<{self.element}>;"
        if self.single is not None:
            yield f"var<storage, {access}> {self.single} : array<{wgsl_type(self.dtype)}>;"
