"""HTTP of calls of compiled models on devices of this server (docs/http-api.md)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from flask import Blueprint, Response, abort, jsonify, request

from tapml.compiled.call import CompiledRun, call_of, taken
from tapml.errors import InputError
from tapml.folder import FileMissing
from tapml.formats import validated
from tapml.jobs.run import RunSpecification, check_capture
from tapml.npy import opening
from tapml.server.state import State
from tapml.sharing.arrays_file import arrays_file, calls_of, named_by_call, read_arrays
from tapml.strict_json import parse_json

_MOST_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20
_MEND = ": see docs/http-api.md"


def add(routes: Blueprint, state: State) -> None:
    """All routes of this module."""

    @routes.post("/api/runs")
    def start_run() -> Response:
        """The body is a safetensors file: what is asked for, and the inputs of all calls."""
        if state.models is None:
            abort(404, "this server has no models: start it with --models")
        request.max_content_length = _MOST_BYTES
        with tempfile.NamedTemporaryFile(prefix="tapml-run-") as file:
            shutil.copyfileobj(request.stream, file, _PIECE_BYTES)
            file.flush()
            text, arrays = read_arrays("the run", opening(Path(file.name)))
        found = parse_json(text, "the run", "send what docs/http-api.md says")
        asked = validated("the run", RunSpecification, found, _MEND)
        try:
            files = state.models.compiled(asked.model)
        except FileMissing:
            abort(404, f"there is no model {asked.model!r}: /api/models lists them")
        if files.content != asked.content:
            raise InputError(f"the model {asked.model!r} is another one now: run the command again")
        calls = calls_of(arrays, asked.calls)
        for call in calls:
            call_of(files.model, asked.function, taken(files.model, asked.function, call))
        check_capture(files, asked)
        return jsonify({"job": state.jobs.start_run(asked, files, calls, state.device).id})

    @routes.get("/api/jobs/<job_id>/outputs")
    def outputs(job_id: str) -> Response:
        return _download(arrays_file("", named_by_call(_run(state, job_id).outputs)))

    @routes.get("/api/jobs/<job_id>/capture")
    def capture(job_id: str) -> Response:
        found = _run(state, job_id).capture
        if found is None:
            abort(404, f"job {job_id} captured nothing")
        return _download([found])


def _run(state: State, job_id: str) -> CompiledRun:
    job = state.jobs.get(job_id)
    if job is None or not isinstance(job.made, CompiledRun):
        abort(404, f"job {job_id} has no outputs (any more): run it again")
    return job.made


def _download(pieces: object) -> Response:
    response = Response(pieces, mimetype="application/octet-stream")  # type: ignore[arg-type]
    response.headers["Cache-Control"] = "no-store"
    return response
