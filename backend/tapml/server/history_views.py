"""What became of a suite's tests over time (docs/http-api.md)."""

from __future__ import annotations

from flask import Blueprint, Response, abort, jsonify

from tapml.history import open_history
from tapml.server.state import State
from tapml.suite import Suite


def add(routes: Blueprint, state: State) -> None:
    """The routes of the history; they only read."""

    def opened(suite_id: str) -> Suite:
        suite = state.suites.open(suite_id)
        if suite is None:
            abort(404, f"this server shows no suite {suite_id!r}")
        return suite

    @routes.get("/api/suites/<suite_id>/history")
    def suite_history(suite_id: str) -> Response:
        return jsonify(open_history(opened(suite_id), state.database_url).trends())

    @routes.get("/api/suites/<suite_id>/history/<test_id>")
    def test_history(suite_id: str, test_id: str) -> Response:
        suite = opened(suite_id)
        test = suite.test(test_id)
        found = open_history(suite, state.database_url).timeline(test.id)
        return jsonify({"test": test.id, "kernel": test.kernel, "devices": found})
