"""`tapml demo`: all of it on a model that comes with tapml or a package."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.browsers import check_startable
from tapml.cli.arguments import database_url
from tapml.cli.commands import carved_by, free_port, keep_serving
from tapml.cli.demo_validation import validate_and_show
from tapml.cli.runs import run
from tapml.errors import InputError
from tapml.jobs import JobSpecification
from tapml.reports.progress import ProgressReport
from tapml.reports.terminal import oracle_text, show_offload, show_suite
from tapml.results.offload import OffloadDocument
from tapml.results.validation import ValidationDocument
from tapml.server import Server
from tapml.suite import Suite
from tapml.text import listed
from tapml.validation.operatorwise import passed
from tapml.validation.results import succeeded

MODELS = ("minilm", "tiny")

_MINILM, _TINY = MODELS
_TEXT = "A model is carved into tests, and each operator moves to the browser."


def demo(options: argparse.Namespace, console: Console, progress: Console) -> int:
    check_startable(options.device)
    if options.model == _TINY:
        # Late: it is another demo.
        from tapml.cli.demo_writing import demo_writing

        return demo_writing(options, console, progress)
    return _embedding(options, console, progress)


def _embedding(options: argparse.Namespace, console: Console, progress: Console) -> int:
    started = time.perf_counter()
    texts = options.text or [_TEXT]
    output = options.output or Path("minilm.suite")
    _refuse_to_lose_work(output, texts, progress)
    console.rule("1. carve: run the model on the CPU and record every operator call", align="left")
    with ProgressReport(progress) as report:
        suite = carved_by(_MINILM, partial(_import_minilm, texts), output, report, overwrite=True)
    show_suite(console, suite)
    with Server([suite.path], port=free_port(options.port), database_url=database_url(options)) as server:
        validation = validate_and_show(suite, server, options, console, progress)
        if validation["interrupted"]:
            return 130
        console.rule("3. offload: one operator after the other moves from the CPU to the browser", align="left")
        job = JobSpecification(kind="offload", devices=[options.device])
        offloaded = run(job, suite, options, progress, server)
        show_offload(console, offloaded)
        console.rule("summary", align="left")
        for line in _demo_summary(suite, validation, offloaded, time.perf_counter() - started):
            console.print(line)
        if not options.no_serve and not offloaded["interrupted"]:
            keep_serving(server, console)
    return 0 if passed(validation) and succeeded(offloaded) else 1


def _import_minilm(texts: Sequence[str], **given: Any) -> Any:
    from tapml.importing import import_model

    return import_model(_MINILM, texts=texts, **given)


def _refuse_to_lose_work(path: Path, texts: Sequence[str], progress: Console) -> None:
    """The demo replaces its own suite, but not another, nor one with somebody's work in it."""
    if not (path / "suite.json").is_file():
        return
    suite = Suite(path)
    if edited := suite.edited_kernels:
        raise InputError(f"{path} has edited kernels ({', '.join(edited)}): choose another folder with -o")
    if suite.imported.tests:
        raise InputError(f"{path} has imported tests ({len(suite.imported.tests)}): choose another folder with -o")
    found = [step["description"] for step in suite.manifest["steps"]]
    if suite.manifest["model"]["kind"] != "minilm" or found != [" | ".join(texts)]:
        raise InputError(
            f"{path} is a suite of something else ({suite.manifest['model']['source']}, {listed(found, 2)}): choose "
            "another folder with -o, or remove it"
        )
    progress.print(f"{path}, of an earlier demo, is carved anew")


def _demo_summary(
    suite: Suite, validation: ValidationDocument, offloaded: OffloadDocument, seconds: float
) -> list[str]:
    metric = offloaded["final"]["model_metric"]
    cosine = "-" if metric is None or metric["cosine"] is None else f"{metric['cosine']:.9f}"
    summary = validation["summary"]
    return [
        f"carved     {len(suite.tests)} tests of {len(suite.kernels)} kernels from {suite.manifest['model']['title']}; "
        f"oracle {oracle_text(suite.manifest)}",
        f"validated  {summary['pass']} of {summary['total']} tests pass in {validation['devices'][0]['name']}",
        f"offloaded  {offloaded['summary']['offloaded_nodes']} of {offloaded['summary']['nodes']} operator calls; "
        f"the whole model in the browser gives cosine {cosine} with the CPU's embedding",
        f"took       {seconds:.1f} s; the suite is {suite.path}",
    ]
