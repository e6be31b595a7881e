"""`tapml locate` and `tapml reduce`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tapml.cli.outputs import Outputs
from tapml.cli.runs import JobEvents, acquire, interruptible, run, served, specification
from tapml.errors import InputError
from tapml.files import cannot_write, write_text
from tapml.locating.locate import clean
from tapml.reports.locate import show_locate
from tapml.reports.locate_html import locate_page
from tapml.reports.progress import ProgressReport
from tapml.reports.reduce import reduce_lines, show_reduce
from tapml.results import LocateDocument
from tapml.sharing import check_export, export
from tapml.sharing.imports import new_suite
from tapml.sharing.repro import Repro
from tapml.suite import Suite
from tapml.validation.events import Cancelled
from tapml.validation.operatorwise import require_devices


def locate(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 0 where nothing is suspected, 1 otherwise."""
    job = specification("locate", options)
    _check_output(options.html)
    _check_output(options.json)
    document = run(job, Suite(options.suite), options, progress)
    outputs = Outputs(progress)

    def show_it() -> None:
        show_locate(console, document)
        _suggest(options.suite, job.devices[0], document, progress)

    outputs.report(options.json, document, show_it)
    if options.html is not None:
        outputs.write(lambda: _write_page(options.html, document))
    return outputs.exit_code(130 if document["interrupted"] else 0 if clean(document) else 1)


def _one(devices: Sequence[str] | None) -> str:
    """The device that is meant. Raises InputError for several."""
    if devices and len(devices) > 1:
        raise InputError(f"give one --device at a time, not {len(devices)}: each has its own report")
    return devices[0] if devices else "chromium"


def _check_output(path: Path | None) -> None:
    """Before the work is done. Raises InputError."""
    if path is None or str(path) == "-":
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder: choose another name")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}: make it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: the folder {path.parent} is read-only")


def _write_page(path: Path, document: LocateDocument) -> None:
    try:
        write_text(path, locate_page(document))
    except OSError as error:
        raise InputError(cannot_write(path, error)) from error


def _suggest(suite: Path, device: str, document: LocateDocument, progress: Console) -> None:
    if device.startswith(("http://", "https://")):
        return  # the test is to fail again where it failed, and `reduce` starts its device itself
    first = next((found["test"] for found in document["kernels"] if found["verdict"] == "fail"), None)
    if first is not None:
        on = "" if device == "chromium" else f" --device {device}"
        text = f"make its clearest test smaller: `tapml reduce {suite} {first}{on} -o small.html`"
        progress.print(text, markup=False, highlight=False)


_FORMS = {".html": "html", ".safetensors": "safetensors", ".py": "python", ".md": "markdown", ".suite": "suite"}


def reduce(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 0: it was reduced. One that passes is a wrong input."""
    suite = Suite(options.suite)
    suite.test(options.test)  # an unknown one is an error before any browser starts
    suite.require_model()
    form = _form(options.output, overwrite=options.force)
    _check_output(options.json)
    from tapml.locating.reduce import Reduce  # late: TVM takes seconds to load
    from tapml.locating.reduced_repro import reduced_repro

    with ProgressReport(progress) as report, interruptible() as cancel:
        show = JobEvents(report)
        with served(None, options, [_one(options.device)]) as server:
            device = acquire(server, [_one(options.device)], report)[0].connected()
            require_devices([device])
            blobs, hang = server.state.blobs, options.hang_seconds
            reduction = Reduce(suite, options.test, device, blobs, emit=show, cancel=cancel, hang_seconds=hang)
            try:
                document = reduction.run()
            except Cancelled:
                raise KeyboardInterrupt from None
    outputs = Outputs(progress)
    outputs.report(options.json, document, lambda: show_reduce(console, document))
    if form is not None and reduction.reduced is not None:
        told = "\n".join(reduce_lines(document))
        repro = reduced_repro(suite, options.test, reduction.reduced, document, told)
        outputs.write(lambda: _write_reduced(repro, form, options, progress))
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
        progress.print(f"wrote {found}", markup=False, highlight=False)
