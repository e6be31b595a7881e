"""Tensors of which only what no other one has is stored: versions of a state that differ by a few rows.

`TENSOR.json` beside the plain files (tapml.parts/1) says which ranges of one plain file, and how many zeros, make the
tensor. A document never leads to another one, so nothing is nested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from tapml.errors import InputError
from tapml.folder import FileInside, Folder
from tapml.formats import REMEDY, format_version, read_json, validated
from tapml.protocol.base import Digest
from tapml.protocol.fields import Line, Open

FORMAT = "tapml.parts/1"

MOST_DOCUMENT = 4_000_000
MOST_TENSOR = 1 << 31
"""Bytes of a document, and of the tensor that it makes: a few numbers may ask for any."""

_PIECE = 1 << 20
_ZEROS = -1

Range: TypeAlias = list[Annotated[int, Field(ge=0, le=1 << 50)]]
"""`[bytes, offset]` in the plain file, or `[bytes]` that are 0."""


class PartsDocument(Open):
    """A tensor's parts, one after the other."""

    format: Line
    source: Digest
    """The plain file."""
    parts: list[Annotated[Range, Field(min_length=1, max_length=2)]]


@dataclass(frozen=True)
class InParts:
    """A tensor made of parts, as its document in `folder` says."""

    folder: Folder
    name: str
    source: str
    """Name of the plain file in `folder`."""
    parts: Sequence[Range]

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return sum(part[0] for part in self.parts)

    def version(self) -> tuple[int, ...]:
        """Another one where a file that it is made of is another. Raises InputError where one is missing."""
        return tuple(n for name in (self.name, self.source) for n in FileInside(self.folder, name).version())

    def pieces(self) -> Iterator[bytes]:
        """Its bytes, not checked. Raises InputError where the plain file is missing or ends before a part does."""
        waiting = bytearray()
        with self.folder.open(self.source) as file:
            for left, *offset in self.parts:
                if offset:
                    file.seek(offset[0])
                while left:
                    count = min(left, _PIECE)
                    data = file.read(count) if offset else bytes(count)
                    if len(data) != count:
                        where = self.folder.path / self.name
                        raise InputError(f"{where}: parts: one of them ends behind {self.source}{REMEDY}")
                    left -= count
                    waiting += data
                    if len(waiting) >= _PIECE:
                        yield bytes(waiting)
                        waiting.clear()
        if waiting:
            yield bytes(waiting)


def read_parts(folder: Folder, name: str, plain: Callable[[str], str]) -> InParts:
    """The document `name`; `plain`: names of plain files, by digest.

    Raises InputError where it is missing (FileMissing), or for the first field that is wrong.
    """
    found = read_json(folder, name, most=MOST_DOCUMENT)
    where = folder.path / name
    format_version(where, found, FORMAT, "a tensor in parts")
    document = validated(where, PartsDocument, found, REMEDY)
    if (size := sum(part[0] for part in document.parts)) > MOST_TENSOR:
        raise InputError(f"{where}: parts: {size} bytes, and a tensor in parts has at most {MOST_TENSOR}{REMEDY}")
    return InParts(folder, name, plain(document.source), document.parts)


def shared_rows(versions: Sequence[np.ndarray]) -> tuple[bytes, list[list[Range]]] | None:
    """Rows (along the last axis) that `versions` of one shape are made of, each once and without those of zeros, and
    the parts of them that each version is. None where they have no rows.

    Rows lie in the order of the last version: of a cache that grows each former one is then a few ranges.
    """
    if versions[0].ndim < 2 or not versions[0].nbytes:
        return None
    known: dict[bytes, int] = {}
    found: list[list[Range]] = []
    places: np.ndarray | None = None
    later: np.ndarray | None = None
    width = versions[0].shape[-1] * versions[0].itemsize
    for version in reversed(versions):
        rows = np.ascontiguousarray(version).reshape(-1).view(np.uint8).reshape(-1, width)
        if places is None or later is None:
            places, changed = np.full(len(rows), _ZEROS, np.int64), np.flatnonzero(rows.any(axis=1))
        else:
            places, changed = places.copy(), np.flatnonzero((rows != later).any(axis=1))
        for place in changed:
            row = rows[place].tobytes()
            places[place] = known.setdefault(row, len(known)) if row.strip(b"\0") else _ZEROS
        found.append(list(_ranges(places, width)))
        later = rows
    return b"".join(known), found[::-1]


def _ranges(places: np.ndarray, width: int) -> Iterator[Range]:
    """Rows that follow one another, as one range."""
    step = np.where(places[:-1] == _ZEROS, 0, 1)
    ends = np.flatnonzero(np.diff(places) != step) + 1
    for begin, end in zip([0, *ends.tolist()], [*ends.tolist(), len(places)], strict=True):
        place, size = int(places[begin]), (end - begin) * width
        yield [size] if place == _ZEROS else [size, place * width]


def parts_text(source: str, parts: Sequence[Range]) -> bytes:
    """The document of a tensor that is `parts` of the plain file `source` (a digest)."""
    return json.dumps({"format": FORMAT, "source": source, "parts": parts}, separators=(",", ":")).encode()
