"""Kernels as a device gets them: several variants of one operator, each with what it needs of the device."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypeAliasType

from tapml.protocol.base import Bytes, Digest, Extent, Message, Name, Text


class Requires(Message):
    """What a device must offer. An unknown limit is not checked ahead: the GPU's own validation will tell."""

    features: list[Text]
    """GPUFeatureName values."""
    limits: dict[str, float]
    """GPUSupportedLimits name -> least value; for names that start with "min", greatest value."""


class EntryPointInfo(Message):
    """The signature of an entry point as TVM writes it (`func_info`)."""

    name: Name
    arg_types: list[Text]
    """"handle" for a storage buffer, else the dtype of a scalar. Buffers are bindings 0.. of group 0, in order."""
    launch_param_tags: list[Text]
    """"blockIdx.x" and the like, and "paramWriteAccess:[...]" with a flag for each buffer."""


class EntryPoint(Message):
    """One WGSL compute entry point."""

    name: Name
    file: Name
    """File name shown in diagnostics."""
    code: Digest
    """Digest of the WGSL text."""
    info: EntryPointInfo


class ArgumentOperand(Message):
    """One of the operator's arguments: inputs, then outputs."""

    argument: Annotated[int, Field(ge=0)]


class TemporaryOperand(Message):
    """One of the variant's temporaries."""

    temporary: Annotated[int, Field(ge=0)]


class ScalarOperand(Message):
    """A number, passed in the uniform after the buffers."""

    scalar: float
    dtype: Text


LaunchArgument = TypeAliasType("LaunchArgument", ArgumentOperand | TemporaryOperand | ScalarOperand)
"""What is bound to one parameter of an entry point."""


class Launch(Message):
    """One dispatch. The order of `arguments` is that of the entry point's `info.arg_types`."""

    entry_point: Name
    arguments: list[LaunchArgument]
    dispatch: Annotated[list[Extent], Field(min_length=3, max_length=3)]
    """Workgroups along x, y, z, before a runner folds an x that is larger than a dispatch may be."""
    workgroup_size: Annotated[list[Extent], Field(min_length=3, max_length=3)]
    """Invocations of a workgroup along x, y, z."""


class Variant(Message):
    """One implementation of a kernel."""

    name: Name
    requires: Requires
    entry_points: Annotated[list[EntryPoint], Field(min_length=1)]
    launches: list[Launch]
    """The dispatches of one call, in order."""
    temporaries: list[Bytes]
    """Scratch buffers that live for one call."""


class Kernel(Message):
    """What one operator compiles to. A device takes the first variant whose requirements it meets."""

    kernel: Name
    variants: Annotated[list[Variant], Field(min_length=1)]
