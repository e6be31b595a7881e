"""HTTP of what a page captured of a deployed model: into the suite that the model was built from (docs/http-api.md)."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from flask import Blueprint, Response, abort, jsonify, request

from tapml.errors import InputError
from tapml.server.state import State
from tapml.sharing.capture import Capture, read_capture

_MOST_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20


def add(routes: Blueprint, state: State) -> None:
    """All routes of this module."""

    @routes.get("/api/captures/<sha256>")
    def suite_of(sha256: str) -> Response:
        """Where captures of the model with this digest go, null where they cannot."""
        return jsonify({"suite": next(iter(_suites_of(state, sha256)), None)})

    @routes.post("/api/captures")
    def start_import() -> Response:
        """The body is the file that `model.capture` gave; the job says of each call whether its GPU was right."""
        request.max_content_length = _MOST_BYTES
        with contextlib.ExitStack() as held:
            # Its tensors stay in the file, which the job reads.
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="tapml-capture-"))
            path = Path(folder) / "page.capture"
            with path.open("wb") as file:
                shutil.copyfileobj(request.stream, file, _PIECE_BYTES)
            capture = read_capture(path)
            if capture is None:
                raise InputError("this is no captured call: send a file of `model.capture` (docs/capture.md)")
            suite_id = _suite_of(state, capture)
            suite = state.suites.require(suite_id)
            job = state.jobs.start_import(capture, suite_id, suite, held.pop_all())
        return jsonify({"job": job.id, "suite": suite_id})


def _suite_of(state: State, capture: Capture) -> str:
    """The suite that was carved of the page's model, where there are several one that has the kernels. 404 where the
    server shows none."""
    model = capture.document.model
    if not (found := _suites_of(state, model.sha256)):
        name = model.title or model.name
        abort(404, f"this server shows no suite of {name!r}: start `tapml serve` with the suite that it was built from")
    needed = {kernel.kernel for kernel in capture.document.kernels}
    return next((suite_id for suite_id, kernels in found.items() if needed <= kernels), next(iter(found)))


def _suites_of(state: State, sha256: str) -> dict[str, set[str]]:
    """The suites that were carved of this model, each with its kernels."""
    found = {}
    for suite_id in state.suites.ids():
        with contextlib.suppress(InputError):  # damaged since it was opened
            suite = state.suites.require(suite_id)
            if suite.manifest["model"]["sha256"] == sha256:
                found[suite_id] = set(suite.kernels)
    return found
