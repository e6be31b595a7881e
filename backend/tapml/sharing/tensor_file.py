"""A test as one safetensors file: tensors "inputs.0", "outputs.0", "bounds.0", the document in its metadata."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tapml.errors import InputError
from tapml.npy import Open, in_pieces
from tapml.protocol.base import TensorRef
from tapml.sharing.document import MOST_DOCUMENT_BYTES, carved_ref, nbytes, parse
from tapml.sharing.repro import Repro, of_pieces
from tapml.strict_json import parse_json

KEY = "tapml"
_AGAIN = "get the file again, or make it again: export the test, or capture the call"
_CAPTURE = re.compile(r'\s*\{\s*"format"\s*:\s*"tapml\.capture/')
DTYPE_NAMES = {
    "float32": "F32",
    "float16": "F16",
    "int32": "I32",
    "uint32": "U32",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
"""The format's names."""

_MOST_HEADER = MOST_DOCUMENT_BYTES + 4_000_000
"""The document, and what the format says of each tensor."""

_MOST_CONTAINERS = 500_000


def safetensors_file(repro: Repro) -> Iterator[bytes]:
    """The file's bytes in pieces."""
    header: dict[str, object] = {"__metadata__": {KEY: repro.document.model_dump_json()}}
    # As the format's own library does it: what is aligned to more bytes comes first.
    tensors = sorted(repro.document.named_tensors.items(), key=lambda item: (-int(_stored(item[1])[0][1:]), item[0]))
    at = 0
    for name, tensor in tensors:
        end = at + nbytes(tensor)
        dtype, shape = _stored(tensor)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise InputError(f"the description of the test is larger than {_MOST_HEADER} bytes: its WGSL is too long")
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in tensors:
        yield from repro.pieces(tensor.digest)


def read_safetensors(where: Path | str, open_file: Open) -> Repro:
    """Inverse of `safetensors_file`; tensors that the document does not name are not read. `where` names the file in
    errors. Raises InputError for any other file, and for a damaged one.
    """
    text, entries, start = described(where, open_file)
    if is_capture(text):
        raise InputError(f"{where} was captured in a page: open it with `tapml import {where} --into SUITE`")
    document = parse(where, text)
    places: dict[str, tuple[int, int]] = {}
    for name, tensor in document.named_tensors.items():
        entry = entries.get(name)
        if entry is None:
            continue
        if (entry.dtype, entry.shape, entry.length) != (*_stored(tensor), nbytes(tensor)):
            raise InputError(f"{where}: {name} is not {tensor.dtype}{tensor.shape}: export the test again")
        places.setdefault(tensor.digest, (start + entry.begin, entry.length))

    def pieces(digest: str) -> Iterator[bytes] | None:
        return read_part(open_file, *places[digest]) if digest in places else None

    return of_pieces(where, document, pieces)


def described(where: Path | str, open_file: Open) -> tuple[str, Mapping[str, Entry], int]:
    """The text that such a file has of tapml's, its tensors by name, and where their bytes begin. Raises InputError for
    any other file, and for one that ends early.
    """
    try:
        with open_file() as file:
            header, start = _header(where, file)
            entries = _entries(header, file.seek(0, os.SEEK_END) - start)
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{where} is no readable safetensors file: {error}; {_AGAIN}") from error
    metadata = header.get("__metadata__")
    text = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise InputError(
            f"{where} holds tensors, and nothing of tapml: export a test with `tapml export SUITE TEST --safetensors`"
        )
    return text, entries, start


def is_capture(text: str) -> bool:
    """Is it the document of what a page captured? What else is in it is not read."""
    return _CAPTURE.match(text) is not None


def _stored(tensor: TensorRef) -> tuple[str, list[int]]:
    """The format's name of its dtype, and its shape."""
    found = carved_ref(tensor).type.stored
    return DTYPE_NAMES[found.dtype], list(found.shape)


@dataclass(frozen=True)
class Entry:
    """What the header says of a tensor."""

    dtype: object
    shape: object
    begin: int
    length: int


def _header(where: Path | str, file: IO[bytes]) -> tuple[dict[str, Any], int]:
    """What the file says of its tensors, and where they begin."""
    length = int.from_bytes(file.read(8), "little")
    if length > _MOST_HEADER:
        raise ValueError(f"its header is said to have {length} bytes")
    text = file.read(length)
    if len(text) < length:
        raise ValueError(f"it is cut short: its header has {length} bytes, and {len(text)} of them are there")
    header = parse_json(text, f"{where}: its header", _AGAIN, most_containers=_MOST_CONTAINERS)
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    return header, 8 + length


def _entries(header: Mapping[str, Any], size: int) -> dict[str, Entry]:
    """All tensors by name. Raises ValueError unless they fill `size` bytes without gaps, as the format wants it.

    The format's own library judges files on disk only, and takes ten times a header's size to do so.
    """
    entries = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        match entry:
            case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]} if 0 <= begin <= end:
                entries[name] = Entry(dtype, shape, begin, end - begin)
            case _:
                raise ValueError(f"it does not say what {name[:100]!r} is and where")
    at = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.length)):
        if entry.begin != at:
            raise ValueError(f"there is a gap or an overlap at byte {min(at, entry.begin)} of its tensors")
        at += entry.length
    if at > size:
        raise ValueError(f"it is cut short: its tensors are {at} bytes, and {size} of them are there")
    if at != size:
        raise ValueError(f"its tensors are {at} bytes, and it holds {size}")
    return entries


def read_part(open_file: Open, start: int, length: int) -> Iterator[bytes]:
    """Bytes of a file, piece by piece."""
    with open_file() as file:
        yield from in_pieces(file, start, length)
