"""`tests.json`: carved tests, read from a document that may be hostile and held against the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field

from tapml.errors import InputError
from tapml.expressions import Sizes
from tapml.formats import REMEDY, validated
from tapml.program import Graph, NodeKind, TensorType
from tapml.protocol.fields import Id, KernelName, Open, Plain, RefDocument, ToleranceDocument
from tapml.suite.tensors import TensorRef
from tapml.suite.tests import CarvedTest, Tolerance


class TestDocument(Plain):
    """One recorded call."""

    id: Id
    node: Id
    kernel: KernelName
    step: Annotated[int, Field(ge=0, le=2**31)]
    inputs: list[RefDocument]
    outputs: list[RefDocument]
    tolerances: list[ToleranceDocument]
    sizes: NotRequired[Sizes]


class TestsDocument(Open):
    """All of a suite."""

    tests: list[TestDocument]


def read_tests(where: Path | str, found: Any, graphs: Sequence[Graph]) -> list[CarvedTest]:
    """The tests of a model; `graphs`: of its steps.

    Raises InputError naming `where`, and the field or the test that is wrong.
    """
    tests = carved_tests(validated(where, TestsDocument, found, REMEDY).tests)
    check_tests(where, tests, graphs)
    return tests


def carved_tests(documents: Iterable[TestDocument]) -> list[CarvedTest]:
    """Made of what was checked by type."""
    # One step's outputs are the next one's inputs.
    known: dict[str, TensorRef] = {}

    def ref(found: RefDocument) -> TensorRef:
        made = known.get(found["digest"])
        if made is None or made.dtype != found["dtype"] or list(made.shape) != found["shape"]:
            made = known[found["digest"]] = TensorRef.from_json(found)
        return made

    def tolerance(found: ToleranceDocument) -> Tolerance:
        bound, ties = found.get("bound"), found.get("ties")
        return Tolerance(
            found["absolute"],
            found["relative"],
            tuple(found["reasons"]),
            ref(bound) if bound else None,
            ref(ties) if ties else None,
        )

    return [
        CarvedTest(
            test["id"],
            test["node"],
            test["kernel"],
            test["step"],
            tuple(map(ref, test["inputs"])),
            tuple(map(ref, test["outputs"])),
            tuple(map(tolerance, test["tolerances"])),
            test.get("sizes", {}),
        )
        for test in documents
    ]


def check_tests(where: Path | str, tests: Sequence[CarvedTest], graphs: Sequence[Graph]) -> None:
    """Raise InputError unless each test is a call of its node in its step's graph, and no id stands twice. With one
    graph it is that of all steps."""
    check_ids(where, tests)
    nodes = {graph: {node.id: node for node in graph.nodes if node.kind is NodeKind.KERNEL} for graph in {*graphs}}
    for test in tests:
        wrong = None
        graph = graphs[0] if len(graphs) == 1 else graphs[test.step] if test.step < len(graphs) else None
        node = None if graph is None else nodes[graph].get(test.node)
        if graph is None:
            wrong = f"there is no step {test.step}"
        elif node is None or node.kernel != test.kernel:
            wrong = f"the graph has no node {test.node} that calls {test.kernel}"
        else:
            wrong = (
                _differs("inputs", test.inputs, node.inputs, graph)
                or _differs("outputs", test.outputs, node.outputs, graph)
                or _wrong_tolerances(test)
            )
        if wrong is not None:
            raise InputError(f"{where}: test {test.id}: {wrong}{REMEDY}")


def check_ids(where: Path | str, tests: Iterable[CarvedTest]) -> None:
    """Raise InputError where the id of a test stands twice."""
    known: set[str] = set()
    for test in tests:
        if test.id in known:
            raise InputError(f"{where}: test {test.id}: its id stands twice{REMEDY}")
        known.add(test.id)


def _differs(field: str, refs: Sequence[TensorRef], values: Sequence[str], graph: Graph) -> str | None:
    if len(refs) != len(values):
        return f"{field}: {len(refs)} tensors, and its node has {len(values)}"
    for number, (ref, value) in enumerate(zip(refs, values, strict=True)):
        wanted = graph.values[value].type
        if ref.type != wanted:
            return f"{field}[{number}]: {ref.type}, and its value {value} is {wanted}"
    return None


def _wrong_tolerances(test: CarvedTest) -> str | None:
    if len(test.tolerances) != len(test.outputs):
        return f"tolerances: {len(test.tolerances)} for {len(test.outputs)} outputs"
    for number, (tolerance, output) in enumerate(zip(test.tolerances, test.outputs, strict=True)):
        if wrong := wrong_tolerance(tolerance, output):
            return f"tolerances[{number}].{wrong}"
    return None


def wrong_tolerance(tolerance: Tolerance, output: TensorRef) -> str | None:
    """What is wrong with the tensors of an output's tolerance, by their dtypes and shapes."""
    bound, ties = tolerance.bound, tolerance.ties
    if bound is not None and bound.type != TensorType(output.shape, "float32"):
        return f"bound: {bound.type}, and its output's shape wants float32{list(output.shape)}"
    if ties is not None and ties.type != TensorType((*ties.shape[:1], 3), "int32"):
        return f"ties: {ties.type}, which is not int32[n, 3]"
    if ties is not None and "int" not in output.dtype:
        return f"ties: its output is {output.dtype}, and ties are for integers"
    return None
