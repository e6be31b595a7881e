"""`suite.json`: where a suite came from, read from a document that may be hostile (docs/suite-format.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tapml.errors import InputError
from tapml.expressions import ExpressionError, Sizes
from tapml.formats import REMEDY, validated
from tapml.program import Graph, TensorType
from tapml.program.generation import GenerationDocument, check_generation
from tapml.program.program import Program
from tapml.protocol.fields import Created, Id, Line, Open, RefDocument
from tapml.results.base import Doubts
from tapml.suite.program_document import graph_at, joined_at
from tapml.suite.tensors import TensorRef


class ModelDocument(Open):
    """The model: `kind` is "minilm", "onnx", "exported_program" or "imported"."""

    kind: Line
    source: Line
    sha256: Line
    title: Line | None = None
    notes: list[Line] = Field(default_factory=list)


class ReferenceDocument(Open):
    """What computed the expected outputs."""

    platform: Line
    device: Line


class GeneratorDocument(Open):
    """What generated the kernels."""

    name: Line = "tvm"
    version: Line


class UnfusedDocument(Open):
    """A call's operators, each by itself, and the bytes that they read and write."""

    operators: Annotated[int, Field(ge=0)]
    bytes: Annotated[int, Field(ge=0)]


class StepDocument(Open):
    """One input that was given to the model, and what it made of it."""

    description: Line
    synthetic: bool
    function: Id | None = None
    """Of the program; null where it has one, or `main` is meant."""
    sizes: Sizes = Field(default_factory=dict)
    """Of the function's symbols."""
    unfused: UnfusedDocument | None = None
    inputs: dict[Line, RefDocument]
    outputs: list[RefDocument]


class HeldDocument(Open):
    """How many operator calls were held against the oracle's own values, each or a few together, of all."""

    held: Annotated[int, Field(ge=0)]
    of: Annotated[int, Field(ge=0)]


class OracleDocument(Open):
    """An independent result of the same input; null for what was no number."""

    name: Line
    cosine: float | None
    max_abs_error: float | None
    agrees: bool
    operators: HeldDocument | None = None


class ModelToleranceDocument(Open):
    """What the whole model's output may differ by: cosine at least, error at most."""

    cosine: float
    max_abs_error: Annotated[float, Field(ge=0)]
    reasons: list[Line]


class Manifest(Open):
    """A suite's facts and references."""

    format: Line
    name: Line
    created: Created
    model: ModelDocument
    synthetic: bool
    reference: ReferenceDocument
    generator: GeneratorDocument
    parameters: dict[Id, RefDocument]
    arguments: list[Id]
    outputs: list[Line] = Field(default_factory=list)
    """The model's own names of its outputs, those of all functions one after the other; none in suites of former
    versions."""
    limits: dict[Line, Line] = Field(default_factory=dict)
    """Outputs (int32 [1]) that are not 0 where a call asks for more than the model can do, with what is wrong then."""
    generation: GenerationDocument | None = None
    """Of a language model."""
    steps: list[StepDocument]
    oracle: OracleDocument | None
    oracle_missing: Line | None = None
    doubts: Doubts
    model_tolerance: ModelToleranceDocument | None = None
    seconds: dict[Line, float] = Field(default_factory=dict)


def read_manifest(where: Path | str, found: Any, program: Program) -> tuple[dict[str, TensorRef], list[Graph], Graph]:
    """Check a manifest by type and against the model's program; gives its parameters by value id, the graph of each
    step, and the calls of all functions at the sizes of the first steps. Without a step that is the only graph.

    Raises InputError naming `where` and the field that is wrong.
    """
    manifest = validated(where, Manifest, found, REMEDY)
    graphs = [
        graph_at(f"{where}: steps[{number}]", program, step.sizes, step.function)
        for number, step in enumerate(manifest.steps)
    ]
    graph = joined_at(f"{where}: steps", program, graphs)
    parameters = {name: TensorRef.from_json(ref) for name, ref in manifest.parameters.items()}
    for name, ref in parameters.items():
        _check(f"{where}: parameters.{name}", ref.type, name, graph)
    for number, name in enumerate(manifest.arguments):
        if name not in graph.values:
            raise InputError(f"{where}: arguments[{number}]: the graph has no value {name}{REMEDY}")
    for number, (step, of_step) in enumerate(zip(manifest.steps, graphs, strict=True)):
        for field, refs, values in (
            ("inputs", list(step.inputs.values()), of_step.inputs),
            ("outputs", step.outputs, of_step.outputs),
        ):
            place = f"{where}: steps[{number}].{field}"
            if len(refs) != len(values):
                raise InputError(f"{place}: {len(refs)} tensors, and the graph has {len(values)} {field}{REMEDY}")
            for given, value in zip(refs, values, strict=True):
                _check(place, TensorRef.from_json(given).type, value, of_step)
    _check_states(where, manifest, graphs, program)
    _check_generation(where, manifest, program)
    return parameters, graphs or [graph], graph


def _check_states(where: Path | str, manifest: Manifest, graphs: Sequence[Graph], program: Program) -> None:
    """Each step begins with the states that the former left, the first with the initial ones."""
    left = {state.name: state.initial for state in program.states}
    for number, (step, graph) in enumerate(zip(manifest.steps, graphs, strict=True)):
        begins = graph.begun(left)
        for value, given in zip(graph.inputs, step.inputs.values(), strict=True):
            if begins.get(value, given["digest"]) not in (given["digest"], None):
                found = "the initial one" if number == 0 else f"what steps[{number - 1}] left"
                state = graph.values[value].name
                raise InputError(f"{where}: steps[{number}].inputs: state {state} is not {found}{REMEDY}")
        left |= {name: ref["digest"] for name, ref in graph.left(step.outputs).items()}


def _check_generation(where: Path | str, manifest: Manifest, program: Program) -> None:
    """Functions are called by the model's own names of inputs, and of outputs where the manifest has these."""
    if manifest.generation is None:
        return
    types = {}
    names = iter(manifest.outputs)
    for name, function in program.functions.items():
        inputs = [(function.values[value].name or value, function.values[value].type) for value in function.inputs]
        outputs = [(said, function.values[value].type) for value, said in zip(function.outputs, names, strict=False)]
        types[name] = (dict(inputs), dict(outputs))
    try:
        check_generation(manifest.generation, types)
    except ExpressionError as error:
        raise InputError(f"{where}: {error}{REMEDY}") from None


def _check(where: str, found: TensorType, value: str, graph: Graph) -> None:
    wanted = graph.values.get(value)
    if wanted is None:
        raise InputError(f"{where}: the graph has no value {value}{REMEDY}")
    if wanted.type != found:
        raise InputError(f"{where}: {found}, and its value {value} is {wanted.type}{REMEDY}")
