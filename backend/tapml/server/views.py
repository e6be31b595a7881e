"""HTTP (docs/http-api.md)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, abort, jsonify, request

from tapml.browsers import startable
from tapml.devices import Device
from tapml.devices.device import PAGE_CLOSED
from tapml.devices.messages import validations_now
from tapml.errors import InputError
from tapml.formats import validated
from tapml.history import open_history
from tapml.jobs import JobSpecification
from tapml.program import Graph
from tapml.results.checks import RESULTS
from tapml.results.comparison import compared
from tapml.server import capture_views, kernel_views, model_views, run_views, share_views, text_views
from tapml.server.bodies import json_object, text_field, whole_number
from tapml.server.pages import blob_response, built_file, page_file
from tapml.server.pairing import pairing
from tapml.server.registry import detail, summary
from tapml.server.state import State
from tapml.server.statistics import statistics
from tapml.server.watching import state_of
from tapml.suite import CarvedTest, Suite


def blueprint(state: State) -> Blueprint:
    """All routes of a server."""
    routes = Blueprint("tapml", __name__)
    _pages(routes)
    _bulk(routes, state)
    _suites(routes, state)
    kernel_views.add(routes, state)
    _jobs(routes, state)
    _history(routes, state)
    model_views.add(routes, state.models, state.pages)
    share_views.add(routes, state)
    run_views.add(routes, state)
    capture_views.add(routes, state)
    text_views.add(routes, state)
    return routes


def _pages(routes: Blueprint) -> None:
    @routes.get("/")
    @routes.get("/suites/<path:_page>")
    def index(_page: str = "") -> Response:
        return page_file("webui")

    @routes.get("/runner")
    def runner() -> Response:
        return page_file("runner")

    @routes.get("/static/<path:name>")
    def static_file(name: str) -> Response:
        return built_file(name)


def _bulk(routes: Blueprint, state: State) -> None:
    @routes.get("/blobs/<digests>")
    def blob(digests: str) -> Response:
        """One blob, or several small ones joined by "+": a request costs a browser more than a small tensor."""
        response = blob_response(digests, state.blobs.find)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response

    @routes.post("/api/calls/<call>/downloads")
    def downloads(call: str) -> Response:
        running = state.hub.of_call(call)
        if running is None:
            abort(404, "no such call is running")
        length = request.content_length
        if length is None or length > running.download_limit:
            abort(413, f"this call sends back {running.download_limit} bytes, not {length}")
        request.max_content_length = running.download_limit
        running.downloads = request.get_data(cache=False)
        return jsonify({})


def _suites(routes: Blueprint, state: State) -> None:
    @routes.get("/api/suites")
    def suites() -> Response:
        return jsonify([_summary_or_problem(state, suite_id) for suite_id in state.suites.ids()])

    @routes.get("/api/suites/<suite_id>")
    def suite_detail(suite_id: str) -> Response:
        return jsonify(detail(suite_id, state.suites.require(suite_id)))

    @routes.get("/api/suites/<suite_id>/tests/<test_id>")
    def test_detail(suite_id: str, test_id: str) -> Response:
        suite = state.suites.require(suite_id)
        test = suite.test(test_id)
        return jsonify(
            {
                "id": test.id,
                "node": test.node,
                "kernel": test.kernel,
                "step": test.step,
                "tensors": _tensors(suite, test, suite.graph),
                "tolerances": [tolerance.to_json() for tolerance in test.tolerances],
            }
        )

    @routes.get("/api/suites/<suite_id>/results")
    def results(suite_id: str) -> Response:
        suite = state.suites.require(suite_id)
        found = {kind: suite.read_results(kind) for kind in RESULTS}
        validations, problems = found["validation"]
        found["validation"] = validations_now(suite, validations), problems
        return jsonify(
            {
                **{f"{kind}s": documents for kind, (documents, _) in found.items()},
                "kernels": {name: state_of(suite, name) for name in suite.kernels},
                "problems": [problem for _, problems in found.values() for problem in problems],
            }
        )


def _summary_or_problem(state: State, suite_id: str) -> dict[str, Any]:
    """One that was damaged since it was opened does not hide the others."""
    try:
        return summary(suite_id, state.suites.require(suite_id))
    except InputError as error:
        return {"id": suite_id, "problem": str(error)}


def _tensors(suite: Suite, test: CarvedTest, graph: Graph) -> list[dict[str, Any]]:
    node = next(node for node in graph.nodes if node.id == test.node)
    rows = []
    for role, values, refs in (("input", node.inputs, test.inputs), ("output", node.outputs, test.outputs)):
        for value, ref in zip(values, refs, strict=True):
            found = statistics(suite.tensors.get(ref))
            rows.append({**ref.to_json(), "role": role, "value": value, "name": graph.values[value].name, **found})
    return rows


def _history(routes: Blueprint, state: State) -> None:
    @routes.get("/api/suites/<suite_id>/history")
    def suite_history(suite_id: str) -> Response:
        return jsonify(open_history(state.suites.require(suite_id), state.database_url).trends())

    @routes.get("/api/suites/<suite_id>/runs")
    def suite_runs(suite_id: str) -> Response:
        return jsonify({"runs": open_history(state.suites.require(suite_id), state.database_url).sides()})

    @routes.get("/api/suites/<suite_id>/comparison")
    def comparison(suite_id: str) -> Response:
        """`before`, `after`: places in the list of runs' ids and devices, as RUN/DEVICE."""
        history = open_history(state.suites.require(suite_id), state.database_url)
        sides = {f"{side['run']}/{side['device']}": side for side in history.sides()}
        chosen = [request.args.get(name, "") for name in ("before", "after")]
        if missing := [name for name in chosen if name not in sides]:
            abort(404, f"the suite's history has no run {missing[0][:200]!r}")
        before, after = (history.outcomes(sides[name]) for name in chosen)
        return jsonify(compared(before, after))

    @routes.get("/api/suites/<suite_id>/history/<test_id>")
    def test_history(suite_id: str, test_id: str) -> Response:
        suite = state.suites.require(suite_id)
        test = suite.test(test_id)
        found = open_history(suite, state.database_url).timeline(test.id)
        return jsonify({"test": test.id, "kernel": test.kernel, "devices": found})


def _jobs(routes: Blueprint, state: State) -> None:
    @routes.get("/api/devices")
    def devices() -> Response:
        return jsonify(
            {
                "connected": [_device(device) for device in state.hub.connected()],
                "gone": [{**device.describe(), "why": device.why_gone} for device in state.hub.gone()],
                "startable": [{"name": s.name, "available": s.available, "message": s.message} for s in startable()],
            }
        )

    @routes.post("/api/pairings")
    def pair() -> Response:
        return jsonify(pairing(state.url, state.security))

    @routes.post("/api/devices/<device_id>/leave")
    def leave(device_id: str) -> Response:
        """A page that is being closed says so; without it the server would wait for it to come back."""
        device = state.hub.get(device_id)
        session = text_field(json_object(), "session")
        if device is not None and device.proves(session):
            state.hub.left(lambda d: d is device, PAGE_CLOSED)
        return jsonify({})

    @routes.post("/api/jobs")
    def start_job() -> Response:
        body = json_object()
        suite_id = text_field(body, "suite")
        asked = {name: value for name, value in body.items() if name != "suite"}
        specification = validated("the job", JobSpecification, asked, ": see docs/http-api.md")
        suite = specification.suite(state.suites.require(suite_id))
        specification.check(suite)
        return jsonify({"job": state.jobs.start(specification, suite_id, suite, state.device).id})

    @routes.get("/api/jobs/<job_id>")
    def job_state(job_id: str) -> Response:
        job = state.jobs.get(job_id)
        if job is None:
            abort(404, f"no job {job_id}")
        after = whole_number(request.args.get("after", "0"), "after")
        events, document = job.read(after, 2000)
        return jsonify(
            {
                "job": job.id,
                "kind": job.kind,
                "suite": job.suite_id,
                "state": job.state,
                "events": events,
                "next": after + len(events),
                "document": document,
                "error": job.error,
                "input_error": job.given,
            }
        )

    @routes.delete("/api/jobs/<job_id>")
    def cancel_job(job_id: str) -> Response:
        job = state.jobs.get(job_id)
        if job is None:
            abort(404, f"no job {job_id}")
        job.cancel.set()
        return jsonify({})


def _device(device: Device) -> dict[str, Any]:
    return {
        **device.describe(),
        "busy": device.busy,
        "started": device.started,
        "unavailable": device.hello.unavailable,
    }
