"""Kernels as a device gets them: several variants of one operator, each with what it needs of the device."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import TypeAliasType

from tapml.expressions import CheckedExpression, Expression, Symbol, checked
from tapml.protocol.base import Digest, Message, Name, Text

MOST_WORKGROUPS = 65_535
"""Along one axis, on every device; some allow more."""


class Requires(Message):
    """What a device must offer. An unknown limit is not checked ahead: the GPU's own validation will tell."""

    features: list[Text]
    """GPUFeatureName values, what is multiplied by subgroup matrices ("subgroup-matrix-f16-f32-16x16x16"), and language
    features of WGSL ("packed_4x8_integer_dot_product")."""
    limits: dict[str, float]
    """GPUSupportedLimits name -> least value; for "subgroupMaxSize" and names that start with "min", greatest."""


TextureDimension = Literal["2d", "2d-array", "3d"]
"""A GPUTextureViewDimension."""

TexelFormat = Literal["r32float", "r32sint", "r32uint", "rgba16float", "rgba32float", "rgba32sint", "rgba32uint"]
"""A GPUTextureFormat that every device can write."""

MOST_TEXELS = 2**15
"""Along one axis of a texture: more than any device has."""

NUMBERS: dict[str, Literal["f32", "i32", "u32"]] = {"float": "f32", "sint": "i32", "uint": "u32"}
"""What WGSL reads of a texture, by how the name of its format ends."""


class TextureBinding(Message):
    """What a binding of a texture takes."""

    dimension: TextureDimension
    numbers: Literal["f32", "i32", "u32"]
    """What the kernel's text has of a texel."""
    format: TexelFormat | None = None
    """Of one that is written."""


class Binding(Message):
    """One binding of group 0: a buffer, or a texture. At most one of an entry point is a uniform."""

    binding: Annotated[int, Field(ge=0, lt=1000)]
    access: Literal["read", "read_write", "write", "uniform"]
    """Textures are read or written, buffers the others."""
    texture: TextureBinding | None = None

    @model_validator(mode="after")
    def _fits(self) -> Binding:
        if self.texture is None and self.access == "write":
            raise ValueError("only a texture is written and not read")
        if self.texture is not None and self.access not in ("read", "write"):
            raise ValueError(f"a texture is read or written, not {self.access}")
        if self.texture is not None and (self.texture.format is None) == (self.access == "write"):
            raise ValueError("a texture that is written has a format, one that is read has none")
        return self


class EntryPoint(Message):
    """One WGSL compute entry point."""

    name: Name
    file: Name
    """File name shown in diagnostics."""
    code: Digest
    """Digest of the WGSL text."""
    bindings: list[Binding]


class ArgumentOperand(Message):
    """One of the operator's arguments: inputs, then outputs."""

    argument: Annotated[int, Field(ge=0)]


class TemporaryOperand(Message):
    """One of the variant's temporaries."""

    temporary: Annotated[int, Field(ge=0)]


class TextureOperand(Message):
    """One of the variant's textures."""

    texture: Annotated[int, Field(ge=0)]


Operand = TypeAliasType("Operand", ArgumentOperand | TemporaryOperand | TextureOperand)
"""What is bound to one binding of an entry point that is no uniform."""


class Uniform(Message):
    """A number, four bytes of the uniform buffer."""

    name: Text
    """For people."""
    dtype: Literal["float32", "int32", "uint32"]
    value: Annotated[
        float | Expression, BeforeValidator(lambda found: found if isinstance(found, float) else checked(found))
    ]
    """An expression, or for float32 any number."""


class Launch(Message):
    """One dispatch."""

    entry_point: Name
    operands: list[Operand]
    """One for each binding of the entry point but the uniform, in the order of their numbers."""
    uniforms: list[Uniform]
    """What the uniform binding holds, one after the other; none where the entry point has no such binding."""
    grid: Annotated[list[CheckedExpression], Field(min_length=3, max_length=3)]
    """Workgroups along x, y, z."""


Expected = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?$", max_length=100)],
        Annotated[float, Field(gt=0, allow_inf_nan=False)],
    ],
    Field(max_length=50),
]
"""Class of devices (docs/choosing.md) -> microseconds that a call is expected to take there."""


class TextureTemporary(Message):
    """A texture that lives for one call."""

    dimension: TextureDimension
    format: TexelFormat
    size: Annotated[list[CheckedExpression], Field(min_length=3, max_length=3)]
    """Width, height, and depth or layers, in texels."""


Textures = Annotated[list[TextureTemporary], Field(max_length=100)]


class Variant(Message):
    """One implementation of a kernel."""

    name: Name
    requires: Requires
    entry_points: Annotated[list[EntryPoint], Field(min_length=1)]
    launches: list[Launch]
    """The dispatches of one call, in order."""
    temporaries: list[CheckedExpression]
    """Bytes of scratch buffers that live for one call."""
    textures: Annotated[Textures, Field(default_factory=list)]
    expected: Expected | None = None


class Overwrite(Message):
    """An output that is written into the bytes of an input: a call begins with what that holds in them."""

    argument: Annotated[int, Field(ge=0)]
    """The output, by its place among the operator's arguments."""
    input: Annotated[int, Field(ge=0)]
    """Its place. No launch binds it."""


class Kernel(Message):
    """What one operator compiles to. Of the variants whose requirements it meets a device takes the one that is
    expected to take the least time there, or the first, where that is not known of all of them."""

    kernel: Name
    symbols: Annotated[list[Symbol], Field(max_length=100)]
    """What the expressions of its variants are made of; each call gives their sizes."""
    variants: Annotated[list[Variant], Field(min_length=1)]
    overwrites: Annotated[list[Overwrite], Field(max_length=1000, default_factory=list)]
