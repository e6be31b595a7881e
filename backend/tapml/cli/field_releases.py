"""`tapml field release`, `releases`, `rollback` and `serve`."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.browsers import PAGE_BROWSERS
from tapml.cli.field_plans import read_plan
from tapml.cli.outputs import Outputs
from tapml.errors import InputError
from tapml.field.releases import Counts, NamedStep, Plan, Release, step_name, waits
from tapml.field.service.fleet_state import milliseconds
from tapml.field.service.limits import Limits
from tapml.field.service.redis_link import RedisLink
from tapml.field.service.serving import FieldServer
from tapml.field.storage.store import Store
from tapml.field.tasks.configuration import check_installable
from tapml.field.tasks.publish import published_path
from tapml.field.tasks.published import Published
from tapml.reports.console import Table
from tapml.text import counted, meant, one_line


def release(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Begin one."""
    _check_group(options.group)
    published = Published(published_path(options.group))
    plan = read_plan(options.plan, published.digest)
    if (known := published.digest(plan.task, plan.version)) != plan.manifest:
        raise InputError(
            f"{options.plan}: {plan.task} {plan.version} is not published with the manifest {plan.manifest}"
            + (f" but with {known}" if known else ": run `tapml field publish` first")
        )
    files = published.manifest(plan.manifest).shared
    check_installable(plan.task, plan.version, [file.path for file in files])
    _check_browsers(options.plan, plan)
    with _announced(options, progress) as store:
        made = store.add(plan, milliseconds())
    console.print(f"{plan.task} {plan.version} is being released: step {step_name(plan.steps[made.step])}")
    if waiting := waits(made, Counts()):
        console.print(waiting)
    return 0


def _check_browsers(path: Path, plan: Plan) -> None:
    """One that nobody knows would roll the release back when its step is run."""
    for number, step in enumerate(plan.steps):
        for cell in step.browsers if isinstance(step, NamedStep) else ():
            if (name := cell.partition("+")[0]) not in PAGE_BROWSERS:
                hint = meant(name, PAGE_BROWSERS) or ":"
                raise InputError(
                    f"{path}: steps[{number}]: tapml knows no browser {name!r}{hint} give one of "
                    + ", ".join(PAGE_BROWSERS)
                )


def releases(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """All of them, with what was reported."""
    store = _store(options)
    found = [_document(one, store) for one in store.releases()]
    document = {"format": "tapml.field-releases/1", "releases": found}
    outputs = Outputs(progress)
    outputs.report(options.json, document, lambda: _show(console, found))
    return outputs.exit_code(0)


def rollback(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """By hand."""
    with _announced(options, progress) as store:
        store.roll_back(options.task, options.version, options.reason, milliseconds())
    console.print(f"{options.task} {options.version} is rolled back: devices are told with their next request")
    return 0


def serve(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Until Ctrl-C or SIGTERM."""
    with FieldServer(
        options.group, _database(options), grants=options.grants, origins=options.allow_origin, host=options.host,
        port=options.port, suites=options.suite, pages=options.pages, simulation_page=options.simulate,
        tunnel_port=options.port + 1 if options.tunnel_port is None and options.port else options.tunnel_port or 0,
        limits=Limits(options.address_rate, options.device_rate), proxies=options.behind_proxies,
        redis_url=options.redis_url, watched_share=options.watched_share,
        records_database=options.records_url,
    ) as server:  # fmt: skip
        if not any((published_path(options.group) / "versions").glob("*")):
            progress.print(
                f"nothing is published in {options.group}: `tapml field publish` does, if this is the group",
                soft_wrap=True,
            )
        console.print(f"the field is served at {server.url} (Ctrl-C ends it)")
        if options.pages is not None:
            console.print(f"web pages are at {server.url}/pages/")
        console.print(f"its tunnel at {server.tunnel_url}")
        if server.link is not None:
            console.print(f"other processes by Redis at {server.link.shown}")
        console.print(f"its console, for whoever has this address: {server.console}", soft_wrap=True)
        wait_until_stopped()
    return 0


def wait_until_stopped() -> None:
    """Until Ctrl-C or SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with contextlib.suppress(KeyboardInterrupt):
        while not stop.wait(1):
            pass


@contextlib.contextmanager
def _announced(options: argparse.Namespace, progress: Console) -> Iterator[Store]:
    """Server processes are told of what was committed; whoever is not told looks by itself."""
    link = RedisLink(options.redis_url) if options.redis_url else None
    store = _store(options)
    yield store
    if link is not None:
        if not link.announce(store.releases()):
            progress.print(f"Redis at {link.shown} is away: server processes notice when they look at the database")
        link.stop()


def _database(options: argparse.Namespace) -> str | Path:
    url: str | None = options.database_url
    group: Path = options.group
    return url or group / "field.sqlite3"


def _check_group(group: Path) -> None:
    if not group.is_dir():
        raise InputError(f"{group} is no folder: make a group with `tapml field init`")


def _store(options: argparse.Namespace) -> Store:
    _check_group(options.group)
    return Store(_database(options))


def _document(found: Release, store: Store) -> dict[str, Any]:
    counts = store.counts(found)
    rates = store.rates().get(found.number, [])
    return {
        "task": found.plan.task,
        "version": found.plan.version,
        "status": found.status,
        "step": step_name(found.plan.steps[found.step]),
        "devices": counts.devices,
        "failed": counts.failed,
        "slow": counts.slow,
        "rates": [{**one, "step": step_name(found.plan.steps[one["step"]])} for one in rates],
        "reason": found.reason,
        "waits": waits(found, counts),
        "events": store.events(found),
    }


def _show(console: Console, found: list[dict[str, Any]]) -> None:
    if not found:
        console.print("nothing was released: `tapml field release` begins a release")
        return
    numbers = ("devices", "failed", "slow")
    columns = ("task", "version", "status", "step", *numbers, "since (UTC)")
    table = Table(*columns, right=numbers, collapse_padding=True)  # with 80 columns all are in one piece
    table.columns[-1].no_wrap = True
    for one in found:
        table.add_row(
            one["task"], one["version"], one["status"], one["step"], *(str(one[name]) for name in numbers),
            _time(one["events"][-1]["at"]),
        )  # fmt: skip
    console.print(table)
    several = Counter((one["task"], one["version"]) for one in found)
    for one in found:
        name = f"{one['task']} {one['version']}"
        if several[one["task"], one["version"]] > 1:
            name += f", begun {_time(one['events'][0]['at'])}"
        for rates in one["rates"]:
            if times := rates["times"]:
                took = f"a run took {times['p50']:g} ms, p95 {times['p95']:g}, on {counted(times['devices'], 'device')}"
                console.print(f"{name}: {rates['step']}: {took}")
        if said := one["reason"] or one["waits"]:
            console.print(f"{name}: {one_line(said)}")


def _time(milliseconds_since: int) -> str:
    """Of an event, in UTC."""
    return f"{datetime.datetime.fromtimestamp(milliseconds_since / 1000, datetime.UTC):%m-%d %H:%M}"
