"""A test as a folder: its WGSL to edit, tensors as .npy, the description, and the text of a bug report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tapml.errors import InputError
from tapml.files import write_json, write_text
from tapml.graph.model import numpy_dtype
from tapml.sharing.document import parse, with_texts, without_texts
from tapml.sharing.issue import issue_text
from tapml.sharing.repro import Repro, of_memory

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
    tensors = {}
    for stem, tensor in document.named_tensors.items():
        name = f"{stem}.npy"
        try:
            array = np.load(folder / name, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{folder / name} is no readable tensor: {error}; export the test again") from error
        if array.dtype != numpy_dtype(tensor.dtype) or list(array.shape) != list(tensor.shape):
            raise InputError(f"{folder / name} is not {tensor.dtype}{list(tensor.shape)}: export the test again")
        tensors[tensor.digest] = np.ascontiguousarray(array).tobytes()
    return of_memory(folder, with_texts(folder, document, texts), tensors)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; export the test again") from error
