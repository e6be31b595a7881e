"""A test as a folder: its WGSL to edit, tensors as .npy, the description, and the text of a bug report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tapml.errors import InputError
from tapml.files import write_json, write_text
from tapml.graph.model import numpy_dtype
from tapml.npy import open_npy
from tapml.sharing.document import MOST_DOCUMENT_BYTES, parse, with_texts, without_texts
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
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def read_folder(folder: Path) -> Repro:
    """Inverse of `write_folder`; WGSL that was changed since counts as edited.

    Raises InputError naming what is wrong.
    """
    path = folder / DOCUMENT
    document = parse(path, _bytes(path))
    texts = {}
    for file in document.files:
        try:
            texts[file.name] = _bytes(folder / file.name).decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{folder / file.name} is no UTF-8 text: {error}") from error
    paths: dict[str, Path] = {}
    for stem, tensor in document.named_tensors.items():
        npy = folder / f"{stem}.npy"
        try:
            header, _ = open_npy(npy)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise InputError(f"{npy} is no readable tensor: {why}; export the test again") from error
        if header.dtype.newbyteorder("=") != numpy_dtype(tensor.dtype) or header.shape != tuple(tensor.shape):
            raise InputError(f"{npy} is not {tensor.dtype}{list(tensor.shape)}: export the test again")
        paths.setdefault(tensor.digest, npy)
    return of_pieces(
        folder,
        with_texts(folder, document, texts),
        lambda digest: open_npy(paths[digest])[1] if digest in paths else None,
    )


def _bytes(path: Path) -> bytes:
    """At most one byte more than a description or a text may have: whoever takes it says that it is too long."""
    try:
        # A FIFO would be waited for, and a device never ends.
        if not path.is_file():
            raise InputError(f"{path} is missing, or no file: export the test again")
        with path.open("rb") as file:
            return file.read(MOST_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; export the test again") from error
