"""What web pages load: compiled models, the runtime, and the pages themselves (docs/http-api.md)."""

from __future__ import annotations

import os
import re
from io import BufferedReader
from pathlib import Path, PurePosixPath

from flask import Blueprint, Response, abort, jsonify, redirect, request
from werkzeug.wsgi import FileWrapper

from tapml.compiled.files import DOCUMENT
from tapml.errors import InputError
from tapml.folder import FileMissing, Folder
from tapml.server.models import ModelFolder
from tapml.server.pages import STATIC

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; media-src 'self' blob:; connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)
"""Of pages beside the models: they are of the origin of everything else that the server does."""

_PIECE_BYTES = 1 << 20
_SHARD = re.compile(r"weights/([0-9a-f]{64})\.bin")
_PART = re.compile(r"(?:operators/)?[^/]+\.json")
_NO_CACHE = "no-cache"
IMMUTABLE = "public, max-age=31536000, immutable"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".ts": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
_BYTES = "application/octet-stream"


def add(routes: Blueprint, models: ModelFolder | None, pages: Folder | None) -> None:
    """`pages`: a folder of web pages, at /pages/."""
    runtime = Folder(STATIC / "runtime")

    @routes.get("/runtime/<name>")
    def runtime_file(name: str) -> Response:
        return _file(runtime, name)

    @routes.get("/api/models")
    def model_list() -> Response:
        found = models.listed() if models else {"models": [], "left_out": 0}
        return jsonify({**found, "pages": pages is not None and pages.size("index.html") is not None})

    @routes.get("/models/<name>")
    def single_model(name: str) -> Response:
        return file_answer(_opened(models, name, None), _BYTES, _NO_CACHE)

    @routes.get("/models/<name>/<path:file>")
    def model_file(name: str, file: str) -> Response:
        if (shard := _SHARD.fullmatch(file)) is not None:
            return file_answer(_opened(models, name, file), _BYTES, IMMUTABLE, shard[1])
        if not _PART.fullmatch(file):
            abort(404, f"a compiled model has no file {file!r}")
        return file_answer(_opened(models, name, file), "application/json", _NO_CACHE)

    @routes.get("/pages/")
    @routes.get("/pages/<path:name>")
    def page(name: str = "") -> Response:
        if pages is None:
            abort(404, "this server has no pages: start it with --pages")
        if name and not name.endswith("/") and pages.size(f"{name}/index.html") is not None:
            return redirect(f"{request.path}/", 303)  # type: ignore[return-value]
        response = _file(pages, f"{name}index.html" if name.endswith("/") or not name else name)
        response.headers["Content-Security-Policy"] = POLICY
        return response


def _opened(models: ModelFolder | None, name: str, file: str | None) -> BufferedReader:
    """404 where there is none, for one that cannot be read InputError names it."""
    if models is None:
        abort(404, "this server has no models: start it with --models")
    try:
        return models.open(name, file)
    except FileMissing:
        what = f"the model {name!r} has no {file}" if file and file != DOCUMENT else f"there is no model {name!r}"
        abort(404, f"{what}: /api/models lists them")


def _file(folder: Folder, name: str) -> Response:
    try:
        file = folder.open(name)
    except FileMissing:
        abort(404, f"there is no {name!r} here")
    return file_answer(file, _TYPES.get(PurePosixPath(name).suffix, _BYTES), _NO_CACHE)


def file_answer(file: BufferedReader, content_type: str, cache: str, digest: str | None = None) -> Response:
    """A file, or the range that is asked for; nothing but the status where the browser has it still."""
    found = os.fstat(file.fileno())
    response = Response(FileWrapper(file, _PIECE_BYTES), content_type=content_type, direct_passthrough=True)
    response.content_length = found.st_size
    response.headers["Cache-Control"] = cache
    response.set_etag(digest or f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}")
    try:
        return response.make_conditional(request, accept_ranges=True, complete_length=found.st_size)  # type: ignore[return-value]
    except BaseException:
        file.close()
        raise


def pages_folder(path: Path) -> Folder:
    """Raises InputError where it is no folder."""
    if not path.is_dir():
        raise InputError(f"{path} is no folder: give the folder that your web pages lie in")
    return Folder(path.resolve())
