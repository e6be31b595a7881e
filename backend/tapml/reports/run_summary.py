"""A run of `tapml test` on the terminal."""

from __future__ import annotations

from collections import defaultdict

from rich.console import Console
from rich.text import Text

from tapml.reports.console import Table
from tapml.reports.plain import export_command
from tapml.reports.terminal import mark
from tapml.results.headline import headed
from tapml.results.run import OUTCOMES, RunDocument, RunSuite, RunTest
from tapml.results.verdicts import VERDICTS
from tapml.text import counted, one_line

_WORST_FIRST = ("error", "fail", "unbounded", "unsupported", "expected", "pass")
_MOST_MESSAGES = 12


def show_run(console: Console, document: RunDocument, *, recording: bool = False) -> None:
    """A table for each suite, kernels by devices; then what fails, is flaky or fixed; then one line of sums."""
    for suite in document["suites"]:
        if suite["synthetic"]:
            console.print(f"{one_line(suite['name'])} was carved from made-up data", style="yellow")
        if any(test["suite"] == suite["id"] for test in document["tests"]):
            console.print(_table(document, suite))
    names = {device["id"]: device["requested"] for device in document["devices"]}
    paths = {suite["id"]: suite["path"] for suite in document["suites"]}
    # A device that is missing as a whole is told once.
    missing = {device["id"] for device in document["devices"] if device["unavailable"]}
    bad = [test for test in document["tests"] if test["fails_run"] and test["device"] not in missing]
    for test in bad[:_MOST_MESSAGES]:
        where = f"{test['id']} {test['kernel']} on {names[test['device']]}"
        console.print(mark(test["verdict"]) + Text(" " + one_line(f"{where}: {_why(test)}", 2000)))
    if len(bad) > _MOST_MESSAGES:
        console.print(f"... and {len(bad) - _MOST_MESSAGES} more: see --html, --junit or --json")
    if bad:
        _line(console, "a page of one test alone: " + export_command(paths[bad[0]["suite"]], bad[0]["id"]))
    flaky = [test for test in document["tests"] if test["flaky"]]
    for test in flaky[:_MOST_MESSAGES]:
        _line(
            console, f"flaky: {test['id']} {test['kernel']} on {names[test['device']]}: {', '.join(test['attempts'])}"
        )
    if document["summary"]["fixed"]:
        _line(
            console, f"{document['summary']['fixed']} are better than the baseline: record that with --update-baseline"
        )
    for device in document["devices"]:
        if device["unavailable"]:
            _line(console, f"{device['requested']} cannot be tested: {device['unavailable']}")
    _line(console, run_line(document, recording=recording))


def run_line(document: RunDocument, *, recording: bool = False) -> str:
    """One line: how many of what, which kernels fail. `recording`: what fails becomes the baseline."""
    summary = document["summary"]
    words = (*VERDICTS, *OUTCOMES)
    counts = ", ".join(f"{summary[word]} {word}" for word in words if summary[word])
    shard = f" of shard {document['shard']}" if document["shard"] else ""
    text = f"{counted(summary['total'], 'test')}{shard}: {counts or 'none'} in {summary['seconds']:.1f} s"
    if summary["fails_run"] and not document["interrupted"] and recording:
        text += f"; {summary['fails_run']} are worse than the baseline, which is written anew"
    elif summary["fails_run"]:
        text += f"; {summary['fails_run']} fail the run, of kernels {', '.join(summary['failing_kernels'])}"
    elif document["baseline"]:
        text += f"; nothing is worse than {document['baseline']}"
    return text + (f"; interrupted, {summary['not_run']} did not run" if document["interrupted"] else "")


def _line(console: Console, text: str) -> None:
    console.print(one_line(text, 2000))


def _why(test: RunTest) -> str:
    text = one_line(headed(test)) or f"flaky: {', '.join(test['attempts'])}"
    expected = test["expected"]
    if expected and expected["expired"]:
        text += f" (the baseline's entry expired on {expected['expires']})"
    elif expected:
        text += f" (the baseline expects {expected['verdict']})"
    return text


def _table(document: RunDocument, suite: RunSuite) -> Table:
    tests: dict[str, dict[str, list[RunTest]]] = defaultdict(lambda: defaultdict(list))
    for test in document["tests"]:
        if test["suite"] == suite["id"]:
            tests[test["kernel"]][test["device"]].append(test)
    edited = suite["edited_kernels"]
    devices = [one_line(device["requested"]) for device in document["devices"]]
    table = Table("kernel", *devices, title=f"{suite['id']} ({suite['path']})")
    for kernel, by_device in tests.items():
        cells = [_cell(by_device[device["id"]]) for device in document["devices"]]
        table.add_row(kernel + (" (edited)" if kernel in edited else ""), *cells)
    return table


def _cell(tests: list[RunTest]) -> Text:
    if not tests:
        return Text("")
    # One that the baseline excuses is not shown as one that fails.
    states = ["expected" if test["outcome"] == "expected" else str(test["verdict"]) for test in tests]
    worst = next(state for state in _WORST_FIRST if state in states)
    count = str(len(tests)) if worst == "pass" else f"{states.count(worst)} of {len(tests)}"
    return mark(worst).append(f" {count}")
