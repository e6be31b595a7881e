"""A suite's kernel as it lies in the folder now: its document, its WGSL, and whether they are what was generated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.errors import InputError
from tapml.files import sha256
from tapml.folder import Folder
from tapml.kernels.document import is_edited
from tapml.protocol.base import MAX_WGSL_BYTES


@dataclass(frozen=True)
class KernelFile:
    """One WGSL file of a kernel as it is now. `edited`: it differs from what was generated, or never was."""

    name: str
    text: str
    edited: bool

    @property
    def digest(self) -> str:
        return sha256(self.text)


@dataclass(frozen=True)
class SuiteKernel:
    """`document` is tapml.kernel/4, `files` the WGSL of all entry points of all variants, in the document's order."""

    document: dict[str, Any]
    files: list[KernelFile]

    @property
    def edited(self) -> bool:
        """Whether a text of it, or how it is launched, differs from what was generated."""
        return any(file.edited for file in self.files) or is_edited(self.document)


def kernel_files(folder: Folder, document: Mapping[str, Any]) -> list[KernelFile]:
    """Raises InputError for a text that is not there."""
    files = []
    for variant in document["variants"]:
        for entry_point in variant["entry_points"]:
            name = entry_point["file"]
            try:
                text = folder.read_text(f"kernels/{name}", MAX_WGSL_BYTES)
            except InputError as error:
                raise InputError(f"kernel {document['kernel']}, variant {variant['name']}: {error}") from error
            files.append(KernelFile(name, text, sha256(text) != entry_point["generated_sha256"]))
    return files


def kernels_id(files: Mapping[str, Sequence[KernelFile]]) -> str:
    """Digest of the WGSL of all kernels, by their names."""
    found = {name: [[file.name, file.digest] for file in own] for name, own in files.items()}
    return sha256(json.dumps(found, sort_keys=True))[:16]
