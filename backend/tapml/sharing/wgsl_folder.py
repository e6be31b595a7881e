"""A test as a folder: its WGSL to edit, tensors as .npy, the description, and the text of a bug report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tapml.errors import InputError
from tapml.files import write_json, write_text
from tapml.folder import Folder
from tapml.npy import Header, open_npy
from tapml.program.graph import numpy_dtype
from tapml.sharing.document import MOST_DOCUMENT_BYTES, carved_ref, parse, with_texts, without_texts
from tapml.sharing.issue import issue_text
from tapml.sharing.repro import Repro, of_pieces

DOCUMENT = "repro.json"


def write_folder(repro: Repro, folder: Path) -> None:
    """Fill an empty folder."""
    document = repro.document
    write_json(folder / DOCUMENT, json.loads(without_texts(document).model_dump_json()))
    write_text(folder / "README.md", issue_text(document))
    for file in document.files:
        write_text(folder / file.name, file.text)
    for name, array in repro.arrays.items():
        stored = carved_ref(document.named_tensors[name]).type.encoded(array)
        np.save(folder / f"{name}.npy", stored, allow_pickle=False)


def read_folder(path: Path) -> Repro:
    """Inverse of `write_folder`; WGSL that was changed since counts as edited.

    Raises InputError naming what is wrong: also a link, which may lead anywhere on the machine of whoever opens it.
    """
    folder = Folder(path)
    document = parse(path / DOCUMENT, folder.read(DOCUMENT, MOST_DOCUMENT_BYTES))
    texts = {file.name: folder.read_text(file.name, MOST_DOCUMENT_BYTES) for file in document.files}
    found: dict[str, str] = {}

    def opened(name: str) -> tuple[Header, Iterator[bytes]]:
        try:
            return open_npy(lambda: folder.open(name))
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise InputError(f"{path / name} is no readable tensor: {why}; export the test again") from error

    for stem, tensor in document.named_tensors.items():
        name = f"{stem}.npy"
        header, _ = opened(name)
        stored = carved_ref(tensor).type.stored
        if header.dtype.newbyteorder("=") != numpy_dtype(stored.dtype) or header.shape != stored.shape:
            raise InputError(f"{path / name} is not {stored}: export the test again")
        found.setdefault(tensor.digest, name)
    return of_pieces(
        path,
        with_texts(path, document, texts),
        lambda digest: opened(found[digest])[1] if digest in found else None,
    )
