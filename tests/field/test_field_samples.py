"""Calls that devices captured: computed again, and what is wrong takes the release back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from field_profiles import IDS, MANIFEST, profile
from flask.testing import FlaskClient

from captures import Json, capture_of, replaced
from tapml.errors import InputError
from tapml.field.profiles import HEADER
from tapml.field.releases import NamedStep, Plan
from tapml.field.service.application import create_app
from tapml.field.service.console_views import KEY_HEADER
from tapml.field.service.fleet_state import FleetState
from tapml.field.service.judging import Judging
from tapml.field.service.simulator import Simulator
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.samples import MOST_OF_DEVICE, SampleStore
from tapml.field.storage.store import Store
from tapml.field.tasks.published import Published
from tapml.suite import Suite

TASK, KEY = "shop/small", "console-key"
STEPS: list[dict[str, Any]] = [{"kind": "beta", "devices": IDS[:2]}, {"kind": "full"}]


class Watched:
    """A release whose model was built from the small suite."""

    def __init__(self, folder: Path, suite: Suite) -> None:
        database = folder / "field.sqlite3"
        self.folder, self.suite, self.now = folder, suite, 1000
        samples = SampleStore(database)
        self.state = FleetState(Store(database), FleetStore(database), samples, lambda: self.now)
        self.judging = Judging(folder / "judged", samples, [suite.path], lambda: self.now)
        app = create_app(
            self.state, Published(folder / "published"), self.judging, grants=None, origins=[], local=True,
            console_key=KEY,
        )  # fmt: skip
        self.client: FlaskClient = app.test_client()

    def release(self, **more: Any) -> None:
        given = {"task": TASK, "version": "1.0", "manifest": MANIFEST, "steps": STEPS, **more}
        self.state.store.add(Plan.model_validate(given), self.now)
        self.state.look()

    def send(self, device: str, *, wrong: str | None = None, body: bytes | None = None) -> Any:
        def change(document: Json, tensors: dict[str, bytes]) -> None:
            for call in document["calls"]:
                if call["kernel"] == wrong:
                    output = call["outputs"][0]
                    replaced(output, tensors, np.zeros(output["shape"], np.float32).tobytes())

        if body is None:
            body = capture_of(self.suite, self.folder / "page.capture", change=change).read_bytes()
        address = f"/field/samples?task={TASK}&version=1.0"
        return self.client.post(address, data=body, headers=header(device))

    def console(self) -> Any:
        return self.client.get("/field/console", headers={KEY_HEADER: KEY}).json


def header(device: str, **more: Any) -> dict[str, str]:
    return {HEADER: profile(device, **more).model_dump_json(exclude_none=True)}


@pytest.fixture
def watched(tmp_path: Path, suite: Suite) -> Watched:
    return Watched(tmp_path, suite)


def test_a_call_that_is_wrong_on_a_device_takes_the_release_back_and_is_a_test(watched: Watched) -> None:
    watched.release(sampling={"runs": 0.5})
    offer = watched.client.get("/field/answer", headers=header(IDS[0])).json["install"][0]
    assert offer["sampling"] == {"runs": 0.5, "operators": 1.0}
    kernel = watched.suite.tests[0].kernel
    assert watched.send(IDS[0], wrong=kernel).json == {"counted": True}
    # Both devices say that all is well, and one of them is not believed yet.
    for device in IDS[:2]:
        told = {"task": TASK, "version": "1.0", "failed": False}
        assert watched.client.post("/field/reports", json=told, headers=header(device)).json == {"counted": True}
    watched.state.look()
    assert watched.state.store.releases()[0].step == 0
    assert watched.judging.look()
    watched.state.look()
    release = watched.state.store.releases()[0]
    assert release.status == "rolled-back"
    assert release.reason == (f"1 of 2 devices of the beta step failed: {kernel} (variant 256) is wrong on 1 device")
    # Nothing of the user's is kept but what is wrong, and that is a test behind a link.
    assert not list((watched.folder / "judged" / "samples").iterdir())
    failure = watched.console()["failures"][0]
    assert (failure["kernel"], failure["browser"], failure["device"]) == (kernel, "Chromium 156", IDS[0])
    shared = watched.client.get(f"/s/{failure['link']}/test").json["repro"]
    assert shared["test"]["kernel"] == kernel
    assert shared["report"]["result"]["verdict"] == "fail"
    assert shared["report"]["device"]["name"] == "Chromium 156"


def test_calls_that_are_right_let_it_go_on(watched: Watched) -> None:
    watched.release(sampling={"runs": 1})
    for device in IDS[:2]:
        assert watched.send(device).json == {"counted": True}
        told = {"task": TASK, "version": "1.0", "failed": False, "ms": 64}
        watched.client.post("/field/reports", json=told, headers=header(device))
    while watched.judging.look():
        pass
    watched.state.look()
    found = watched.console()["releases"][0]
    assert (found["status"], found["step"], found["samples"]["failed"]) == ("running", 1, 0)
    times = {"devices": 2, "p50": 64, "p95": 64}
    assert found["rates"] == [{"step": 0, "devices": 2, "failed": 0, "slow": 0, "times": times}]
    assert found["thresholds"] == {"failure_rate": 0.01, "slow_ms": None, "slow_rate": 0.05}
    assert found["samples"]["calls"] == 2 * len(watched.suite.tests)


def test_what_nobody_asked_for_is_not_kept(watched: Watched) -> None:
    watched.release()
    assert watched.send(IDS[0]).json == {"counted": False}  # this release has no sampling
    watched.state.store.roll_back(TASK, "1.0", "a test", watched.now)
    watched.release(sampling={"runs": 1})
    assert watched.send(IDS[5]).json == {"counted": False}  # nobody gave it the version
    refused = watched.send(IDS[0], body=b"no capture at all")
    assert refused.status_code == 400
    assert "no captured call" in refused.json["error"]
    assert [watched.send(IDS[0]).json["counted"] for _ in range(MOST_OF_DEVICE + 1)] == [True] * MOST_OF_DEVICE + [
        False
    ]
    assert len(list((watched.folder / "judged" / "samples").iterdir())) == MOST_OF_DEVICE


def test_a_sample_of_another_model_is_no_evidence(watched: Watched) -> None:
    watched.release(sampling={"runs": 1})

    def other(document: Json, tensors: dict[str, bytes]) -> None:
        document["model"]["sha256"] = "1" * 64

    body = capture_of(watched.suite, watched.folder / "other.capture", change=other).read_bytes()
    assert watched.send(IDS[0], body=body).json == {"counted": True}
    assert watched.judging.look()
    watched.state.look()
    assert watched.state.store.releases()[0].status == "running"


def test_the_console_is_opened_by_its_key_alone(watched: Watched) -> None:
    assert watched.client.get("/field/console").status_code == 403
    assert watched.client.get("/field/console", headers={KEY_HEADER: "console-kez"}).status_code == 403
    assert watched.console()["releases"] == []


def test_browsers_of_a_simulation_are_no_devices_that_hold_a_version(watched: Watched) -> None:
    watched.release(steps=[{"kind": "simulation", "browsers": ["chromium"]}, {"kind": "full"}])
    (release,) = watched.state.releases
    simulation = release.plan.steps[0]
    assert isinstance(simulation, NamedStep)
    for device in (*simulation.devices, IDS[0]):
        watched.client.get("/field/answer", headers=header(device, holds={TASK: "1.0"}))
    watched.state.seen.look()
    assert [one["device"] for one in watched.state.fleet.devices()] == [IDS[0]]
    assert watched.state.fleet.coverage(release)[-1][1] == 1


def test_coverage_is_who_says_that_it_holds_the_version(watched: Watched) -> None:
    watched.release(steps=[{"kind": "full"}])
    for number, holds in enumerate(({}, {TASK: "1.0"}, {TASK: "0.9"})):
        watched.client.get("/field/answer", headers=header(IDS[number], holds=holds))
    watched.now = 2000
    watched.state.seen.look()
    watched.client.get("/field/answer", headers=header(IDS[0], holds={TASK: "1.0"}))
    watched.now = 3000
    watched.state.seen.look()
    found = watched.console()
    assert found["releases"][0]["coverage"] == [[2000, 1], [3000, 2]]
    assert found["devices"][0]["holds"] == {TASK: "1.0"}
    assert len(found["devices"]) == 3


def test_a_simulation_whose_browser_does_not_start_ends_the_release(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.release(steps=[{"kind": "simulation", "browsers": ["netscape+no-subgroups"]}, {"kind": "full"}])
    simulator = Simulator(watched.state, "http://127.0.0.1:1/")
    with pytest.raises(InputError, match="cannot be opened"):
        simulator.look()
    assert watched.state.store.releases()[0].status == "running"  # a page that is not there is no release's
    found = watched.console()["releases"][0]["waits"]
    assert found.startswith("its simulation step waits for 1 of 1 browsers")
    monkeypatch.setattr("tapml.field.service.simulator.check_page", lambda _: None)
    simulator.look()
    release = watched.state.store.releases()[0]
    assert release.status == "rolled-back"
    assert release.reason.startswith(
        "the simulation test failed in netscape+no-subgroups: tapml knows no browser 'netscape'"
    )


def test_browsers_of_a_simulation_have_names_that_nobody_can_guess() -> None:
    steps = [{"kind": "simulation", "browsers": ["chromium", "firefox+no-shader-f16"]}]
    given = {"task": TASK, "version": "1.0", "manifest": MANIFEST, "steps": steps}
    plan, again = Plan.model_validate(given), Plan.model_validate(given)
    assert plan.steps != again.steps
    assert Plan.model_validate_json(plan.model_dump_json()) == plan  # as it was kept, they stay
    with pytest.raises(ValueError, match="one for each device"):
        Plan.model_validate({**given, "steps": [{**steps[0], "devices": IDS[:1]}]})
    with pytest.raises(ValueError, match="are a simulation's"):
        Plan.model_validate({**given, "steps": [{**steps[0], "kind": "beta"}]})


def test_pages_and_their_workers_may_ask_this_service_and_nothing_else_runs(watched: Watched) -> None:
    watched.release(sampling={"runs": 1})
    watched.send(IDS[0], wrong=watched.suite.tests[0].kernel)
    watched.judging.look()
    link = watched.console()["failures"][0]["link"]
    page = watched.client.get(f"/s/{link}")
    # A worker has the policy that its script came with, and not the page's.
    script = watched.client.get(next(iter(re.findall(r'src="(/static/share/[^"]+\.js)"', page.text))))
    for answer in (page, script):
        assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "connect-src" not in watched.client.get("/").headers["Content-Security-Policy"]
