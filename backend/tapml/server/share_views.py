"""HTTP of single tests: links for strangers, files to take along, and files from others (docs/http-api.md)."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from flask import Blueprint, Response, abort, jsonify, request

from tapml.cache import data_dir
from tapml.errors import InputError
from tapml.files import sha256
from tapml.npy import opening
from tapml.server.bodies import json_object, text_field
from tapml.server.pages import blob_response, page_file
from tapml.server.state import State
from tapml.sharing import FORMS, Repro, export, file_name, issue_text, links, of_suite, read
from tapml.sharing.imports import add_to_suite, new_suite
from tapml.suite import Suite

_MOST_IMPORT_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20
_KEPT = 4
_GONE = "this link is unknown, or it was revoked, or it has expired: ask whoever sent it for a new one"


def add(routes: Blueprint, state: State) -> None:
    """All routes of this module."""
    _links(routes, state)
    add_visitors(routes, state.suites.paths)
    _files(routes, state)


def add_visitors(routes: Blueprint, folders: Callable[[], Iterable[Path]]) -> None:
    """What whoever has a link may see. `folders`: those in whose `shares/` links are."""
    # A visitor's requests do not read one file again and again, nor two of them at once.
    reading = threading.Lock()
    read_share = functools.lru_cache(_KEPT)(links.open_share)

    def opened(share_id: str) -> tuple[links.Share, Repro]:
        """Whether the link still holds is looked up each time. 404 where it does not."""
        found = links.find(folders(), share_id)
        if found is None:
            abort(404, _GONE)
        share, folder = found
        with reading:
            return share, read_share(folder, share.name)

    @routes.get("/s/<share_id>")
    def share_page(share_id: str) -> Response:
        response = page_file("share")
        response.headers["X-Robots-Tag"] = "noindex"
        return response

    @routes.get("/s/<share_id>/test")
    def shared_test(share_id: str) -> Response:
        share, repro = opened(share_id)
        response = jsonify({"repro": repro.document.model_dump(mode="json"), "expires": share.expires})
        response.headers["Cache-Control"] = "no-store"
        return response

    @routes.get("/s/<share_id>/blobs/<digests>")
    def shared_blobs(share_id: str, digests: str) -> Response:
        _, repro = opened(share_id)
        texts = {file.sha256: file.text.encode() for file in repro.document.files}
        tensors = set(repro.digests)

        def find(digest: str) -> bytes | None:
            return repro.read(digest) if digest in tensors else texts.get(digest)

        response = blob_response(digests, find)
        response.headers["Cache-Control"] = "private, max-age=86400, immutable"
        return response

    @routes.get("/s/<share_id>/repro.html")
    def shared_file(share_id: str) -> Response:
        return _download(opened(share_id)[1], "html")

    @routes.get("/s/<share_id>/issue.md")
    def shared_issue(share_id: str) -> Response:
        return Response(issue_text(opened(share_id)[1].document), mimetype="text/plain")


def _links(routes: Blueprint, state: State) -> None:
    @routes.get("/api/suites/<suite_id>/shares")
    def list_shares(suite_id: str) -> Response:
        suite = state.suites.require(suite_id)
        return jsonify({"shares": [share.model_dump() for share in links.shares(suite.path)]})

    @routes.post("/api/suites/<suite_id>/tests/<test_id>/shares")
    def create_share(suite_id: str, test_id: str) -> Response:
        suite = state.suites.require(suite_id)
        body = json_object()
        device, days = body.get("device"), body.get("days")
        if device is not None and not isinstance(device, str):
            raise InputError("device: give a name, or null for the worst result")
        if days is not None and (isinstance(days, bool) or not isinstance(days, int | float)):
            raise InputError("days: give a number, or null for a link that lives until it is revoked")
        share_id, share = links.create(suite.path, of_suite(suite, test_id, device), days)
        return jsonify({"path": f"/s/{share_id}", "share": share.model_dump()})

    @routes.delete("/api/suites/<suite_id>/shares/<name>")
    def revoke_share(suite_id: str, name: str) -> Response:
        if not links.revoke(state.suites.require(suite_id).path, name):
            abort(404, f"suite {suite_id!r} has no link {name[:12]!r}")
        return jsonify({})


def _files(routes: Blueprint, state: State) -> None:
    @routes.get("/api/suites/<suite_id>/tests/<test_id>/export")
    def export_test(suite_id: str, test_id: str) -> Response:
        return _exported(of_suite(state.suites.require(suite_id), test_id, request.args.get("device")))

    @routes.get("/api/jobs/<job_id>/export")
    def export_reduced(job_id: str) -> Response:
        job = state.jobs.get(job_id)
        if job is None or not isinstance(job.made, Repro):
            abort(404, f"job {job_id} has no reduced test (any more): run it again")
        return _exported(job.made)

    @routes.post("/api/imports")
    def open_file() -> Response:
        """An exported test as a suite of its own; the body is the file."""
        request.max_content_length = _MOST_IMPORT_BYTES
        name = Path(request.args.get("name", "")).name or "the file"
        # Its size is the sender's choice, and what it unpacks to, too: neither is ever held in memory.
        with tempfile.NamedTemporaryFile(prefix="tapml-import-") as file:
            shutil.copyfileobj(request.stream, file, _PIECE_BYTES)
            file.flush()
            repro = read(name, opening(Path(file.name)))
            path, there = _place(repro)
            if not there:
                new_suite(repro, path)
        return jsonify({"suite": state.suites.add(path), "path": str(path)})

    @routes.post("/api/suites/<suite_id>/imports")
    def add_test(suite_id: str) -> Response:
        """A test of another suite, which the server shows, beside the tests of this one."""
        target = state.suites.require(suite_id)
        body = json_object()
        source = state.suites.require(text_field(body, "suite"))
        before = {test.id for test in target.tests}
        test_id = add_to_suite(of_suite(source, text_field(body, "test")), target)
        return jsonify({"test": test_id, "added": test_id not in before})


def _exported(repro: Repro) -> Response:
    """In the form that the request asks for."""
    form = request.args.get("form", "html")
    if form == "markdown":
        return Response(issue_text(repro.document), mimetype="text/plain")
    return _download(repro, form)


def _place(repro: Repro) -> tuple[Path, bool]:
    """Where an opened test lies, and whether it is there already as it is in the file."""
    document = repro.document
    # Who reported what, and when, makes no other test; the WGSL does.
    content = json.dumps([document.kernel, *(file.sha256 for file in document.files), *repro.digests])
    stem = f"{file_name(repro, 'wgsl')}-{sha256(content)[:6]}"
    number, path = 1, data_dir() / "imports" / f"{stem}.suite"
    while path.exists():
        with contextlib.suppress(InputError):
            if of_suite(Suite(path), "n000.s0").document.files == document.files:
                return path, True
        number += 1
        path = path.with_name(f"{stem}-{number}.suite")
    return path, False


def _download(repro: Repro, form: str) -> Response:
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}: choose {', '.join(FORMS)}")
    name = file_name(repro, form)
    with (
        tempfile.TemporaryDirectory(prefix="tapml-export-") as folder,
        tempfile.TemporaryDirectory(prefix="tapml-zip-") as zipped,
    ):
        path, *others = export(repro, form, Path(folder) / name)
        if others or path.is_dir():
            stem = path.stem if FORMS[form] else name
            path = Path(shutil.make_archive(f"{zipped}/{stem}", "zip", folder))
        data, name = path.read_bytes(), path.name
    response = Response(data, mimetype="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["Cache-Control"] = "no-store"
    return response
