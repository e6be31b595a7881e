"""`tapml demo --model tiny`: a page that writes, whose kernels are validated, and which is carved as it runs."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.building.build import Built, build
from tapml.cli.arguments import database_url
from tapml.cli.commands import carved_by, free_port, keep_serving
from tapml.cli.demo_validation import validate_and_show
from tapml.errors import InputError
from tapml.importing.hf_digest import CONFIG, model_digest, weight_files
from tapml.models import folder_of
from tapml.reports.progress import ProgressReport
from tapml.reports.terminal import oracle_text, show_suite
from tapml.results.validation import ValidationDocument
from tapml.server import Server
from tapml.server.pages import STATIC
from tapml.suite import Suite
from tapml.text import counted, size
from tapml.validation.operatorwise import passed

PROMPT, STEPS, CAPACITY, CHUNK = "It was a dark and stormy night", 1, 512, 32
"""What the kernels are tested with, and how long a text may become."""

_NAME = "tiny"
_PAGES = STATIC / "examples"
_PAGE = "chat/"


def demo_writing(options: argparse.Namespace, console: Console, progress: Console) -> int:
    started = time.perf_counter()
    if options.text:
        raise InputError("--text is for the sentence encoder: leave it out, the page of --model tiny asks for one")
    if not (_PAGES / _PAGE / "index.html").is_file():
        raise InputError(f"{_PAGES / _PAGE} has no page: run `make setup` in the checkout")
    folder = options.output or Path(f"{_NAME}-demo")
    console.rule("1. carve: run the model on the CPU and record every operator call", align="left")
    suite = _suite(folder / f"{_NAME}.suite", console, progress)
    database = database_url(options)
    with Server(
        [suite.path], port=free_port(options.port), database_url=database, models=folder, pages=_PAGES
    ) as server:
        validation = validate_and_show(suite, server, options, console, progress)
        if validation["interrupted"]:
            return 130
        console.rule("3. build: kernels, weights and a proven host program for the page", align="left")
        with ProgressReport(progress) as report:
            path = folder / f"{_NAME}.tapml"
            built = build(suite, path, name=_NAME, overwrite=True, progress=report.update)
        console.rule("summary", align="left")
        for line in _summary(suite, validation, built, time.perf_counter() - started):
            console.print(line, soft_wrap=True)
        if not options.no_serve:
            console.print(
                'the page writes, token by token; its button "Carve this" records a call and hands it to the suite'
            )
            keep_serving(server, console, _PAGE)
    return 0 if passed(validation) else 1


def _suite(path: Path, console: Console, progress: Console) -> Suite:
    """That of an earlier demo, with what became of it: kernels that somebody edited, calls that a page handed over.
    Raises InputError where something else is there."""
    folder = folder_of(_NAME)
    if (path / "suite.json").is_file():
        suite = Suite(path)
        generation = suite.generation
        same = suite.manifest["model"]["sha256"] == model_digest(folder / CONFIG, weight_files(folder))
        if not same or generation is None or generation.capacity != CAPACITY:
            source = suite.manifest["model"]["source"]
            raise InputError(
                f"{path} is a suite of something else ({source}): choose another folder with -o, or remove it"
            )
        changed = [f"edited: {', '.join(suite.edited_kernels)}"] if suite.edited_kernels else []
        changed += [counted(len(suite.imported.tests), "captured test")] if suite.imported.tests else []
        progress.print(f"{path}, of an earlier demo, is used again{''.join(f'; {what}' for what in changed)}")
        return suite
    with ProgressReport(progress) as report:
        suite = carved_by(_NAME, partial(_import, folder), path, report)
    show_suite(console, suite)
    return suite


def _import(folder: Path, **given: Any) -> Any:
    # Late: PyTorch takes seconds to load.
    from tapml.importing import import_decoder

    return import_decoder(
        folder, prompt=PROMPT, steps=STEPS, capacity=CAPACITY, chunk=CHUNK, draws=True, seed=0, **given
    )


def _summary(suite: Suite, validation: ValidationDocument, built: Built, seconds: float) -> list[str]:
    counts = validation["summary"]
    return [
        f"carved     {len(suite.tests)} tests of {len(suite.kernels)} kernels from {_NAME}, a language model; "
        f"oracle {oracle_text(suite.manifest)}",
        f"validated  {counts['pass']} of {counts['total']} tests pass in {validation['devices'][0]['name']}",
        f"built      {built.path}, {size(built.bytes)}",
        f"took       {seconds:.1f} s; the suite is {suite.path}",
    ]
