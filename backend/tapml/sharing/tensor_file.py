"""A test as one safetensors file: tensors "inputs.0", "outputs.0", "bounds.0", the document in its metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

from tapml.errors import InputError
from tapml.sharing.document import MOST_DOCUMENT_BYTES, nbytes, parse
from tapml.sharing.repro import Repro, of_pieces
from tapml.sharing.sources import in_pieces
from tapml.strict_json import parse_json

_KEY = "tapml"
_DTYPES = {
    "float32": "F32",
    "float16": "F16",
    "int32": "I32",
    "uint32": "U32",
    "int8": "I8",
    "uint8": "U8",
}
_ITEM_BYTES = {"F32": 4, "F16": 2, "I32": 4, "U32": 4, "I8": 1, "U8": 1}
_MOST_HEADER = MOST_DOCUMENT_BYTES + 4_000_000
"""The document and what the format says of each tensor. Reading it may take ten times as much memory."""

_MOST_CONTAINERS = 500_000


def safetensors_file(repro: Repro) -> Iterator[bytes]:
    """The file's bytes in pieces."""
    header: dict[str, object] = {"__metadata__": {_KEY: repro.document.model_dump_json()}}
    # As the format's own library does it: what is aligned to more bytes comes first.
    tensors = sorted(
        repro.document.named_tensors.items(), key=lambda item: (-_ITEM_BYTES[_DTYPES[item[1].dtype]], item[0])
    )
    at = 0
    for name, tensor in tensors:
        end = at + nbytes(tensor)
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise InputError(f"the description of the test is larger than {_MOST_HEADER} bytes: its WGSL is too long")
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in tensors:
        yield from repro.pieces(tensor.digest)


def read_safetensors(where: Path | str, path: Path) -> Repro:
    """Inverse of `safetensors_file`; tensors that the document does not name are not read. `where` names the file in
    errors. Raises InputError for any other file, and for a damaged one.
    """
    header, start = _header(where, path)
    try:
        # The library sees to it that the tensors fill the rest of the file without gaps; it reads the header only.
        with safe_open(path, "numpy") as opened:
            text = (opened.metadata() or {}).get(_KEY)
    except Exception as error:  # SafetensorError, OSError, and what numpy says of dtypes that it lacks
        raise InputError(f"{where} is no readable safetensors file: {str(error)[:300]}") from error
    if text is None:
        raise InputError(f"{where} holds tensors, but no test: export it with `tapml export SUITE TEST --safetensors`")
    document = parse(where, text)
    places: dict[str, tuple[int, int]] = {}
    for name, tensor in document.named_tensors.items():
        if name not in header:
            continue
        if (header[name]["dtype"], header[name]["shape"]) != (_DTYPES[tensor.dtype], list(tensor.shape)):
            raise InputError(f"{where}: {name} is not {tensor.dtype}{list(tensor.shape)}: export the test again")
        begin, end = header[name]["data_offsets"]
        places.setdefault(tensor.digest, (start + begin, end - begin))

    def pieces(digest: str) -> Iterator[bytes] | None:
        return _read(path, *places[digest]) if digest in places else None

    return of_pieces(where, document, pieces)


def _header(where: Path | str, path: Path) -> tuple[dict[str, Any], int]:
    """What the file says of its tensors, and where they begin."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(length) if length <= _MOST_HEADER else b""
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror}") from error
    if len(text) < length:
        raise InputError(f"{where} is no readable safetensors file: its header is said to have {length} bytes")
    header = parse_json(text, f"{where}: its header", "export the test again", most_containers=_MOST_CONTAINERS)
    if not isinstance(header, dict):
        raise InputError(f"{where} is no readable safetensors file: its header is no JSON object")
    return header, 8 + length


def _read(path: Path, start: int, length: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from in_pieces(file, start, length)
