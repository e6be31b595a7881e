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
from tapml.program.program import MAIN, Program
from tapml.protocol.fields import Created, Id, Line, Open, RefDocument
from tapml.results.base import Doubts
from tapml.suite.program_document import graph_at
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


class StepDocument(Open):
    """One input that was given to the model, and what it made of it."""

    description: Line
    synthetic: bool
    sizes: Sizes = Field(default_factory=dict)
    """Of the model's symbols."""
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
    """The model's own names of its outputs; none in suites of former versions."""
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


def read_manifest(where: Path | str, found: Any, program: Program) -> tuple[dict[str, TensorRef], list[Graph]]:
    """Check a manifest by type and against the model's program; gives its parameters by value id, and the graph of each
    step. Without a step it is the graph of the least sizes.

    Raises InputError naming `where` and the field that is wrong.
    """
    manifest = validated(where, Manifest, found, REMEDY)
    graphs = [
        graph_at(f"{where}: steps[{number}].sizes", program, step.sizes) for number, step in enumerate(manifest.steps)
    ]
    least = {symbol.name: symbol.minimum for symbol in program.symbols}
    graph = graphs[0] if graphs else graph_at(f"{where}: steps", program, least)
    parameters = {name: TensorRef.from_json(ref) for name, ref in manifest.parameters.items()}
    for name, ref in parameters.items():
        _check(f"{where}: parameters.{name}", ref.type, name, graph)
    for number, name in enumerate(manifest.arguments):
        if name not in graph.values:
            raise InputError(f"{where}: arguments[{number}]: the graph has no value {name}{REMEDY}")
    for number, (step, graph) in enumerate(zip(manifest.steps, graphs, strict=True)):
        for field, refs, values in (
            ("inputs", list(step.inputs.values()), graph.inputs),
            ("outputs", step.outputs, graph.outputs),
        ):
            place = f"{where}: steps[{number}].{field}"
            if len(refs) != len(values):
                raise InputError(f"{place}: {len(refs)} tensors, and the graph has {len(values)} {field}{REMEDY}")
            for given, value in zip(refs, values, strict=True):
                _check(place, TensorRef.from_json(given).type, value, graph)
    _check_states(where, manifest, graphs, program)
    _check_generation(where, manifest, program)
    return parameters, graphs or [graph]


def _check_states(where: Path | str, manifest: Manifest, graphs: Sequence[Graph], program: Program) -> None:
    """Each step begins with the states that the former left, the first with the initial ones."""
    left = {program.main.states[s.name][0]: s.initial for s in program.states if s.name in program.main.states}
    for number, (step, graph) in enumerate(zip(manifest.steps, graphs, strict=True)):
        for value, given in zip(graph.inputs, step.inputs.values(), strict=True):
            if left.get(value, given["digest"]) not in (given["digest"], None):
                found = "the initial one" if number == 0 else f"what steps[{number - 1}] left"
                state = graph.values[value].name
                raise InputError(f"{where}: steps[{number}].inputs: state {state} is not {found}{REMEDY}")
        left = {value: ref["digest"] for value, ref in graph.carried(step.outputs).items()}


def _check_generation(where: Path | str, manifest: Manifest, program: Program) -> None:
    """Functions are called by the model's own names of inputs, and of outputs where the manifest has these."""
    if manifest.generation is None:
        return
    types = {}
    for name, function in program.functions.items():
        inputs = [(function.values[value].name or value, function.values[value].type) for value in function.inputs]
        given = manifest.outputs if name == MAIN else function.outputs
        outputs = [(said, function.values[value].type) for said, value in zip(given, function.outputs, strict=False)]
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
