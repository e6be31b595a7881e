"""`imported.json`: tests of other suites beside those that were carved with the model (docs/suite-format.md).

They are validated, shared and shown as all others; the model itself, and with it the offload, does not know them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from tapml.errors import InputError
from tapml.files import json_bytes
from tapml.folder import FileMissing, Folder
from tapml.formats import format_version, read_json, validated
from tapml.program import Graph
from tapml.protocol.fields import Id, Line, Open
from tapml.suite.program_document import read_main
from tapml.suite.tests import CarvedTest
from tapml.suite.tests_document import TestDocument, carved_tests, check_tests

FORMAT = "tapml.imported/1"
FILE = "imported.json"

_writing = threading.Lock()


@dataclass(frozen=True)
class Imported:
    """What was imported: a graph of unconnected nodes, their tests, and where each test came from.

    `doubts`: by test, why the reference run that it was carved from is not to be believed.
    """

    graph: Graph = field(default_factory=lambda: Graph({}, [], (), ()))
    tests: Sequence[CarvedTest] = ()
    sources: Sequence[Mapping[str, Any]] = ()
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def joined(self, model: Graph) -> Graph:
        """The model's graph with the imported nodes beside it."""
        if not self.tests:
            return model
        values = {**model.values, **self.graph.values}
        joined = Graph(values, [*model.nodes, *self.graph.nodes], model.inputs, model.outputs)
        if len(values) != len(model.values) + len(self.graph.values):
            raise InputError(f"{FILE} has values of the model's graph: remove it and import the tests again")
        joined.check()
        return joined


class ImportedDocument(Open):
    """All that was imported; `sources` say where each test came from."""

    format: Line
    graph: dict[str, Any]
    tests: list[TestDocument]
    sources: list[dict[str, Any]]
    doubts: dict[Id, list[Line]] = Field(default_factory=dict)


def read_imported(folder: Folder) -> Imported:
    """Raises InputError for a damaged file or one of a newer tapml."""
    try:
        found = read_json(folder, FILE)
    except FileMissing:
        return Imported()
    path = folder.path / FILE
    format_version(path, found, FORMAT, "a list of imported tests")
    document = validated(path, ImportedDocument, found, "; remove it and import the tests again")
    graph = read_main(path, document.graph).at({})
    tests = carved_tests(document.tests)
    check_tests(path, tests, [graph])
    return Imported(graph, tests, document.sources, document.doubts)


Import = tuple[Graph, CarvedTest, Mapping[str, Any], Sequence[str]]
"""A test with the graph of its node, where it came from, and the doubts about it."""


def add_imported(folder: Folder, imports: Sequence[Import]) -> None:
    """Add tests with their nodes; their kernels and tensors must lie in the suite already. Raises OSError."""
    with _writing:
        known = read_imported(folder)
        values = dict(known.graph.values)
        for graph, *_ in imports:
            values |= graph.values
        joined = Graph(values, [*known.graph.nodes, *(node for graph, *_ in imports for node in graph.nodes)], (), ())
        joined.check()
        document = {
            "format": FORMAT,
            "graph": joined.to_json(),
            "tests": [found.to_json() for found in (*known.tests, *(test for _, test, *_ in imports))],
            "sources": [*known.sources, *(dict(source) for _, _, source, _ in imports)],
            "doubts": {**known.doubts, **{test.id: list(doubts) for _, test, _, doubts in imports if doubts}},
        }
        folder.write(FILE, json_bytes(document))
