"""Errors as devices report them: what happened, where, and everything known of the cause."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from tapml.protocol.base import LongText, Message, Name, TensorType, Text

ErrorKind = TypeAliasType(
    "ErrorKind",
    Literal[
        "compile",
        "validation",
        "out-of-memory",
        "internal",
        "device-lost",
        "fetch",
        "protocol",
        "unsupported",
        "cancelled",
        "input",
    ],
)
"""compile: WGSL or its pipeline; validation, out-of-memory, internal: the GPU's error scopes (internal also: the runner
itself); device-lost: the GPU device is gone, with all tensors; fetch: bytes did not travel; protocol: the message made
no sense; unsupported: the device lacks something; cancelled: nobody waited any more; input: what a
compiled model was given is more than it takes."""


class Diagnostic(Message):
    """One message of GPUCompilationInfo; line and column count from 1."""

    severity: Literal["error", "warning", "info"]
    line: int
    column: int
    message: LongText
    source: LongText
    """The line of WGSL the message points at."""
    file: Text
    """File of the kernel the line is in, for example "layer_norm.wgsl"."""


class ErrorReport(Message):
    """A structured error. `message` is one sentence; the rest is evidence."""

    kind: ErrorKind
    message: LongText
    kernel: Name | None = None
    variant: Name | None = None
    test: Name | None = None
    command: int | None = None
    """Position of the command that failed in its "execute"."""
    done: Annotated[int, Field(ge=0)] | None = None
    """So many of the commands of its "execute" were done, and none after them; null where that is not known."""
    arguments: list[TensorType] | None = None
    """Types of the kernel's arguments: inputs, then outputs."""
    diagnostics: list[Diagnostic] | None = None
    gpu_message: LongText | None = None
    """The GPU error as the error scope gave it."""
    lost_reason: Text | None = None
    """GPUDeviceLostInfo.reason, or "hung" where work did not end in time."""
    stack: LongText | None = None
    """The runner's stack, where the cause is unexpected."""
