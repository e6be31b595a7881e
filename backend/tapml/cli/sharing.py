"""`tapml export`, `tapml import`, `tapml share`: one test for others, and from others."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from tapml.errors import InputError
from tapml.files import write_json_output
from tapml.reports.terminal import size
from tapml.sharing import FORMS, file_name, issue_text, links, load_repro, of_suite
from tapml.sharing import export as export_file
from tapml.sharing.imports import add_to_suite, new_suite
from tapml.suite import Suite

FORMAT = "tapml.shares/1"


def export(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Write a test in every form that was asked for."""
    repro = of_suite(Suite(options.suite), options.test, options.device)
    asked = {form: getattr(options, form) for form in FORMS if getattr(options, form) is not None}
    if not asked:
        asked = {"html": Path(file_name(repro, "html"))}
    if asked.get("markdown") == Path("-"):
        del asked["markdown"]
        print(issue_text(repro.document), end="")
    if repro.document.report is None:
        hint = f"no result of {options.test} goes along, for there is none yet: `tapml validate {options.suite}` first"
        progress.print(hint, markup=False, highlight=False)
    for form, path in asked.items():
        for written in export_file(repro, form, path, overwrite=options.force):
            what = "folder" if written.is_dir() else size(written.stat().st_size)
            progress.print(f"wrote {written} ({what})", markup=False, highlight=False)
    return 0


def import_(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Open an exported test as a suite, or add it to one."""
    repro = load_repro(options.file)
    kernel = repro.document.test.kernel
    if options.into is not None:
        suite = Suite(options.into)
        before = {test.id for test in suite.tests}
        test = add_to_suite(repro, suite)
        verb = "is there already as" if test in before else "was added as"
        console.print(f"the test of {kernel} {verb} {test} of {suite.path}", markup=False, highlight=False)
        again = Suite(suite.path).test(test).kernel
        path, option = suite.path, f" --kernel {again}"
    else:
        path = options.output or Path(options.file.name).with_suffix(".suite")
        new_suite(repro, path, overwrite=options.force)
        console.print(f"the test of {kernel} is the suite {path}", markup=False, highlight=False)
        option = ""
    console.print(
        f"run it: tapml validate {path}{option}; look at it: tapml serve {path}", markup=False, highlight=False
    )
    return 0


def share(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Make, list or revoke links."""
    suite = Suite(options.suite)
    if options.revoke is not None:
        return _revoke(suite, options.revoke, console)
    if options.test is None:
        return _list(suite, options, console)
    base = _base(options.server)
    repro = of_suite(suite, options.test, options.device)
    share_id, made = links.create(suite.path, repro, None if options.forever else options.days)
    url = f"{base}/s/{share_id}"
    document = {"format": FORMAT, "url": url, **dataclasses.asdict(made)}
    if write_json_output(options.json, document):
        return 0
    console.print(url, markup=False, highlight=False, soft_wrap=True)
    until = f"until {made.expires[:16]} UTC" if made.expires else "until it is revoked"
    progress.print(
        f"it works {until}, while `tapml serve {suite.path}` runs; the address is not kept anywhere, so copy it now",
        markup=False,
        highlight=False,
    )
    return 0


def _base(server: str) -> str:
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"--server {server}: give an address such as http://127.0.0.1:8808")
    return f"{parts.scheme}://{parts.netloc}"


def _revoke(suite: Suite, beginning: str, console: Console) -> int:
    found = [known.name for known in links.shares(suite.path) if beginning and known.name.startswith(beginning)]
    if len(found) != 1:
        what = "no link" if not found else "several links"
        raise InputError(f"{suite.path} has {what} named {beginning}...: `tapml share {suite.path}` lists them")
    links.revoke(suite.path, found[0])
    console.print(f"the link {found[0][:12]} is dead", markup=False, highlight=False)
    return 0


def _list(suite: Suite, options: argparse.Namespace, console: Console) -> int:
    found = links.shares(suite.path)
    if write_json_output(options.json, {"format": FORMAT, "shares": [dataclasses.asdict(known) for known in found]}):
        return 0
    if not found:
        console.print(f"{suite.path} has no links: `tapml share {suite.path} TEST_ID` makes one", markup=False)
        return 0
    table = Table(box=None, pad_edge=False)
    for column in ("name", "test", "kernel", "result", "made", "until"):
        table.add_column(column, overflow="fold")
    for known in found:
        result = f"{known.verdict} on {known.device}" if known.device else "-"
        until = known.expires[:16] if known.expires else "revoked"
        table.add_row(known.name[:12], known.test, known.kernel, result, known.created[:16], until)
    console.print(table)
    return 0
