"""Messages from tapml's own types; commands without a tensor's type are made of their classes
(tapml.protocol.methods).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from tapml.errors import InputError
from tapml.first_error import LEAVES_UNKNOWN, first_error
from tapml.program import TensorType
from tapml.protocol.base import Message
from tapml.protocol.methods import (
    AllocateCommand,
    Command,
    FreePrefixCommand,
    UnloadCommand,
    UploadCommand,
    ViewCommand,
)

_Message = TypeVar("_Message", bound=Message)


def message(form: type[_Message], fields: Mapping[str, Any], what: str) -> _Message:
    """A message of those of these fields that it has.

    Raises InputError that names `what` where the protocol has no such thing.
    """
    try:
        return form.model_validate(fields, extra="ignore", context=LEAVES_UNKNOWN)
    except ValidationError as error:
        raise InputError(f"{what} cannot be sent to a device: {first_error(error)}") from None


def allocated(name: str, tensor: TensorType) -> AllocateCommand:
    """Makes a new tensor, filled with 0xFF. Raises InputError for a dtype that no device has."""
    return message(AllocateCommand, {"tensor": name, **tensor.to_json()}, f"tensor {name}")


def uploaded(name: str, digest: str, tensor: TensorType) -> UploadCommand:
    """Makes a new tensor of a blob's bytes. Raises InputError for a dtype that no device has."""
    return message(UploadCommand, {"tensor": name, "digest": digest, **tensor.to_json()}, f"tensor {name}")


def viewed(name: str, of: str, tensor: TensorType) -> ViewCommand:
    """The same buffer under a second name. Raises InputError for a shape that no device has."""
    return message(ViewCommand, {"tensor": name, "of": of, "shape": list(tensor.shape)}, f"tensor {name}")


def freed(library: str) -> list[Command]:
    """Free a library, and the tensors below its name."""
    return [UnloadCommand(library=library), FreePrefixCommand(prefix=f"{library}/")]
