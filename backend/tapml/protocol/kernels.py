"""Kernels as a device gets them: several variants of one operator, each with what it needs of the device."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from typing_extensions import TypeAliasType

from tapml.expressions import CheckedExpression, Expression, Symbol, checked
from tapml.protocol.base import Digest, Message, Name, Text

MOST_WORKGROUPS = 65_535
"""Along one axis, on every device; some allow more."""


class Requires(Message):
    """What a device must offer. An unknown limit is not checked ahead: the GPU's own validation will tell."""

    features: list[Text]
    """GPUFeatureName values, and what is multiplied by subgroup matrices ("subgroup-matrix-f16-f32-16x16x16")."""
    limits: dict[str, float]
    """GPUSupportedLimits name -> least value; for "subgroupMaxSize" and names that start with "min", greatest."""


class Binding(Message):
    """One binding of group 0. At most one of an entry point is a uniform."""

    binding: Annotated[int, Field(ge=0, lt=1000)]
    access: Literal["read", "read_write", "uniform"]


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


Operand = TypeAliasType("Operand", ArgumentOperand | TemporaryOperand)
"""What is bound to one storage binding of an entry point."""


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
    """One for each storage binding of the entry point, in the order of their numbers."""
    uniforms: list[Uniform]
    """What the uniform binding holds, one after the other; none where the entry point has no such binding."""
    grid: Annotated[list[CheckedExpression], Field(min_length=3, max_length=3)]
    """Workgroups along x, y, z."""


class Variant(Message):
    """One implementation of a kernel."""

    name: Name
    requires: Requires
    entry_points: Annotated[list[EntryPoint], Field(min_length=1)]
    launches: list[Launch]
    """The dispatches of one call, in order."""
    temporaries: list[CheckedExpression]
    """Bytes of scratch buffers that live for one call."""


class Overwrite(Message):
    """An output that is written into the bytes of an input: a call begins with what that holds in them."""

    argument: Annotated[int, Field(ge=0)]
    """The output, by its place among the operator's arguments."""
    input: Annotated[int, Field(ge=0)]
    """Its place. No launch binds it."""


class Kernel(Message):
    """What one operator compiles to. A device takes the first variant whose requirements it meets."""

    kernel: Name
    symbols: Annotated[list[Symbol], Field(max_length=100)]
    """What the expressions of its variants are made of; each call gives their sizes."""
    variants: Annotated[list[Variant], Field(min_length=1)]
    overwrites: Annotated[list[Overwrite], Field(max_length=1000, default_factory=list)]
