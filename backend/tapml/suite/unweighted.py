"""What a model of a configuration would run (tapml.unweighted/1): its program and kernels, and no weights.

docs/generation.md, "Without weights".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from tapml.errors import InputError
from tapml.files import json_bytes
from tapml.folder import Folder
from tapml.formats import REMEDY, validated
from tapml.kernels.document import kernel_document
from tapml.program.generation import Generation
from tapml.program.program import Program
from tapml.protocol.base import Message
from tapml.protocol.fields import KernelName, Line, WgslName
from tapml.suite.program_document import read_program
from tapml.suite.suite import write_kernel

FORMAT = "tapml.unweighted/1"
DOCUMENT = "unweighted.json"

_MOST_KERNELS = 10_000
_Text = Annotated[str, Field(max_length=8_000_000)]


class _Kernel(Message):
    document: dict[str, Any]
    files: dict[WgslName, _Text]


class _Document(Message):
    format: Literal["tapml.unweighted/1"]
    title: Line
    made_by: dict[Line, Line]
    notes: list[_Text]
    generation: Generation
    program: dict[str, Any]
    operators: Annotated[dict[KernelName, _Text], Field(max_length=_MOST_KERNELS)]
    kernels: Annotated[dict[KernelName, _Kernel], Field(max_length=_MOST_KERNELS)]


@dataclass(frozen=True)
class Unweighted:
    """`made_by`: versions by name. `operators`: documents of what kernels compute; `kernels`: their documents;
    `texts`: of each kernel, its WGSL by name."""

    title: str
    made_by: Mapping[str, str]
    notes: list[str]
    generation: Generation
    program: Program
    operators: Mapping[str, str]
    kernels: Mapping[str, dict[str, Any]]
    texts: Mapping[str, Mapping[str, str]]

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **self.summary(),
            "program": self.program.to_json(),
            "operators": dict(self.operators),
            "kernels": {
                name: {"document": document, "files": dict(self.texts[name])} for name, document in self.kernels.items()
            },
        }

    def summary(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "made_by": dict(self.made_by),
            "notes": self.notes,
            "generation": self.generation.model_dump(),
        }

    def write(self, path: Path) -> None:
        """As a folder of plain files. Raises OSError."""
        folder = Folder(path)
        for name, document in self.kernels.items():
            write_kernel(folder, document, self.texts[name])
            folder.write(f"operators/{name}.json", self.operators[name].encode())
        folder.write("program.json", json_bytes(self.program.to_json()))
        folder.write(DOCUMENT, json_bytes({"format": FORMAT, **self.summary()}))


def read_unweighted(where: Path, found: Any) -> Unweighted:
    """Inverse of `Unweighted.to_json`. Raises InputError naming `where` and what is wrong."""
    document = validated(where, _Document, found, REMEDY)
    program = read_program(where, document.program)
    kernels = {name: kernel_document(where, kernel.document) for name, kernel in document.kernels.items()}
    wanted = {
        node.kernel for function in program.functions.values() for node in function.nodes if node.kind == "kernel"
    }
    for name, kernel in kernels.items():
        texts = {entry["file"] for variant in kernel["variants"] for entry in variant["entry_points"]}
        if kernel["kernel"] != name or texts != document.kernels[name].files.keys():
            raise InputError(
                f"{where}: kernel {name} is described as another, or its texts are not those it names{REMEDY}"
            )
    if not wanted == kernels.keys() == document.operators.keys():
        raise InputError(f"{where}: its kernels are not those of its program{REMEDY}")
    return Unweighted(
        document.title,
        document.made_by,
        document.notes,
        document.generation,
        program,
        document.operators,
        kernels,
        {name: kernel.files for name, kernel in document.kernels.items()},
    )
