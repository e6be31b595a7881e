"""HTTP of what runs on devices of this server for its outputs: calls of compiled models, and single tests
(docs/http-api.md)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from flask import Blueprint, Response, abort, jsonify, request

from tapml.compiled.call import CompiledRun, call_of, taken
from tapml.errors import InputError
from tapml.folder import FileMissing
from tapml.formats import validated
from tapml.jobs.outputs import OutputsSpecification, TestOutputs, output_workgroups, outputs_of
from tapml.jobs.run import RunSpecification, check_capture
from tapml.npy import opening
from tapml.server.bodies import json_object
from tapml.server.state import State
from tapml.sharing.arrays_file import arrays_file, calls_of, named_by_call, read_arrays
from tapml.strict_json import parse_json
from tapml.validation.context import JobContext

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

    @routes.post("/api/suites/<suite_id>/tests/<test_id>/outputs")
    def start_outputs(suite_id: str, test_id: str) -> Response:
        return started(suite_id, test_id, outputs_of)

    @routes.post("/api/suites/<suite_id>/tests/<test_id>/workgroups")
    def start_workgroups(suite_id: str, test_id: str) -> Response:
        return started(suite_id, test_id, output_workgroups)

    def started(suite_id: str, test_id: str, fetch: Callable[[JobContext, str], TestOutputs]) -> Response:
        asked = validated("the request", OutputsSpecification, json_object(), _MEND)
        suite = asked.suite(state.suites.require(suite_id), test_id)
        return jsonify({"job": state.jobs.start_outputs(asked, test_id, suite, state.device, fetch).id})

    @routes.get("/api/jobs/<job_id>/outputs")
    def outputs(job_id: str) -> Response:
        made = _made(state, job_id)
        if isinstance(made, TestOutputs):
            return _download(arrays_file(made.text, made.outputs))
        return _download(arrays_file("", named_by_call(made.outputs)))

    @routes.get("/api/jobs/<job_id>/capture")
    def capture(job_id: str) -> Response:
        made = _made(state, job_id)
        found = None if isinstance(made, TestOutputs) else made.capture
        if found is None:
            abort(404, f"job {job_id} captured nothing")
        return _download([found])


def _made(state: State, job_id: str) -> CompiledRun | TestOutputs:
    job = state.jobs.get(job_id)
    if job is None or not isinstance(job.made, CompiledRun | TestOutputs):
        abort(404, f"job {job_id} has no outputs (any more): run it again")
    return job.made


def _download(pieces: object) -> Response:
    response = Response(pieces, mimetype="application/octet-stream")  # type: ignore[arg-type]
    response.headers["Cache-Control"] = "no-store"
    return response
