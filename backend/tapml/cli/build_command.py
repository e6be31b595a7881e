"""`tapml build`: what a page loads, of a suite or of a model."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from tapml.building.build import Built, build, check_output, narrowed
from tapml.cli.commands import carved
from tapml.cli.decoder_arguments import DECODER, check_model
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.runs import run, specification
from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.files import cannot_write, write_json_output
from tapml.leftovers import temporary_folder
from tapml.models import MINILM
from tapml.reports.compiled import model_document, show_model
from tapml.reports.progress import ProgressReport
from tapml.suite import Suite
from tapml.validation.operatorwise import passed

_TEXTS = ["A quick brown fox jumps over the lazy dog near the river bank.", "Good morning"]
"""Of different lengths: the model is made for all."""

_CARVING = (
    *("text", "one_by_one", "inputs", "input", "random_inputs", "external", "no_oracle", "loop_limit", "quantise"),
    "activations",
    *DECODER,
)
"""Options that are about a model, and not about a suite."""


def build_model(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 1 where the suite's reference is in doubt, and it was built all the same, and where a kernel failed on
    a device that it was to be validated on."""
    check_writable(options.json)
    check_output(options.output, options.force)
    try:
        built, good = _build(options, progress)
    except InputError as error:
        write_json_output(options.json, {"format": "tapml.refusal/1", "error": str(error), **error.refusal()})
        raise
    outputs = Outputs(progress)
    document = model_document(built.model, built.path, built.bytes)
    outputs.report(options.json, document, lambda: show_model(console, built.model, built.path, built.bytes))
    return outputs.exit_code(0 if good and not built.model.provenance.doubts else 1)


def _build(options: argparse.Namespace, progress: Console) -> tuple[Built, bool]:
    """The model, and whether all kernels passed on the devices that were named."""
    good, ranges = True, dict(map(_range, options.range))
    with contextlib.ExitStack() as held:
        with ProgressReport(progress) as report:
            suite = held.enter_context(_suite(options, ranges, report))
        if options.device:
            document = run(specification("validation", options), suite, options, progress)
            if document["interrupted"]:
                raise KeyboardInterrupt
            good = passed(document)
        report = held.enter_context(ProgressReport(progress))
        built = build(
            suite,
            options.output,
            name=options.name,
            ranges=ranges,
            single=options.single,
            overwrite=options.force,
            keep_disagreeing=options.keep_disagreeing,
            progress=report.update,
        )
    return built, good


def _range(text: str) -> tuple[str, tuple[int, int]]:
    found = re.fullmatch(r"(\w+)=(\d{1,15}):(\d{1,15})", text, re.ASCII)
    if found is None:
        raise InputError(f"--range {text}: write it as NAME=LEAST:MOST, such as tokens=1:128")
    least, most = int(found[2]), int(found[3])
    if least > most:
        raise InputError(f"--range {text}: {least} is more than {most}; write the least size first")
    return found[1], (least, most)


@contextlib.contextmanager
def _suite(
    options: argparse.Namespace, ranges: Mapping[str, tuple[int, int]], report: ProgressReport
) -> Iterator[Suite]:
    """The suite that was given, or one that is carved from the model for the length of a `with` block. Ranges that it
    does not take are an error before it is carved or validated."""
    check_model(options)
    if options.model is not None and (path := Path(options.model)).is_dir():
        given = [f"--{name.replace('_', '-')}" for name in _CARVING if getattr(options, name)]
        if given:
            raise InputError(f"{path} is a suite, which was carved already: leave out {given[0]}, or give its model")
        suite = Suite(path)
        narrowed(suite.name, suite.program.symbols, ranges)
        yield suite
        return
    if options.model == MINILM:
        # Of one length alone it would take no other text.
        options.one_by_one = True
        options.text = [*options.text, *_TEXTS]
    with contextlib.ExitStack() as held:
        try:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            folder = held.enter_context(temporary_folder(options.output))
        except OSError as error:
            raise InputError(f"{cannot_write(options.output, error)} with -o") from error
        name = options.name or options.output.name.removesuffix(".tapml")

        def check(symbols: Sequence[Symbol]) -> None:
            narrowed(options.model or str(options.hf), symbols, ranges)

        yield carved(options, folder / f"{name}.suite", report, name=name, check=check)
