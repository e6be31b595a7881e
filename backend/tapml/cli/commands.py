"""What each command does, with the library's functions."""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from tapml.cache import cache_dir
from tapml.cli.arguments import database_url, named_inputs
from tapml.cli.decoder_arguments import check_files, check_model, decoder_options
from tapml.cli.external import external
from tapml.cli.memory_command import show_memory_plan
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.runs import run, specification
from tapml.cli.suites import means_compiled, opened
from tapml.compiled.files import CompiledFiles
from tapml.compilers.tvm.variants import BASE, parse_specs
from tapml.compilers.tvm.wasm.runtime import runtime_objects
from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.files import check_file, write_json_output
from tapml.reports.compiled import model_document, show_kernels, show_model
from tapml.reports.fusion import fusion
from tapml.reports.moves import moves_of
from tapml.reports.progress import ProgressReport
from tapml.reports.terminal import show_offload, show_suite, show_validation
from tapml.results.base import Header
from tapml.results.validation import ValidationDocument
from tapml.results.verdicts import FAILING
from tapml.server import Server
from tapml.server.pairing import url_elsewhere
from tapml.server.registry import detail
from tapml.suite import Suite
from tapml.suite.writer import check_place
from tapml.text import counted, listed, one_line
from tapml.validation.operatorwise import passed
from tapml.validation.results import succeeded

CheckSizes: TypeAlias = Callable[[Sequence[Symbol]], object]


def carve(options: argparse.Namespace, console: Console, progress: Console) -> int:
    check_writable(options.json)
    try:
        return _carve_and_show(options, console, progress)
    except InputError as error:
        document = {"format": "tapml.refusal/1", "error": str(error), **error.refusal()}
        write_json_output(options.json, document)
        raise


def _carve_and_show(options: argparse.Namespace, console: Console, progress: Console) -> int:
    with ProgressReport(progress) as report:
        suite = carved(options, options.output, report, name=options.name, overwrite=options.force)
    outputs = Outputs(progress)
    asked = options.compiler or ("auto" if options.tuned else "tvm")
    outputs.report(options.json, _shown(suite), lambda: show_suite(console, suite, compiler=asked))
    return outputs.exit_code(1 if suite.doubts else 0)


def carved(
    options: argparse.Namespace,
    output: Path,
    report: ProgressReport,
    *,
    name: str | None,
    overwrite: bool = False,
    check: CheckSizes = lambda symbols: None,
) -> Suite:
    """A suite, by the options of `tapml carve`. `check` may raise, by the sizes that differ, before it is carved."""
    check_model(options)
    check_files(options)
    return carved_by(
        options.model or str(options.hf),
        partial(_import, options),
        output,
        report,
        reference=options.reference,
        variants=options.variants.split(","),
        compiler=options.compiler,
        tuned=options.tuned,
        name=name,
        overwrite=overwrite,
        keep_disagreeing=options.keep_disagreeing,
        no_oracle=options.no_oracle,
        external_paths=options.external,
        check=check,
    )


def imported_by(options: argparse.Namespace, report: ProgressReport) -> Any:
    """The model that the options name, with its inputs and the functions of `--external`."""
    functions, _ = external(options.external)
    return _import(options, progress=report.line, functions=functions)


def _import(options: argparse.Namespace, **given: Any) -> Any:
    """The model that the options name, with its inputs."""
    # Late: TVM takes seconds to load, and most commands go without.
    from tapml.importing import import_decoder, import_model

    if options.hf is not None:
        return import_decoder(options.hf, **decoder_options(options), **given)
    return import_model(
        options.model,
        texts=options.text,
        one_by_one=options.one_by_one,
        input_files=options.inputs,
        input_arrays=named_inputs(options.input),
        random_inputs=options.random_inputs,
        seed=options.seed,
        loop_limit=options.loop_limit,
        quantise=options.quantise,
        activations=options.activations,
        **given,
    )


def carved_by(
    model: str,
    importer: Callable[..., Any],
    output: Path,
    report: ProgressReport,
    *,
    reference: str = "cpu",
    variants: Sequence[str] = (BASE.name,),
    compiler: str | None = None,
    tuned: Sequence[Path] = (),
    name: str | None = None,
    overwrite: bool = False,
    keep_disagreeing: bool = False,
    no_oracle: bool = False,
    external_paths: Sequence[Path] = (),
    check: CheckSizes = lambda symbols: None,
) -> Suite:
    """A suite of what `importer` gives, to which `functions` and `progress` are given. `model`: what it is called in
    sentences."""
    # What is wrong with these is an error before the model is loaded, and before what loads it.
    parse_specs(variants)
    check_place(output, overwrite)
    for path in tuned:
        check_file(path, " (of --tuned)")
    functions, folders = external(external_paths)
    # Late, as above.
    from tapml.carving.carve import carve as carve_model
    from tapml.carving.judge import require_oracle
    from tapml.compilers.choose import compilers_of
    from tapml.compilers.external.by_hand import ByHand

    by_hand = ByHand(*folders)
    compilers = compilers_of(compiler, tuned)
    report.update("importing", 0, 1)
    imported = importer(progress=report.line, functions=functions)
    report.update("importing", 1, 1)
    check(imported.symbols)
    if not no_oracle:
        try:
            require_oracle(imported)
        except InputError as error:
            raise InputError(f"{model}: {error}; mend that, or carve without one: --no-oracle") from None
    return carve_model(
        imported,
        output,
        name=name or output.name.removesuffix(".suite"),
        reference=reference,
        overwrite=overwrite,
        keep_disagreeing=keep_disagreeing,
        variants=variants,
        compilers=(by_hand, *compilers),
        progress=lambda phase, done, total: report.update(phase, done, total),
    )


def validate(options: argparse.Namespace, console: Console, progress: Console) -> int:
    check_writable(options.json)
    document = run(specification("validation", options), opened(options.suite, progress), options, progress)
    outputs = Outputs(progress)

    def show_it() -> None:
        show_validation(console, document)
        _suggest_sharing(options.suite, document, progress)

    outputs.report(options.json, document, show_it)
    return outputs.exit_code(_exit_code(document, good=passed(document)))


def _suggest_sharing(suite: Path, document: ValidationDocument, progress: Console) -> None:
    first = next((test["id"] for test in document["tests"] if test["verdict"] in FAILING), None)
    if first is not None:
        text = f"show it to others: `tapml export {suite} {first}` (one HTML file) or `tapml share {suite} {first}`"
        progress.print(text)


def offload(options: argparse.Namespace, console: Console, progress: Console) -> int:
    check_writable(options.json)
    document = run(specification("offload", options), opened(options.suite, progress), options, progress)
    outputs = Outputs(progress)
    outputs.report(options.json, document, lambda: show_offload(console, document))
    return outputs.exit_code(_exit_code(document, good=succeeded(document)))


def _exit_code(document: Header, *, good: bool) -> int:
    return 130 if document["interrupted"] else 0 if good else 1


def show(options: argparse.Namespace, console: Console, progress: Console) -> int:
    if options.memory:
        return show_memory_plan(options, console, progress)
    if options.html is not None:
        raise InputError("--html draws the memory plan: give --memory with it")
    if means_compiled(options.suite):
        return _show_compiled(options, console, progress)
    suite = Suite(options.suite)
    outputs = Outputs(progress)
    outputs.report(options.json, _shown(suite), lambda: show_suite(console, suite, tests=options.tests))
    return outputs.exit_code(0)


def _show_compiled(options: argparse.Namespace, console: Console, progress: Console) -> int:
    files = CompiledFiles(options.suite)
    outputs = Outputs(progress)
    document = model_document(files.proven(), options.suite, files.nbytes)
    files.check()

    def show_it() -> None:
        show_model(console, files.model, options.suite, files.nbytes)
        show_kernels(console, files.model)

    outputs.report(options.json, document, show_it)
    return outputs.exit_code(0)


def _shown(suite: Suite) -> dict[str, Any]:
    """tapml.show/1."""
    moves = {name: found.to_json() for name, found in moves_of(suite).items()}
    found = {"fusion": fusion(suite), "moves": moves, "manifest": suite.manifest}
    return {"format": "tapml.show/1", **detail(suite.name, suite), **found}


def serve(options: argparse.Namespace, console: Console, progress: Console) -> int:
    for path in options.suites:
        opened(path, progress)
    certificate = tuple(options.certificate) if options.certificate else None
    with Server(
        options.suites,
        host=options.host,
        port=options.port,
        certificate=certificate,
        database_url=database_url(options),
        models=options.models,
        pages=options.pages,
        origins=options.allow_origin,
    ) as server:
        keep_serving(server, console)
    return 0


NOTHING_SERVED = (
    "it has no suite to show: other commands can run on its devices (--device), and imported tests can be opened; "
    "for a suite, `tapml serve SUITE`"
)


def keep_serving(server: Server, console: Console, page: str = "") -> None:
    """Print the addresses, that of `page` among the pages, then wait for Ctrl-C or SIGTERM."""
    token = server.state.security.token
    behind = f"?token={token}" if token else ""
    state = server.state
    served = [counted(len(state.suites.ids()), "suite")] if state.suites.ids() or not state.models else []
    if state.models:
        served.append(counted(state.models.count(), "model"))
    lines = [
        f"tapml serves {' and '.join(served)} at {server.url}/{behind}",
        *([] if state.suites.ids() or state.models else [NOTHING_SERVED]),
        *([f"web pages are at {server.url}/pages/{page}{behind}"] if state.pages else []),
        f"a browser becomes a device at {state.runner_url}",
        *([f"other machines reach it at {elsewhere}/{behind}"] if (elsewhere := url_elsewhere(server.url)) else []),
    ]
    for line in lines:
        console.print(line)
    if token and server.url.startswith("http:"):
        console.print("other machines' browsers offer WebGPU to https pages only: see --certificate")
    console.print("Ctrl-C ends it")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with contextlib.suppress(KeyboardInterrupt):
        # Last: reading many large models takes its time.
        if state.models and (damaged := state.models.damaged()):
            text = f"{counted(len(damaged), 'model')} cannot be loaded: {listed(damaged, 8)}; the page says why"
            console.print(one_line(text, 5000))
        while not stop.wait(1):
            pass


def setup(options: argparse.Namespace, console: Console, progress: Console) -> int:
    with ProgressReport(progress) as report:
        folder = runtime_objects(cache_dir(), report.line)[0].parent
    console.print(f"TVM's wasm runtime is ready: {folder}")
    return 0


def free_port(port: int) -> int:
    """`port`, or 0 (any) where somebody uses it: a demo must not fail at its last line."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port
