"""`tapml export`, `tapml import`, `tapml share`: one test for others, and from others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from tapml.cli.suites import opened
from tapml.errors import InputError
from tapml.files import write_json_output
from tapml.reports.console import Table
from tapml.reports.terminal import warn_doubts
from tapml.server.security import is_loopback
from tapml.sharing import FORMS, check_export, file_name, issue_text, links, load_repro, of_suite
from tapml.sharing import export as export_file
from tapml.sharing.capture import read_capture
from tapml.sharing.imports import add_to_suite, new_suite
from tapml.suite import Suite
from tapml.text import size

FORMAT = "tapml.shares/1"
_SHORTEST_NAME = 4


def export(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Write a test in every form that was asked for."""
    suite = opened(options.suite, progress)
    repro = of_suite(suite, options.test, options.device, lambda problem: progress.print(f"left out: {problem}"))
    asked = {form: getattr(options, form) for form in FORMS if getattr(options, form) is not None}
    if not asked:
        asked = {"html": Path(file_name(repro, "html"))}
    if asked.get("markdown") == Path("-"):
        del asked["markdown"]
        print(issue_text(repro.document), end="")
    if repro.document.report is None:
        hint = f"no result of {options.test} goes along, for there is none yet: `tapml validate {options.suite}` first"
        progress.print(hint)
    _check_all(asked, options.force)
    for form, path in asked.items():
        # What the script shares with --safetensors is the same file.
        for written in export_file(repro, form, path, overwrite=True):
            what = "folder" if written.is_dir() else size(written.stat().st_size)
            progress.print(f"wrote {written} ({what})")
    return 0


def _check_all(asked: Mapping[str, Path], force: bool) -> None:
    """All names before the first file is written: nothing is left half done."""
    seen: dict[Path, str] = {}
    for form, path in asked.items():
        for taken in check_export(form, path, overwrite=force):
            kind = "safetensors" if taken.suffix == ".safetensors" else form
            if seen.setdefault(taken, kind) != kind:
                raise InputError(f"{taken} is given for two forms: choose another name for one of them")


def import_(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Open an exported test, or what a page captured, as a suite, or add it to one."""
    if (captured := read_capture(options.file)) is not None:
        # Late: TVM takes seconds to load.
        from tapml.cli.capture_command import import_captured

        return import_captured(captured, options, console, progress)
    repro = load_repro(options.file)
    warn_doubts(progress, options.file, repro.document.suite.doubts)
    kernel = repro.document.test.kernel
    if options.into is not None:
        suite = opened(options.into, progress)
        before = {test.id for test in suite.tests}
        test = add_to_suite(repro, suite)
        verb = "is there already as" if test in before else "was added as"
        console.print(f"{options.file}: the test of {kernel} {verb} {test} of {suite.path}")
        again = Suite(suite.path).test(test).kernel
        path, option = suite.path, f" --kernel {again}"
    else:
        path = options.output or Path(options.file.name).with_suffix(".suite")
        new_suite(repro, path, overwrite=options.force)
        console.print(f"{options.file}: the test of {kernel} is the suite {path}")
        option = ""
    console.print(f"run it: tapml validate {path}{option}; look at it: tapml serve {path}")
    return 0


def share(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Make, list or revoke links."""
    suite = opened(options.suite, progress)
    if options.revoke is not None:
        return _revoke(suite, options.revoke, console)
    if options.test is None:
        return _list(suite, options, console)
    if options.forever and options.days is not None:
        raise InputError("--forever and --days contradict each other: give one of them")
    base = _base(options.server)
    repro = of_suite(suite, options.test, options.device, lambda problem: progress.print(f"left out: {problem}"))
    share_id, made = links.create(suite.path, repro, None if options.forever else options.days or links.DEFAULT_DAYS)
    url = f"{base}/s/{share_id}"
    document = {"format": FORMAT, "url": url, **made.model_dump(), "doubts": suite.doubts}
    if write_json_output(options.json, document):
        return 0
    console.print(url, soft_wrap=True)
    until = f"until {made.expires[:16]} UTC" if made.expires else "until it is revoked"
    lines = [
        f"it works {until}, while `tapml serve {suite.path}` runs; the address is not kept anywhere, so copy it now",
        f"to end it: tapml share {suite.path} --revoke {made.name[:12]}",
    ]
    if is_loopback(urlsplit(base).hostname or ""):
        lines.append(
            "only this machine reaches that address: for others, `tapml serve --host 0.0.0.0 --certificate CERT KEY` "
            "and --server with its address, or send `tapml export --html`"
        )
    for line in lines:
        progress.print(line)
    return 0


def _base(server: str) -> str:
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"--server {server}: give an address such as http://127.0.0.1:8808")
    return f"{parts.scheme}://{parts.netloc}"


def _revoke(suite: Suite, given: str, console: Console) -> int:
    """`given`: a link, its id, its name or the beginning of that."""
    name = links.name_of(given.rsplit("/", 1)[-1]) or given
    if len(name) < _SHORTEST_NAME:
        raise InputError(f"--revoke {given}: give the link, or at least {_SHORTEST_NAME} characters of its name")
    found = [known.name for known in links.shares(suite.path) if known.name.startswith(name)]
    if len(found) != 1:
        what = "no such link" if not found else "several links of that name"
        raise InputError(f"{suite.path} has {what} ({given}): `tapml share {suite.path}` lists them")
    links.revoke(suite.path, found[0])
    console.print(f"the link {found[0][:12]} is dead")
    return 0


def _list(suite: Suite, options: argparse.Namespace, console: Console) -> int:
    found = links.shares(suite.path)
    document = {"format": FORMAT, "shares": [known.model_dump() for known in found], "doubts": suite.doubts}
    if write_json_output(options.json, document):
        return 0
    if not found:
        console.print(f"{suite.path} has no links: `tapml share {suite.path} TEST_ID` makes one")
        return 0
    table = Table("name", "test", "kernel", "result", "made", "until")
    for known in found:
        result = f"{known.verdict} on {known.device}" if known.device else "-"
        until = f"{known.expires[:16]} UTC" if known.expires else "it is revoked"
        table.add_row(known.name[:12], known.test, known.kernel, result, known.created[:16], until)
    console.print(table)
    return 0
