"""`tapml field demo`: a model is released to browsers of which some compute it wrongly, and is taken back."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.browsers import check_startable
from tapml.building.build import build
from tapml.cli.commands import carved_by, free_port
from tapml.cli.field_demo_fleet import Fleet, fleet_of
from tapml.cli.field_demo_model import VARIANT, add_variant, attention
from tapml.cli.field_demo_proof import reproduced
from tapml.cli.field_publishing import WorkingCopy
from tapml.cli.field_releases import wait_until_stopped
from tapml.cli.outputs import Outputs, check_writable
from tapml.errors import InputError
from tapml.field.releases import Plan, Release, step_name
from tapml.field.service.fleet_state import FleetState, milliseconds
from tapml.field.service.serving import FieldServer
from tapml.field.signing import SigningKey, new_key
from tapml.field.tasks.publish import published_path
from tapml.field.tasks.published import Published
from tapml.reports.progress import ProgressReport
from tapml.server.pages import STATIC
from tapml.suite import Suite

TASK = "demo/attention"
GOOD, BROKEN = "1.0", "1.1"
_MARK = "field-demo.txt"
_PAGES = STATIC / "examples"
_OPEN_SECONDS, _ONLINE_SECONDS, _WATCH_SECONDS, _RESTORE_SECONDS = 60.0, 300.0, 900.0, 300.0
"""The most that each part takes, on a machine that does much else (the first: a browser); seconds are usual."""


def demo(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 0 where the broken version was rolled back, its kernel was named, and its link reproduces it."""
    check_startable(options.device)
    check_writable(options.json)
    started = time.monotonic()
    folder = _folder(options.output)
    console.rule("1. a model, and a version of it with a kernel that is wrong on some devices", align="left")
    group = folder / "group"
    key, suite = _published(folder, group, progress)
    console.print(f"{TASK} {GOOD} is right everywhere. {BROKEN} has one more variant of its softmax, for devices with "
                  f"the feature subgroups: it overflows where values are larger than those of the lab")  # fmt: skip
    page = f"/pages/field/?key={key.public}"
    with FieldServer(
        group, group / "field.sqlite3", port=free_port(options.port), suites=[suite.path], pages=_PAGES,
        simulation_page=page,
    ) as server:  # fmt: skip
        fleet = fleet_of(options.browsers, _plan(group, BROKEN, options.device, []))
        document = _released(server, fleet, f"{server.url}{page}", group, options, console, progress)
        console.rule("4. the link reproduces it", align="left")
        again = reproduced(server.url, document["link"], folder / "shared", options.device, progress)
        document |= {"reproduced": again, "console": server.console, "seconds": round(time.monotonic() - started, 1)}
        document["serve_again"] = f"tapml field serve {group} --suite {suite.path} --port {server.port}"
        _summary(document, console)
        outputs = Outputs(progress)
        outputs.report(options.json, document, lambda: None)
        if options.json is None:
            console.print(f"the console is {server.console} (Ctrl-C ends it)", soft_wrap=True)
            wait_until_stopped()
    good = document["rolled_back"] and again is not None and again["verdict"] == "fail"
    return outputs.exit_code(0 if good else 1)


def _folder(path: Path) -> Path:
    """Empty; only an earlier demo's is replaced."""
    if path.exists():
        if not (path / _MARK).is_file():
            raise InputError(f"{path} is there, and is none of `tapml field demo`: choose another folder with -o")
        shutil.rmtree(path)
    try:
        path.mkdir(parents=True)
        (path / _MARK).write_text("Made by `tapml field demo`, which replaces it.\n")
    except OSError as error:
        raise InputError(f"{path} cannot be made ({error.strerror}): choose another folder with -o") from error
    return path


def _published(folder: Path, group: Path, progress: Console) -> tuple[SigningKey, Suite]:
    """Both versions by git, as anybody publishes one; the suite knows what each operator computes."""
    key = new_key(folder / "key.pem")
    with ProgressReport(progress) as report:
        suite = carved_by(TASK, lambda **_: attention(), folder / "attention.suite", report)
    work = WorkingCopy(folder / "attention", group, TASK, key)
    shutil.copytree(_PAGES / "field/task", work.path, dirs_exist_ok=True)
    for version in (GOOD, BROKEN):
        if version == BROKEN:
            suite = add_variant(suite)
        build(suite, work.path / "model.tapml", overwrite=True)
        work.publish(version)
    return key, suite


def _plan(group: Path, version: str, browser: str, beta: list[str]) -> Plan:
    manifest = Published(published_path(group)).digest(TASK, version)
    cells = [browser, f"{browser}+no-{VARIANT}"]
    careful: list[dict[str, Any]] = [
        {"kind": "simulation", "browsers": cells},
        *([{"kind": "beta", "devices": beta}] if beta else []),
        {"kind": "gray", "share": 0.35},
        {"kind": "gray", "share": 0.7},
    ]
    return Plan.model_validate(
        {
            "task": TASK,
            "version": version,
            "manifest": manifest,
            "steps": [*(careful if version == BROKEN else []), {"kind": "full"}],
            "sampling": {"runs": 0.5} if version == BROKEN else None,
        }
    )


def _released(
    server: FieldServer,
    fleet: Fleet,
    page: str,
    group: Path,
    options: argparse.Namespace,
    console: Console,
    progress: Console,
) -> dict[str, Any]:
    state = server.state
    console.rule(f"2. {len(fleet.devices)} headless browsers: {GOOD} for all of them", align="left")
    good = state.store.add(_plan(group, GOOD, options.device, []), milliseconds())

    def runs(device: str) -> bool:
        return state.store.reported(good, device)

    with contextlib.ExitStack() as held:
        with ProgressReport(progress) as report:

            def tell(count: int) -> None:
                report.update("browsers", count, len(fleet.devices))

            held.enter_context(fleet.opened(options.device, page, runs, _OPEN_SECONDS, tell))
        online = _until(lambda: _holding(state, GOOD) == len(fleet.devices), _ONLINE_SECONDS)
        there = _holding(state, GOOD)
        console.print(
            f"{there} of {len(fleet.devices)} browsers hold {GOOD}; {len(fleet.affected)} of them have subgroups"
        )
        if not online:
            console.print("[yellow]the others did not answer in time; the release goes on without them")
        console.rule(f"3. {BROKEN} is released: simulation, beta, gray steps", align="left")
        begun = time.monotonic()
        made = state.store.add(_plan(group, BROKEN, options.device, fleet.beta), milliseconds())
        shown = _Shown(state, made, console)
        _until(lambda: shown.look().status != "running", _WATCH_SECONDS)
        noticed = time.monotonic() - begun
        release = shown.look()
        _until(lambda: _holding(state, BROKEN) == 0 and _holding(state, GOOD) >= there, _RESTORE_SECONDS)
        state.seen.look()
        restored = _holding(state, BROKEN) == 0
    return _document(state, release, fleet, restored, round(noticed, 1), server)


def _document(
    state: FleetState, release: Release, fleet: Fleet, restored: bool, noticed: float, server: FieldServer
) -> dict[str, Any]:
    """tapml.field-demo/1, without what is known at its end only."""
    failures = [one for one in state.samples.failures() if one["version"] == BROKEN]
    first = failures[-1] if failures else None
    points = state.fleet.coverage(release)
    begun = state.store.events(release)[0]["at"]
    return {
        "format": "tapml.field-demo/1",
        "rolled_back": release.status == "rolled-back",
        "reason": release.reason,
        "kernel": first and first["kernel"],
        "variant": first and first["variant"],
        "link": first and f"{server.url}/s/{first['link']}",
        "devices": len(fleet.devices),
        "affected": len(fleet.affected),
        "wrong_on": sorted({one["device"] for one in failures}),
        "wrongly_accused": sorted({one["device"] for one in failures} - set(fleet.affected)),
        "restored": restored,
        "seconds_to_roll_back": noticed,
        "coverage": [
            {"seconds": round((at - begun) / 1000, 3), "devices": devices, "share": devices / len(fleet.devices)}
            for at, devices in points
        ],
        "steps": [
            {
                "seconds": round((event["at"] - begun) / 1000, 3),
                "step": step_name(release.plan.steps[event["step"]]),
                "status": event["status"],
            }
            for event in state.store.events(release)
        ],
    }


class _Shown:
    """A release's steps, printed as it reaches them."""

    def __init__(self, state: FleetState, release: Release, console: Console) -> None:
        self._state, self._number, self._console = state, release.number, console
        self._known = 0

    def look(self) -> Release:
        """The release as it is now."""
        release = next(one for one in self._state.store.releases() if one.number == self._number)
        events = self._state.store.events(release)
        for event in events[self._known :]:
            step = step_name(release.plan.steps[event["step"]])
            said = f"rolled back in the step {step}: {event['reason']}" if event["reason"] else step
            self._console.print(said, style="red" if event["reason"] else None)
        self._known = len(events)
        return release


def _holding(state: FleetState, version: str) -> int:
    return sum(one["holds"].get(TASK) == version for one in state.fleet.devices())


def _until(done: Any, seconds: float) -> bool:
    """Whether it came true in that time."""
    end, waiting = time.monotonic() + seconds, threading.Event()
    while not done():
        if time.monotonic() > end:
            return False
        waiting.wait(0.5)
    return True


def _summary(found: dict[str, Any], console: Console) -> None:
    console.rule("summary", align="left")
    again = found["reproduced"]
    most = max((point["devices"] for point in found["coverage"]), default=0)
    lines = [
        f"released     {TASK} {BROKEN} to {most} of {found['devices']} browsers; its wrong variant runs on "
        f"{found['affected']} of them",
        f"noticed      {found['reason'] or 'nothing: it was not rolled back'}",
        f"taken back   {found['seconds_to_roll_back']} s after the release began; "
        + ("no browser holds it any more" if found["restored"] else "some browsers did not answer since"),
        f"the link     {found['link'] or '-'}",
        f"reproduces   {again['kernel'] + ': ' + again['verdict'] + ' in ' + again['device'] if again else 'not'}",
        f"took         {found['seconds']} s; serve it again: {found['serve_again']}",
    ]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
