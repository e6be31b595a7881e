"""What became of a suite's tests over time (docs/http-api.md)."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from tapml.history import open_history
from tapml.server.state import State


def add(routes: Blueprint, state: State) -> None:
    """The routes of the history; they only read."""

    @routes.get("/api/suites/<suite_id>/history")
    def suite_history(suite_id: str) -> Response:
        return jsonify(open_history(state.suites.require(suite_id), state.database_url).trends())

    @routes.get("/api/suites/<suite_id>/history/<test_id>")
    def test_history(suite_id: str, test_id: str) -> Response:
        suite = state.suites.require(suite_id)
        test = suite.test(test_id)
        found = open_history(suite, state.database_url).timeline(test.id)
        return jsonify({"test": test.id, "kernel": test.kernel, "devices": found})
