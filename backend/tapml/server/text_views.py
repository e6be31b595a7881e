"""HTTP of texts that a suite's model writes on a device, and of their steps (docs/http-api.md)."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from tapml.formats import validated
from tapml.jobs.carved_step import StepSpecification, check_step
from tapml.jobs.written_text import TextSpecification, check_writes
from tapml.server.bodies import json_object
from tapml.server.state import State

_MEND = ": see docs/http-api.md"


def add(routes: Blueprint, state: State) -> None:
    """All routes of this module."""

    @routes.post("/api/suites/<suite_id>/texts")
    def start_text(suite_id: str) -> Response:
        asked = validated("the text", TextSpecification, json_object(), _MEND)
        suite = state.suites.require(suite_id)
        check_writes(suite)
        asked.check(suite)
        return jsonify({"job": state.jobs.start_text(asked, suite, state.device).id})

    @routes.post("/api/suites/<suite_id>/steps")
    def start_step(suite_id: str) -> Response:
        asked = validated("the step", StepSpecification, json_object(), _MEND)
        suite = state.suites.require(suite_id)
        check_step(asked, check_writes(suite))
        return jsonify({"job": state.jobs.start_step(asked, suite, state.device).id})
