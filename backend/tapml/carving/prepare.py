"""From an imported model to its reference run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tapml.carving.runs import ReferenceRun
from tapml.importing import ImportedModel, Step
from tapml.importing.named import LONGEST
from tapml.lowering.lower import Lowered, Model, lower
from tapml.platforms.reference import Reference
from tapml.program import Graph, ValueKind
from tapml.program.graph import is_numbered
from tapml.program.program import MAIN, State, sizes_of
from tapml.text import one_line


@dataclass(frozen=True)
class Prepared:
    """A model lowered, and built for the reference platform.

    `documents` are those of its operators, `graphs` those of its steps, and `models` what the operators are at their
    sizes.
    """

    lowered: Lowered
    documents: Mapping[str, str]
    graphs: list[Graph]
    models: Mapping[Graph, Model]
    reference: ReferenceRun


def lowered_with_documents(model: ImportedModel) -> tuple[Lowered, dict[str, str]]:
    """With the names of the model's file, and its states. Raises InputError for what cannot be carved."""
    lowered = lower(model.module, len(model.input_names), model.symbols, model.names)
    return _named(lowered, model), lowered.documents()


def _named(lowered: Lowered, model: ImportedModel) -> Lowered:
    """Give inputs, parameters and outputs the names of the model's file, and say which of them are states."""
    names = [*model.input_names, *(name for name, _ in model.parameters)]
    main = lowered.model.main
    values = dict(main.values)
    for value, name in zip(lowered.arguments, names, strict=False):  # lifted constants have no name of the file's
        values[value] = dataclasses.replace(values[value], name=name)
    for value, name in zip(main.outputs, model.outputs, strict=False):
        if values[value].kind is ValueKind.INTERMEDIATE and is_numbered(values[value].name):
            values[value] = dataclasses.replace(values[value], name=one_line(name, LONGEST))
    inputs = dict(zip(model.input_names, main.inputs, strict=True))
    carried = {name: (inputs[name], main.outputs[place]) for name, place in model.states.items()}
    states = tuple(State(name, values[inputs[name]].type, None) for name in carried)
    function = dataclasses.replace(main, values=values, states=carried)
    program = dataclasses.replace(lowered.model, functions={MAIN: function}, states=states)
    program.check()
    return dataclasses.replace(lowered, model=program)


def prepared(model: ImportedModel, lowered: Lowered, documents: Mapping[str, str], platform: str = "cpu") -> Prepared:
    """Raises InputError for operators that the platform cannot compile, ToolchainError where there is no such."""
    graphs = [lowered.model.at(step_sizes(lowered, model, step)) for step in model.steps]
    models = {graph: lowered.at(graph.sizes, documents) for graph in graphs}
    built = Reference(*models.values(), platform=platform, functions=model.functions)
    programs = {name: found for of_step in models.values() for name, found in of_step.programs.items()}
    return Prepared(lowered, documents, graphs, models, ReferenceRun(lowered, model, programs, built))


def step_sizes(lowered: Lowered, model: ImportedModel, step: Step) -> dict[str, int]:
    """What a step's inputs make of the symbols."""
    main = lowered.model.main
    return sizes_of(main, {v: step.inputs[n].shape for v, n in zip(main.inputs, model.input_names, strict=True)})
