"""From a configuration to program and kernels, without weights, a run or a test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

from tapml.carving.halves import LEAST_BYTES, stored_as_read, with_halves
from tapml.carving.prepare import lowered_with_documents
from tapml.carving.runs import Progress
from tapml.compilers.base import Compiler
from tapml.compilers.choose import COMPILERS, check_kernel, compile_operators, made_for
from tapml.compilers.tvm.variants import BASE
from tapml.importing import ImportedModel
from tapml.program import ValueKind
from tapml.program.program import Program
from tapml.suite.unweighted import Unweighted


def without_weights(
    model: ImportedModel,
    made_by: Mapping[str, str],
    variants: Sequence[str] = (BASE.name,),
    progress: Progress = lambda phase, done, total: None,
    compilers: Sequence[Compiler] = COMPILERS,
) -> Unweighted:
    """What a language model would run. `made_by`: versions by name. Raises InputError for what cannot be lowered."""
    assert model.generation is not None, "of a decoder"
    progress("lowering", 0, 1)
    lowered, operators = lowered_with_documents(model, made_for(compilers))
    kernels = compile_operators(lowered.operators, variants, partial(progress, "kernels"), compilers)
    for operator in lowered.operators:
        check_kernel(kernels[operator.name], operator)
    program = lowered.model
    if exact := _halves(model, program):
        functions = program.functions
        kernels = with_halves(functions.values(), kernels, exact, lowered.operators)
        program = dataclasses.replace(program, functions=stored_as_read(functions, kernels))
    notes = model.provenance.get("notes", [])
    return Unweighted(
        str(model.provenance["title"]),
        made_by,
        [*map(str, notes)] if isinstance(notes, list) else [],
        model.generation,
        program,
        operators,
        {name: kernel.document for name, kernel in kernels.items()},
        {name: {file.name: file.text for file in kernel.files} for name, kernel in kernels.items()},
    )


def _halves(model: ImportedModel, program: Program) -> set[str]:
    """Ids of the values of weights that float16 will hold: as large ones of a model of float16, and scales that are
    made so."""
    scales = model.quantised.halves if model.quantised is not None else ()
    values = (value for function in program.functions.values() for value in function.values.values())
    return {
        value.id
        for value in values
        if value.kind is ValueKind.PARAMETER
        and (
            value.name in scales
            or (value.name in model.halves and value.type.at({}, value.name or value.id).nbytes >= LEAST_BYTES)
        )
    }
