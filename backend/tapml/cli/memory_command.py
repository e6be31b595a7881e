"""`tapml show --memory`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.building.picture import Picture, of_function, of_graph, of_model
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.suites import means_compiled
from tapml.compiled.files import CompiledFiles
from tapml.files import write_text
from tapml.reports.memory import drawn, show_memory
from tapml.suite import Suite


def show_memory_plan(options: argparse.Namespace, console: Console, progress: Console) -> int:
    check_writable(options.html)
    pictures = _of_model(options.suite) if means_compiled(options.suite) else _of_suite(options.suite)
    outputs = Outputs(progress)
    outputs.report(options.json, _document(pictures), lambda: show_memory(console, pictures))
    if options.html is not None:
        outputs.write(lambda: write_text(options.html, drawn(options.suite.name, pictures)))
        progress.print(f"{options.html} draws it")
    return outputs.exit_code(0)


def _of_model(path: Path) -> list[Picture]:
    files = CompiledFiles(path)
    model = files.proven()
    files.check()
    return [of_model(model, name) for name in model.functions]


def _of_suite(path: Path) -> list[Picture]:
    """Of each function, for all sizes; where these vary, also at those of each step."""
    suite = Suite(path)
    program = suite.program
    kernels = {name: suite.bundle(name) for name in suite.kernels}
    pictures = [of_function(name, found, kernels, program.symbols) for name, found in program.functions.items()]
    if program.symbols:
        names = {graph: name for graph, name in zip(suite.graphs, suite.step_functions, strict=False) if graph.sizes}
        pictures += [of_graph(name, graph, kernels) for graph, name in names.items()]
    return pictures


def _document(pictures: list[Picture]) -> dict[str, Any]:
    """tapml.memory/1."""
    return {
        "format": "tapml.memory/1",
        "plans": [
            {
                "function": found.function,
                "sizes": found.sizes,
                "strategy": found.strategy,
                "arenas": list(found.arenas),
                "naive": found.naive,
                "planned": found.bytes,
                "lower_bound": found.lower_bound,
                "tensors": [
                    {
                        "name": one.name, "made_by": one.made_by, "arena": one.place.arena, "offset": one.place.offset,
                        "bytes": one.place.bytes, "first": one.first, "last": one.last,
                    }
                    for one in found.held
                ],
            }
            for found in pictures
        ],
    }  # fmt: skip
