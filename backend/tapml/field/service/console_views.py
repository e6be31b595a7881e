"""The console: everything about tasks, releases, devices and failures, for whoever has its key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, abort, jsonify, request

from tapml.field.releases import Plan, Release, step_name, waits
from tapml.field.service.fleet_state import FleetState, milliseconds
from tapml.field.service.traffic import Traffic
from tapml.field.storage.times import StepRates
from tapml.server.pages import page_file
from tapml.server.security import same_secret

KEY_HEADER = "Tapml-Console"
_MOST_POINTS = 600


def add(routes: Blueprint, state: FleetState, key: str, traffic: Callable[[], Traffic] | None) -> None:
    """`key` stands in the page's address behind #, which no request tells."""

    @routes.get("/console/")
    def console() -> Response:
        return page_file("console")

    @routes.get("/field/console")
    def everything() -> Response:
        if not same_secret(request.headers.get(KEY_HEADER, ""), key):
            abort(403, "the console is opened by the address that `tapml field serve` printed")
        return jsonify({**console_document(state), "traffic": None if traffic is None else traffic()})


def console_document(state: FleetState) -> dict[str, Any]:
    """tapml.field-console/1."""
    samples, releases = state.samples.counts(), state.store.releases()
    failed, rates = state.store.failed_runs(), state.store.rates()
    plans = {one.number: one.plan for one in releases}
    return {
        "format": "tapml.field-console/1",
        "now": milliseconds(),
        "releases": [
            _release(state, one, samples.get(one.number, (0, 0, 0)), rates.get(one.number, []))
            for one in reversed(releases)
        ],
        "share": state.share,
        "devices": state.fleet.devices(),
        "failures": state.samples.failures(),
        "failed_runs": [
            {**one, "task": plans[one["release"]].task, "version": plans[one["release"]].version}
            for one in failed
            if one["release"] in plans
        ],
    }


def _release(
    state: FleetState, release: Release, samples: tuple[int, int, int], rates: list[StepRates]
) -> dict[str, Any]:
    plan, counts = release.plan, state.store.counts(release)
    return {
        "number": release.number,
        "task": plan.task,
        "version": plan.version,
        "manifest": plan.manifest,
        "status": release.status,
        "reason": release.reason,
        "waits": waits(release, counts),
        "step": release.step,
        "steps": _steps(plan),
        "since": release.since,
        "devices": counts.devices,
        "failed": counts.failed,
        "slow": counts.slow,
        "thresholds": plan.thresholds.model_dump(include={"failure_rate", "slow_ms", "slow_rate"}),
        "rates": rates,
        "samples": {"judged": samples[0], "calls": samples[1], "failed": samples[2], "waiting": counts.unjudged},
        "events": state.store.events(release),
        "coverage": [(at, round(devices / state.share)) for at, devices in _thinned(state.fleet.coverage(release))],
    }


def _steps(plan: Plan) -> list[str]:
    return [step_name(step) for step in plan.steps]


def _thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many as a picture shows, with the last one."""
    every = -(-len(points) // _MOST_POINTS) or 1
    return [point for number, point in enumerate(points) if number % every == 0 or number == len(points) - 1]
