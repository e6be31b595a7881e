"""`tapml locate` and `tapml reduce`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from tapml.ci.document import write_report
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.runs import run, specification
from tapml.cli.suites import opened
from tapml.errors import InputError
from tapml.locating.locate import clean
from tapml.locating.reduced_text import reduce_lines
from tapml.reports.html import html, report_template
from tapml.reports.locate import show_locate
from tapml.results.locate import LocateDocument, Suspect
from tapml.sharing import check_export, export
from tapml.sharing.imports import new_suite
from tapml.sharing.repro import Repro


def locate(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 0 where nothing is suspected, 1 otherwise."""
    job = specification("locate", options)
    if options.html is not None:
        report_template()  # not built: said now rather than after the run
    check_writable(options.html)
    check_writable(options.json)
    document = run(job, opened(options.suite, progress), options, progress)
    outputs = Outputs(progress)

    def show_it() -> None:
        show_locate(console, document)
        _suggest(options.suite, job.devices[0], document, progress)

    outputs.report(options.json, document, show_it)
    if options.html is not None:
        outputs.write(lambda: write_report(options.html, html(document)))
    return outputs.exit_code(130 if document["interrupted"] else 0 if clean(document) else 1)


def _suggest(suite: Path, device: str, document: LocateDocument, progress: Console) -> None:
    # What shows at later positions only passes its carved tests: there is none to be made smaller.
    known = [found for found in document["kernels"] if not _later_only(found)]
    first = next((found["test"] for found in known if found["verdict"] == "fail"), None)
    if first is not None:
        on = "" if device == "chromium" else f" --device {device}"
        text = f"make its clearest test smaller: `tapml reduce {suite} {first}{on} -o small.html`"
        progress.print(text)


def _later_only(found: Suspect) -> bool:
    return any(one["details"].get("carved_pass") for one in found["findings"])


_FORMS = {".html": "html", ".safetensors": "safetensors", ".py": "python", ".md": "markdown", ".suite": "suite"}


def reduce(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 0: it was reduced. One that passes is a wrong input."""
    form = _form(options.output, overwrite=options.force)
    check_writable(options.json)
    reduced: list[Repro] = []
    offer = reduced.append if form is not None else None
    document = run(specification("reduce", options), opened(options.suite, progress), options, progress, offer=offer)
    outputs = Outputs(progress)

    def show_it() -> None:
        for line in reduce_lines(document):
            console.print(line)

    outputs.report(options.json, document, show_it)
    if form is not None:
        outputs.write(lambda: _write_reduced(reduced[0], form, options, progress))
    return outputs.exit_code(0)


def _form(path: Path | None, *, overwrite: bool) -> str | None:
    """By the file's name, checked before the work is done."""
    if path is None:
        return None
    form = _FORMS.get(path.suffix)
    if form is None:
        raise InputError(f"-o {path}: give a name that ends with {', '.join(_FORMS)}")
    if form != "suite":
        check_export(form, path, overwrite=overwrite)
    elif path.exists() and not overwrite:
        raise InputError(f"{path} exists: choose another name, or replace it with --force")
    return form


def _write_reduced(repro: Repro, form: str, options: argparse.Namespace, progress: Console) -> None:
    path: Path = options.output
    if form == "suite":
        new_suite(repro, path, overwrite=options.force)
        written = [path]
    else:
        written = export(repro, form, path, overwrite=True)
    for found in written:
        progress.print(f"wrote {found}")
