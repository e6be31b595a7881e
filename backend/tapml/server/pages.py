"""Answers that several groups of routes give: built pages, and blobs in pieces."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator
from pathlib import Path

from flask import Response, abort, request, send_file, send_from_directory
from werkzeug.security import safe_join

from tapml.devices.blobs import Blob
from tapml.errors import InputError

STATIC = Path(__file__).parent / "static"
_PIECE_BYTES = 1 << 20
_MOST_BLOBS = 64
_NOT_BUILT = "the web pages are not built: run `make setup` in the checkout"


def page_file(folder: str) -> Response:
    """A page that npm built."""
    path = STATIC / folder / "index.html"
    if not path.is_file():
        abort(404, _NOT_BUILT)
    response = send_file(path)
    response.headers["Cache-Control"] = "no-cache"
    return response


def built_file(name: str) -> Response:
    """A file that npm built, compressed where that lies beside it and the browser takes it."""
    for coding, ending in (("br", ".br"), ("gzip", ".gz")):
        packed = safe_join(str(STATIC), name + ending)
        if packed is None or not request.accept_encodings[coding] or not Path(packed).is_file():
            continue
        response = send_from_directory(STATIC, name + ending, mimetype=mimetypes.guess_type(name)[0])
        response.headers["Content-Encoding"] = coding
        response.headers["Vary"] = "Accept-Encoding"
        return response
    return send_from_directory(STATIC, name)


def blob_response(digests: str, find: Callable[[str], Blob | None]) -> Response:
    """One blob, or several joined by "+", one after the other; 404 for one that `find` does not give."""
    wanted = digests.split("+")
    if len(wanted) > _MOST_BLOBS:
        raise InputError(f"at most {_MOST_BLOBS} blobs in one request, not {len(wanted)}")
    pieces = []
    for digest in wanted:
        found = find(digest)
        if found is None:
            abort(404, f"no blob {digest}")
        pieces.append(found)
    response = Response(mimetype="application/octet-stream")
    response.response = _stream(pieces)
    response.direct_passthrough = True
    response.content_length = sum(_nbytes(piece) for piece in pieces)
    return response


def _nbytes(piece: Blob) -> int:
    return len(piece) if isinstance(piece, bytes | memoryview) else piece.size or 0


def _stream(pieces: list[Blob]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes | memoryview):
            view = memoryview(piece)
            for start in range(0, len(view), _PIECE_BYTES):
                yield bytes(view[start : start + _PIECE_BYTES])
        else:
            yield from piece.pieces()
