"""`tapml test`: suites on devices for CI, with all its reports at once."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tapml.ci.baseline import Baseline, Judge, parse_expiry, read_baseline
from tapml.ci.document import document, exit_code, json_text, write_report
from tapml.ci.places import check_names, find_places, screenshots
from tapml.ci.plan import PlannedSuite, Shard, parse_shard, plan
from tapml.ci.run import CiRun
from tapml.ci.update import updated
from tapml.cli.arguments import database_url
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.runs import JobEvents, acquire, elsewhere, interruptible, served
from tapml.devices import Device
from tapml.errors import InputError
from tapml.history import Recorder, check_database
from tapml.reports.annotations import github_annotations, github_commands_off, summary_markdown
from tapml.reports.html import html, report_template
from tapml.reports.junit import junit
from tapml.reports.progress import ProgressReport
from tapml.reports.run_summary import show_run
from tapml.reports.terminal import warn_doubts
from tapml.results.run import RunDocument


@dataclass(frozen=True)
class _Settings:
    """The arguments, checked: what is wrong with them is said before anything starts."""

    devices: list[str]
    shard: Shard | None
    planned: list[PlannedSuite]
    baseline: Baseline | None
    today: datetime.date
    expires: datetime.date | None


def test(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """The command. Exit codes: 0 good, 1 something fails or got worse, 2 wrong input, 130 interrupted."""
    settings = _settings(options)
    for planned in settings.planned:
        warn_doubts(progress, planned.suite.path, planned.suite.doubts)
    to_standard_output = str(options.json) == "-"
    outputs = Outputs(progress)
    commands = sys.stderr if to_standard_output else sys.stdout
    github = options.annotations or os.environ.get("GITHUB_ACTIONS") == "true"
    with github_commands_off(commands) if github else contextlib.nullcontext():
        run, found, pictures = _run(options, settings, progress)
        if not to_standard_output:
            show_run(console, found, recording=options.update_baseline)
        _write(outputs, options, found, pictures)
        if options.update_baseline:
            outputs.write(lambda: _update(options, settings, run, found, progress))
    if github:
        root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
        for line in github_annotations(found, root):
            print(line, file=commands, flush=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(summary), summary_markdown(found), progress)
    recorded = options.update_baseline and not found["interrupted"]
    return outputs.exit_code(0 if recorded else exit_code(found))


def _settings(options: argparse.Namespace) -> _Settings:
    if options.update_baseline and not options.baseline:
        raise InputError("--update-baseline writes the file that --baseline names: give that too")
    if not options.update_baseline and (options.reason or options.expires):
        raise InputError("--reason and --expires are for the entries that --update-baseline adds: give that too")
    shard = parse_shard(options.shard) if options.shard else None
    devices = check_names(options.device or ["chromium"], elsewhere)
    baseline = read_baseline(options.baseline, may_be_new=options.update_baseline) if options.baseline else None
    expires = parse_expiry(options.expires) if options.expires else None
    if expires is not None and expires < datetime.date.today():
        raise InputError(f"--expires {options.expires} is past: entries until then would excuse nothing")
    planned = plan(options.suites, kernels=options.kernel or (), shard=shard)
    names = [entry.suite.name for entry in planned]
    if baseline is not None and (twice := next((name for name in names if names.count(name) > 1), None)):
        raise InputError(f"two suites are called {twice!r}, which a baseline cannot tell apart: test them one by one")
    if options.html:
        report_template()  # not built: said now rather than after the run
    check_database(database_url(options))
    for path in (options.json, options.junit, options.html, options.baseline if options.update_baseline else None):
        check_writable(path)
    return _Settings(list(devices), shard, planned, baseline, datetime.date.today(), expires)


def _run(
    options: argparse.Namespace, settings: _Settings, progress: Console
) -> tuple[CiRun, RunDocument, dict[str, bytes]]:
    judge = Judge(settings.baseline, settings.today, options.fail_on_flaky)
    pictures: dict[str, bytes] = {}
    with (
        ProgressReport(progress) as report,
        interruptible() as cancel,
        served(None, options, settings.devices) as server,
    ):
        show = JobEvents(report)

        def here(name: str) -> Device:
            return acquire(server, name, report, cancel)

        places = find_places(settings.devices, here, server.state.blobs, elsewhere, show, cancel)
        run = CiRun(
            settings.planned,
            places,
            retries=options.retries,
            excused=judge.excused,
            emit=show,
            cancel=cancel,
            history=Recorder(database_url(options), "test"),
            hang_seconds=options.hang_seconds,
        )
        run.run()
        if options.html:
            pictures = screenshots(server.state.processes, places)
    return run, document(run, judge, shard=settings.shard), pictures


def _write(outputs: Outputs, options: argparse.Namespace, found: RunDocument, pictures: Mapping[str, bytes]) -> None:
    if options.junit:
        outputs.write(lambda: write_report(options.junit, junit(found)))
    if options.html:
        outputs.write(lambda: write_report(options.html, html(found, pictures)))
    if options.json and str(options.json) != "-":
        outputs.write(lambda: write_report(options.json, json_text(found)))
    elif options.json:
        print(json_text(found), end="", flush=True)


def _update(
    options: argparse.Namespace, settings: _Settings, run: CiRun, found: RunDocument, progress: Console
) -> None:
    assert settings.baseline is not None
    if found["interrupted"]:
        progress.print("the run was interrupted: the baseline stays as it was")
        return
    update = updated(
        settings.baseline,
        run,
        found,
        settings.today,
        reason=options.reason,
        expires=settings.expires,
        expires_given=bool(options.expires),
    )
    settings.baseline.write(update.expected)
    progress.print(
        f"{options.baseline}: {len(update.expected)} expected failures, {update.added} of them new, "
        f"{update.dropped} earlier ones dropped",
    )


def _append(path: Path, text: str, progress: Console) -> None:
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:  # a verdict does not depend on it
        progress.print(f"the job's summary cannot be written to {path}: {error.strerror}")
