"""`imported.json`: tests of other suites beside those that were carved with the model (docs/suite-format.md).

They are validated, shared and shown as all others; the model itself, and with it the offload, does not know them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.files import write_json
from tapml.graph import Graph
from tapml.suite.formats import format_version, read_json
from tapml.suite.tests import CarvedTest

FORMAT = "tapml.imported/1"
FILE = "imported.json"

_writing = threading.Lock()


@dataclass(frozen=True)
class Imported:
    """What was imported: a graph of unconnected nodes, their tests, and where each test came from."""

    graph: Graph = field(default_factory=lambda: Graph({}, [], (), ()))
    tests: Sequence[CarvedTest] = ()
    sources: Sequence[Mapping[str, Any]] = ()

    def joined(self, model: Graph) -> Graph:
        """The model's graph with the imported nodes beside it."""
        if not self.tests:
            return model
        values = {**model.values, **self.graph.values}
        return Graph(values, [*model.nodes, *self.graph.nodes], model.inputs, model.outputs)


def read_imported(folder: Path) -> Imported:
    """Raises InputError for a damaged file or one of a newer tapml."""
    path = folder / FILE
    if not path.is_file():
        return Imported()
    found = read_json(path)
    format_version(path, found.get("format") if isinstance(found, dict) else None, FORMAT, "a list of imported tests")
    try:
        graph = Graph.from_json(found["graph"])
        tests = [CarvedTest.from_json(test) for test in found["tests"]]
        return Imported(graph, tests, list(found["sources"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not readable: {error!r}; remove it and import the tests again") from error


def add_imported(folder: Path, graph: Graph, test: CarvedTest, source: Mapping[str, Any]) -> None:
    """Add one test with its node; its kernel and its tensors must lie in the suite already."""
    with _writing:
        known = read_imported(folder)
        values = {**known.graph.values, **graph.values}
        joined = Graph(values, [*known.graph.nodes, *graph.nodes], (), ())
        joined.check()
        document = {
            "format": FORMAT,
            "graph": joined.to_json(),
            "tests": [found.to_json() for found in (*known.tests, test)],
            "sources": [*known.sources, dict(source)],
        }
        write_json(folder / FILE, document)
