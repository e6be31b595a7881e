"""tapml.capture/1: what operators of one call of a deployed model were given, and what its GPU made of it
(docs/capture.md). A page wrote it, or a stranger: every field is checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tapml.compiled.model import CompiledKernel
from tapml.errors import InputError
from tapml.expressions import Sizes
from tapml.formats import format_version, validated
from tapml.npy import Open, opening
from tapml.protocol.base import MAX_WGSL_BYTES, Digest, Message, Name, Text
from tapml.protocol.fields import Count, Created, Id, KernelName, Line
from tapml.results.base import DeviceFacts
from tapml.sharing.document import MOST_DOCUMENT_BYTES, MOST_TENSOR_BYTES, Input, nbytes
from tapml.sharing.tensor_file import Entry, described, is_capture, read_part
from tapml.strict_json import parse_json
from tapml.text import exact_size

FORMAT = "tapml.capture/1"
MOST_CALLS = 1000
AGAIN = "capture it again"

_MOST_CONTAINERS = 500_000
_SAFETENSORS = b"{"


class CapturedTensor(Input):
    """An operand of a call; its bytes by digest, as they are stored. They are in the file, unless it is a weight."""

    weight: bool
    """It is one of the model's."""


class CapturedCall(Message):
    """One call of an operator."""

    node: Text
    """Of the model's program; empty where it has no name."""
    kernel: KernelName
    variant: Name
    """The one that ran."""
    sizes: Sizes
    """Of the kernel's symbols."""
    inputs: Annotated[list[CapturedTensor], Field(max_length=1000)]
    outputs: Annotated[list[CapturedTensor], Field(min_length=1, max_length=1000)]
    """What the GPU gave."""

    @property
    def operands(self) -> list[CapturedTensor]:
        """Inputs, then outputs."""
        return [*self.inputs, *self.outputs]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.node} ({self.kernel})" if self.node else self.kernel


class CapturedModel(Message):
    """What the page ran."""

    name: Name
    title: Line
    source: Line
    sha256: Line
    """Of the file that it was carved of."""
    suite: Digest | None
    """Of the suite it was built from."""
    tapml: Text
    doubts: Annotated[list[Line], Field(max_length=10_000)]


class CaptureDocument(Message):
    """The document."""

    format: Text
    created: Created
    model: CapturedModel
    device: DeviceFacts
    function: Id
    sizes: Sizes
    """Of the model's symbols."""
    left_out: Count
    """Calls of operators that were chosen, and not captured."""
    why: Annotated[list[Text], Field(max_length=100)] = Field(default_factory=list)
    """The reasons for that, each once; files of former versions have none."""
    wgsl: Annotated[list[Annotated[str, Field(max_length=MAX_WGSL_BYTES)]], Field(max_length=20_000)]
    kernels: Annotated[list[CompiledKernel], Field(max_length=MOST_CALLS)]
    """As the page's model has them."""
    operators: Annotated[dict[KernelName, str], Field(max_length=MOST_CALLS)]
    """By kernel, the text of what it computes (tapml.operator/2)."""
    calls: Annotated[list[CapturedCall], Field(min_length=1, max_length=MOST_CALLS)]


@dataclass(frozen=True)
class Capture:
    """A captured call, read. Its tensors stay in the file."""

    where: Path
    document: CaptureDocument
    _open: Open
    _places: dict[str, tuple[int, int]]

    def kernel(self, call: CapturedCall) -> CompiledKernel:
        """As the page's model has it."""
        return next(kernel for kernel in self.document.kernels if kernel.kernel == call.kernel)

    def pieces(self, digest: str) -> Iterator[bytes] | None:
        """A tensor's bytes, unchecked; None where they are not in the file."""
        return read_part(self._open, *self._places[digest]) if digest in self._places else None


def read_capture(path: Path) -> Capture | None:
    """What a page captured; None for a file that is none. Raises InputError for one that is damaged."""
    if not path.is_file():
        return None
    open_file = opening(path)
    try:
        with open_file() as file:
            if file.read(9)[8:] != _SAFETENSORS:
                return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    text, entries, start = described(path, open_file)
    if not is_capture(text):
        return None
    if len(text) > MOST_DOCUMENT_BYTES:
        raise InputError(f"{path}: its description is larger than {MOST_DOCUMENT_BYTES} bytes: capture fewer operators")
    found = parse_json(text, f"{path}: its description", AGAIN, most_containers=_MOST_CONTAINERS)
    format_version(path, found, FORMAT, "a captured call")
    document = validated(path, CaptureDocument, found, f"; {AGAIN}")
    _check(path, document)
    return Capture(path, document, open_file, _places(path, document, entries, start))


def _check(path: Path, document: CaptureDocument) -> None:
    """What one part of the document says of another."""
    names = [kernel.kernel for kernel in document.kernels]
    if len(set(names)) != len(names):
        raise InputError(f"{path}: kernels: a name stands twice; {AGAIN}")
    for kernel in document.kernels:
        for entry in (entry for variant in kernel.variants for entry in variant.entry_points):
            if entry.wgsl >= len(document.wgsl):
                raise InputError(f"{path}: kernels: {kernel.kernel} has a text {entry.wgsl} that is not there; {AGAIN}")
    for number, call in enumerate(document.calls):
        if call.kernel not in names:
            raise InputError(f"{path}: calls[{number}].kernel: there is no kernel {call.kernel}; {AGAIN}")
        if call.variant not in {variant.name for variant in document.kernels[names.index(call.kernel)].variants}:
            raise InputError(f"{path}: calls[{number}].variant: {call.kernel} has no variant {call.variant}; {AGAIN}")


def _places(
    path: Path, document: CaptureDocument, entries: Mapping[str, Entry], start: int
) -> dict[str, tuple[int, int]]:
    """Where each tensor's bytes are, by digest."""
    sizes: dict[str, int] = {}
    places = {}
    total = 0
    for tensor in (tensor for call in document.calls for tensor in call.operands):
        size = nbytes(tensor)
        total += 0 if tensor.digest in sizes else size
        if sizes.setdefault(tensor.digest, size) != size:
            raise InputError(f"{path}: the shape of {tensor.name[:100]} is not that of its bytes; {AGAIN}")
        if total > MOST_TENSOR_BYTES:
            raise InputError(f"{path}: its tensors are more than {exact_size(MOST_TENSOR_BYTES)}: capture fewer")
        if (entry := entries.get(tensor.digest)) is not None:
            if entry.length != size:
                raise InputError(f"{path}: {tensor.name[:100]} has {entry.length} bytes, not {size}; {AGAIN}")
            places[tensor.digest] = (start + entry.begin, size)
        elif not tensor.weight:
            raise InputError(f"{path} lacks the bytes of {tensor.name[:100]} ({tensor.digest[:16]}...); {AGAIN}")
    return places
