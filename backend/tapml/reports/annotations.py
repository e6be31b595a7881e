"""A run as GitHub shows it: annotations at the kernels' lines, and the job's summary in Markdown.

All texts may come from strangers: nothing in them becomes a command, a link or markup.
"""

from __future__ import annotations

import secrets
import string
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, TypeAlias

from tapml.reports.plain import lines
from tapml.results.base import distrust
from tapml.results.headline import headed
from tapml.results.run import OUTCOMES, RunDocument, RunTest
from tapml.results.verdicts import SEVERITY, VERDICTS
from tapml.text import counted, one_line

MOST = 10
"""Annotations of one level that GitHub shows of one step."""

_MOST_ROWS = 200
_MOST_TEXT = 3000
_VERBS = {"error": "has errors", "fail": "fails", "unsupported": "is unsupported", "unbounded": "is unbounded"}
_ENTITIES = {ord(character): f"&#{ord(character)};" for character in string.punctuation}

Group: TypeAlias = list[RunTest]
Describe: TypeAlias = Callable[[RunDocument, Group], tuple[str, str]]


def github_annotations(document: RunDocument, root: Path) -> list[str]:
    """Workflow commands, one for each kernel, suite and device that fails, is flaky or is fixed; at most ten a level.

    `root` is the folder of the repository, for the paths in them.
    """
    told = [line for suite in document["suites"] for line in distrust(suite["id"], suite["doubts"])]
    found = [command("warning", line, title="the reference is in doubt") for line in told[:MOST]]
    tests = document["tests"]
    levels: list[tuple[str, Group, Describe]] = [
        ("error", [test for test in tests if test["fails_run"]], _failing),
        ("warning", [test for test in tests if test["flaky"] and not test["fails_run"]], _flaky),
        ("notice", [test for test in tests if test["outcome"] == "fixed"], _fixed),
    ]
    for level, wanted, describe in levels:
        groups = list(_groups(wanted).values())
        shown = groups if len(groups) <= MOST else groups[: MOST - 1]
        for group in shown:
            title, message = describe(document, group)
            file, line = _place(document, group, root)
            found.append(command(level, message, file=file, line=line, title=title))
        if rest := groups[len(shown) :]:
            count = counted(sum(map(len, rest)), "test")
            text = f"and {counted(len(rest), 'more kernel')} ({count}): see the job's summary or the reports"
            found.append(command(level, text, title=f"{len(rest)} more"))
    return found


def command(level: str, message: str, **properties: str | int | None) -> str:
    """One workflow command, escaped by GitHub's rules."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::{level} {given}::{_data(message)}"


def _data(text: str) -> str:
    return lines(text)[:_MOST_TEXT].replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(one_line(text)).replace(":", "%3A").replace(",", "%2C")


def _groups(tests: Iterable[RunTest]) -> dict[tuple[str, str, str], Group]:
    groups: dict[tuple[str, str, str], Group] = defaultdict(list)
    for test in tests:
        groups[test["suite"], test["device"], test["kernel"]].append(test)
    return groups


def _where(document: RunDocument, test: RunTest) -> tuple[str, str]:
    """The suite's id, which is unique, and the device's name."""
    suite = next(entry for entry in document["suites"] if entry["id"] == test["suite"])
    device = next(entry for entry in document["devices"] if entry["id"] == test["device"])
    return suite["id"], device["requested"]


def _failing(document: RunDocument, group: Group) -> tuple[str, str]:
    suite, device = _where(document, group[0])
    first = group[0]
    message = f"{first['id']}: {headed(first) or 'flaky: ' + ', '.join(first['attempts'])}"
    if first["expected"]:
        expected = first["expected"]
        why = f"which expired on {expected['expires']}" if expected["expired"] else f"with {expected['verdict']}"
        message += f"\nThe baseline expects it {why}: {expected['reason']}"
    verb = _VERBS.get(first["verdict"], "is flaky")
    return f"{first['kernel']} {verb} on {device} ({counted(len(group), 'test')} of {suite})", message


def _flaky(document: RunDocument, group: Group) -> tuple[str, str]:
    suite, device = _where(document, group[0])
    first = group[0]
    message = f"{first['id']}: {', '.join(first['attempts'])}; first: {first['earlier'][0]['message']}"
    return f"{first['kernel']} is flaky on {device} ({counted(len(group), 'test')} of {suite})", message


def _fixed(document: RunDocument, group: Group) -> tuple[str, str]:
    suite, device = _where(document, group[0])
    title = f"{group[0]['kernel']} is better than the baseline on {device} ({counted(len(group), 'test')} of {suite})"
    return title, "Record it with --update-baseline, so that it cannot get worse unseen."


def _place(document: RunDocument, group: Group, root: Path) -> tuple[str | None, int | None]:
    """The kernel's WGSL below `root`, and the compiler's line; (None, None) where there is no such file."""
    first = group[0]
    folder = Path(next(entry["path"] for entry in document["suites"] if entry["id"] == first["suite"])) / "kernels"
    found = next((entry for entry in first["diagnostics"] if entry["severity"] == "error"), None)
    # A name only: a device must not choose a path.
    names = [Path(found["file"]).name if found else "", f"{Path(first['kernel']).name}.wgsl"]
    for number, name in enumerate(names):
        if name and (path := folder / name).is_file():
            resolved = path.resolve()
            shown = resolved.relative_to(root) if resolved.is_relative_to(root) else resolved
            line = found["line"] if found and number == 0 else 0
            return shown.as_posix(), line if line > 0 else None
    return None, None


def summary_markdown(document: RunDocument) -> str:
    """The job's summary: a table of kernels that did not simply pass, by suite and device."""
    summary = document["summary"]
    good = not summary["fails_run"] and not document["interrupted"]
    counts = ", ".join(f"{summary[key]} {key}" for key in (*VERDICTS, *OUTCOMES) if summary[key])
    shard = f", shard {document['shard']}" if document["shard"] else ""
    text = [f"## {'✅' if good else '❌'} tapml test{shard}", ""]
    text += [f"{counted(summary['total'], 'test')}: {counts or 'none'}, in {summary['seconds']:.1f} s.", ""]
    for suite in document["suites"]:
        text += [line for said in distrust(suite["id"], suite["doubts"]) for line in (f"**{markdown(said)}**", "")]
    if document["interrupted"]:
        text += [f"Interrupted: {counted(summary['not_run'], 'test')} did not run.", ""]
    rows = [_row(document, group) for group in _groups(document["tests"]).values() if _worth_telling(group)]
    if rows:
        text += ["| suite | kernel | device | verdict | tests | message |", "| --- | --- | --- | --- | ---: | --- |"]
        text += rows[:_MOST_ROWS]
        if len(rows) > _MOST_ROWS:
            text += ["", f"And {len(rows) - _MOST_ROWS} more kernels: see the reports."]
        text.append("")
    return "\n".join(text) + "\n"


def _worth_telling(group: Group) -> bool:
    return any(test["verdict"] != "pass" or test["flaky"] or test["outcome"] == "fixed" for test in group)


def _row(document: RunDocument, group: Group) -> str:
    suite, device = _where(document, group[0])
    bad = [test for test in group if test["fails_run"]]
    worst = max(bad or group, key=lambda test: SEVERITY.index(test["verdict"]))
    words: list[str] = [worst["verdict"] if bad or worst["outcome"] == worst["verdict"] else worst["outcome"]]
    if any(test["flaky"] for test in group):
        words.append("flaky")
    mark = "❌" if bad else "⚠️" if words[-1] == "flaky" else "✅" if words == ["fixed"] else "🟡"
    message = worst["message"] or (f"expected: {worst['expected']['reason']}" if worst["expected"] else "")
    same = sum(test["verdict"] == worst["verdict"] for test in group)
    cells = (suite, worst["kernel"], device, f"{mark} {', '.join(words)}", f"{same} of {len(group)}", message)
    return "| " + " | ".join(markdown(cell) for cell in cells) + " |"


def markdown(text: str) -> str:
    """Text that Markdown shows as it is: in one line, with every punctuation mark as an entity.

    An entity never is markup; the mark after it keeps GitHub from seeing a mention or an address.
    """
    return one_line(text, 300).translate(_ENTITIES).replace("&#64;", "&#64;&#8203;")


@contextmanager
def github_commands_off(file: TextIO) -> Iterator[None]:
    """Around the printing of what strangers may have worded: no line of it is taken for a command of the workflow."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", file=file, flush=True)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        print(f"::{token}::", file=file, flush=True)
