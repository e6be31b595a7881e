"""From an imported model to its reference run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tapml.carving.runs import ReferenceRun
from tapml.errors import InputError
from tapml.importing import ImportedModel, Step
from tapml.importing.named import LONGEST
from tapml.lowering.accepts import Accepts
from tapml.lowering.functions import ONE, lower_functions
from tapml.lowering.lower import Lowered, Model
from tapml.platforms.reference import Reference
from tapml.program import Graph, ValueKind
from tapml.program.graph import is_numbered
from tapml.program.program import Function, State, sizes_of
from tapml.text import one_line


@dataclass(frozen=True)
class Prepared:
    """A model lowered, and built for the reference platform.

    `documents` are those of its operators, `graphs` those of its steps, `functions` the
    functions that these are calls of, and `models` what the operators are at their
    sizes.
    """

    lowered: Lowered
    documents: Mapping[str, str]
    graphs: list[Graph]
    functions: list[str]
    models: Mapping[Graph, Model]
    reference: ReferenceRun


def lowered_with_documents(
    model: ImportedModel, accepts: Accepts | None = None, *, fusing: bool = True
) -> tuple[Lowered, dict[str, str]]:
    """With the names of the model's file, and its states. `accepts`: which moves are read in place, by default none.
    `fusing` as of `lower`. Raises InputError for what cannot be carved."""
    count = len(model.input_names)
    beside = {name: (other.module, len(other.input_names)) for name, other in model.beside.items()}
    functions = model.specialized or ONE
    lowered = lower_functions(model.module, count, model.symbols, model.names, functions, beside, accepts, fusing)
    return _named(lowered, model), lowered.documents()


def _named(lowered: Lowered, model: ImportedModel) -> Lowered:
    """Give inputs, parameters and outputs the names of the model's file, and say which of them are states."""
    count = sum(len(function.inputs) for function in lowered.model.functions.values())
    # Lifted constants have no name of the file's.
    parameters = dict(zip(lowered.arguments[count:], (name for name, _ in model.parameters), strict=False))
    functions = {
        name: _named_function(function, model.of_function(name), parameters)
        for name, function in lowered.model.functions.items()
    }
    first = next(iter(functions.values()))
    states = tuple(State(name, first.values[before].type, None) for name, (before, _) in first.states.items())
    program = dataclasses.replace(lowered.model, functions=functions, states=states)
    program.check()
    return dataclasses.replace(lowered, model=program)


def _named_function(function: Function, model: ImportedModel, parameters: Mapping[str, str]) -> Function:
    values = dict(function.values)
    own = ((value, name) for value, name in parameters.items() if value in values)
    for value, name in (*zip(function.inputs, model.input_names, strict=True), *own):
        values[value] = dataclasses.replace(values[value], name=name)
    for value, name in zip(function.outputs, model.outputs, strict=False):
        if values[value].kind is ValueKind.INTERMEDIATE and is_numbered(values[value].name):
            values[value] = dataclasses.replace(values[value], name=one_line(name, LONGEST))
    inputs = dict(zip(model.input_names, function.inputs, strict=True))
    carried = {name: (inputs[name], function.outputs[place]) for name, place in model.states.items()}
    return dataclasses.replace(function, values=values, states=carried)


def prepared(model: ImportedModel, lowered: Lowered, documents: Mapping[str, str], platform: str = "cpu") -> Prepared:
    """Raises InputError for operators that the platform cannot compile, ToolchainError where there is no such."""
    calls = [step_call(lowered, model, step) for step in model.steps]
    calls += [(name, {}) for name, other in model.beside.items() for _ in other.steps]
    graphs = [lowered.model.at(sizes, name) for name, sizes in calls]
    models = {graph: lowered.at(sizes, documents, name) for graph, (name, sizes) in zip(graphs, calls, strict=True)}
    built = Reference(*models.values(), platform=platform, functions=model.functions)
    programs = {name: found for of_step in models.values() for name, found in of_step.programs.items()}
    reference = ReferenceRun(lowered, model, programs, built)
    return Prepared(lowered, documents, graphs, [name for name, _ in calls], models, reference)


def step_call(lowered: Lowered, model: ImportedModel, step: Step) -> tuple[str, dict[str, int]]:
    """The function that a step is a call of, that with most sizes fixed of those that take its inputs, and what these
    make of the function's symbols. Raises InputError where none does."""
    refused: InputError | None = None
    functions = [name for name in lowered.model.functions if name not in model.beside]
    for name in sorted(functions, key=lambda name: -len(model.specialized.get(name, ()))):
        function = lowered.model.functions[name]
        shapes = {v: step.inputs[n].shape for v, n in zip(function.inputs, model.input_names, strict=True)}
        try:
            return name, sizes_of(function, shapes)
        except InputError as error:
            refused = error
    assert refused is not None, "a program has a function"
    raise refused
