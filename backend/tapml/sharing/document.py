"""tapml.repro/2: one carved test with all that it takes to run it again (docs/repro-format.md).

What is read here was written by strangers, so every field is checked before anything is made of it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from tapml.errors import InputError
from tapml.expressions import ExpressionError, Sizes
from tapml.files import sha256
from tapml.formats import format_version, validated
from tapml.kernels.document import argument_types, kernel_document
from tapml.protocol.base import (
    MAX_WGSL_BYTES,
    Digest,
    Message,
    Name,
    TensorRef,
    Text,
    Tolerance,
)
from tapml.protocol.fields import Created, KernelName, WgslName
from tapml.protocol.methods import Verdict
from tapml.results.base import DeviceFacts, Doubts
from tapml.results.validation import Measured
from tapml.strict_json import parse_json
from tapml.suite import TensorRef as CarvedRef
from tapml.suite import Tolerance as CarvedTolerance
from tapml.suite.tests_document import wrong_tolerance
from tapml.text import exact_size

FORMAT = "tapml.repro/2"
MOST_DOCUMENT_BYTES = 16_000_000
"""Of the JSON, WGSL included; tensors are apart."""

MOST_TENSOR_BYTES = 1 << 30
"""Of all tensors of a test, each once: what is unpacked from a file, however small the file is."""

_MOST_CONTAINERS = 500_000
_MOST_NAME = 2000


class SuiteFacts(Message):
    """The suite it was carved in."""

    id: Text
    name: Text
    synthetic: bool
    doubts: Doubts


class ModelFacts(Message):
    """The model that made the call."""

    title: Text
    source: Text
    sha256: Text


class ReferenceFacts(Message):
    """What computed the expected outputs."""

    platform: Text
    device: Text


class TestFacts(Message):
    """Its names in that suite."""

    id: Name
    node: Name
    kernel: KernelName
    step: Annotated[int, Field(ge=0, le=2**31)]
    sizes: Sizes = Field(default_factory=dict)
    """Of the kernel's symbols."""


class Input(TensorRef):
    """A tensor the call read; its bytes by digest, little-endian, dense, row-major."""

    name: Text


class Bound(Tolerance):
    """With the reasons, in words."""

    reasons: list[Text]


class Output(Input):
    """A tensor the call wrote, as the reference computed it, and how far from it a device may be."""

    tolerance: Bound


class WgslFile(Message):
    """The WGSL of one entry point. `text` is empty where the file that carries the document holds it elsewhere."""

    name: WgslName
    sha256: Digest
    edited: bool
    text: Annotated[str, Field(max_length=MAX_WGSL_BYTES)]


class Report(Message):
    """What somebody got, and on which device."""

    created: Created
    device: DeviceFacts
    result: Measured


class Other(Message):
    """What another device of the same suite said last."""

    device: Text
    verdict: Verdict
    created: Text


class ReproDocument(Message):
    """The document."""

    format: Text
    created: Text
    tapml: Text
    suite: SuiteFacts
    model: ModelFacts
    reference: ReferenceFacts
    test: TestFacts
    inputs: Annotated[list[Input], Field(max_length=1000)]
    outputs: Annotated[list[Output], Field(min_length=1, max_length=1000)]
    kernel: dict[str, Any]
    """kernels/NAME.json, tapml.kernel/4 (docs/suite-format.md)."""
    files: Annotated[list[WgslFile], Field(max_length=1000)]
    report: Report | None
    others: Annotated[list[Other], Field(max_length=1000, default_factory=list)]
    """Results of the same WGSL on other devices."""

    @model_validator(mode="after")
    def _names_agree(self) -> ReproDocument:
        if self.kernel.get("kernel") != self.test.kernel:
            raise ValueError(f"kernel: describes {self.kernel.get('kernel')!r}, the test is of {self.test.kernel!r}")
        return self

    @property
    def arguments(self) -> list[Input]:
        """Inputs, then outputs."""
        return [*self.inputs, *self.outputs]

    @property
    def named_tensors(self) -> dict[str, Input]:
        """All there are, by their names in files: "inputs.0", "outputs.0", "bounds.0" and "ties.0" (of output 0)."""
        found = {f"inputs.{number}": tensor for number, tensor in enumerate(self.inputs)}
        found |= {f"outputs.{number}": tensor for number, tensor in enumerate(self.outputs)}
        for number, output in enumerate(self.outputs):
            for kind, ref in (("bounds", output.tolerance.bound), ("ties", output.tolerance.ties)):
                if ref is not None:
                    name = f"{kind} of {output.name}"[:_MOST_NAME]
                    found[f"{kind}.{number}"] = Input(name=name, **ref.model_dump())
        return found

    @property
    def tensors(self) -> list[Input]:
        """Inputs, outputs, bounds and ties; in the order of a test's `refs`."""
        return list(self.named_tensors.values())

    @property
    def wgsl_names(self) -> list[str]:
        """Files of all entry points of all variants, in the bundle's order."""
        return [str(entry["file"]) for variant in self.kernel["variants"] for entry in variant["entry_points"]]

    def text(self, name: str) -> str:
        """The WGSL of a file."""
        return next(file.text for file in self.files if file.name == name)


def checked(where: Path | str, found: Any) -> ReproDocument:
    """`found` as a document whose parts fit together; `where` names its place in errors.

    Raises InputError naming the first field that is wrong.
    """
    path = Path(where)
    if not isinstance(found, dict):
        raise InputError(f"{where} holds no JSON object: export the test again")
    format_version(path, found, FORMAT, "an exported test")
    document = validated(where, ReproDocument, found, "; export the test again")
    _check_sizes(where, document)
    # Version 1 had kernels of a former version, and no sizes.
    document = document.model_copy(update={"format": FORMAT, "kernel": kernel_document(path, document.kernel)})
    _check_kernel(where, document)
    _check_tolerances(where, document)
    return document


def nbytes(tensor: TensorRef) -> int:
    """Bytes that are stored of it."""
    return carved_ref(tensor).type.nbytes


def _check_sizes(where: Path | str, document: ReproDocument) -> None:
    """Before anything of that size is made."""
    sizes: dict[str, int] = {}
    for name, tensor in document.named_tensors.items():
        size = sizes.setdefault(tensor.digest, nbytes(tensor))
        # No array has extents whose product is too large, though a zero among them makes it empty.
        extents = math.prod(extent for extent in tensor.shape if extent)
        if size != nbytes(tensor) or extents > MOST_TENSOR_BYTES:
            raise InputError(f"{where}: {name}: its shape is not that of its bytes: export the test again")
    if (total := sum(sizes.values())) > MOST_TENSOR_BYTES:
        raise InputError(
            f"{where}: its tensors are {total} bytes, and those of an exported test at most "
            f"{exact_size(MOST_TENSOR_BYTES)}: `tapml reduce` makes a test smaller"
        )


def _check_kernel(where: Path | str, document: ReproDocument) -> None:
    try:
        described = argument_types(document.kernel, document.test.sizes)
    except ExpressionError as error:
        raise InputError(f"{where}: test.sizes: {error}") from None
    carried = [carved_ref(tensor).type for tensor in document.arguments]
    if document.kernel["unsupported"]:
        carried = [found.logical for found in carried]
    if described != carried:
        raise InputError(f"{where}: kernel.arguments: dtypes and shapes are not those of inputs and outputs")
    names = [file.name for file in document.files]
    if sorted(names) != sorted(set(document.wgsl_names)) or len(set(names)) != len(names):
        raise InputError(f"{where}: files: they are not the files that the kernel's entry points name")


def _check_tolerances(where: Path | str, document: ReproDocument) -> None:
    for number, output in enumerate(document.outputs):
        if wrong := wrong_tolerance(carved_tolerance(output.tolerance), carved_ref(output)):
            raise InputError(f"{where}: outputs[{number}].tolerance.{wrong}: export the test again")


def carved_tolerance(found: Bound) -> CarvedTolerance:
    """As a suite has it."""
    bound = carved_ref(found.bound) if found.bound else None
    ties = carved_ref(found.ties) if found.ties else None
    return CarvedTolerance(found.absolute, found.relative, tuple(found.reasons), bound, ties)


def carved_ref(tensor: TensorRef) -> CarvedRef:
    """As a suite has it."""
    return CarvedRef(tensor.digest, tensor.dtype, tuple(tensor.shape), tensor.encoding)


def with_texts(where: Path | str, document: ReproDocument, texts: dict[str, str]) -> ReproDocument:
    """The document with the WGSL that its carrier holds apart.

    A text that somebody changed counts as edited, and the report, which is of another one, is left out. Raises
    InputError for a missing text.
    """
    files = []
    for file in document.files:
        if file.name not in texts:
            raise InputError(f"{where} lacks the WGSL of {file.name}: export the test again")
        text = texts[file.name]
        if len(text) > MAX_WGSL_BYTES:
            raise InputError(f"{where}: the WGSL of {file.name} has more than {MAX_WGSL_BYTES} characters")
        digest = sha256(text)
        edited = file.edited or digest != file.sha256
        files.append(WgslFile(name=file.name, sha256=digest, edited=edited, text=text))
    changed = any(file.sha256 != before.sha256 for file, before in zip(files, document.files, strict=True))
    # What was reported is of the WGSL before.
    return document.model_copy(update={"files": files, **({"report": None, "others": []} if changed else {})})


def without_texts(document: ReproDocument) -> ReproDocument:
    """For carriers that hold WGSL as text of its own."""
    return document.model_copy(update={"files": [file.model_copy(update={"text": ""}) for file in document.files]})


def parse(where: Path | str, text: str | bytes) -> ReproDocument:
    """A document from JSON. Raises InputError."""
    if len(text) > MOST_DOCUMENT_BYTES:
        raise InputError(f"{where}: the description of the test is larger than {MOST_DOCUMENT_BYTES} bytes")
    found = parse_json(text, f"{where}: its description", "export the test again", most_containers=_MOST_CONTAINERS)
    return checked(where, found)
