"""From a configuration to program and kernels, without weights, a run or a test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from tapml.carving.halves import stored_as_read, with_halves
from tapml.carving.prepare import lowered_with_documents
from tapml.carving.runs import Progress
from tapml.compilers.base import Compiler
from tapml.compilers.choose import COMPILERS, check_kernel, compile_operators, moves_in_place
from tapml.compilers.tvm.variants import BASE
from tapml.importing import ImportedModel
from tapml.program import ValueKind
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
    lowered, operators = lowered_with_documents(model, moves_in_place(compilers))
    kernels = compile_operators(lowered.operators, variants, partial(progress, "kernels"), compilers)
    for operator in lowered.operators:
        check_kernel(kernels[operator.name], operator)
    program = lowered.model
    if model.quantised is not None:
        # Nothing else is known to be float16.
        functions, halves = program.functions, model.quantised.halves
        values = {value.id: value for function in functions.values() for value in function.values.values()}
        scales = {
            found.id: np.zeros(found.type.at({}, found.name).shape, np.float32)
            for found in values.values()
            if found.name in halves and found.kind is ValueKind.PARAMETER
        }
        kernels = with_halves(functions.values(), kernels, scales, halves)
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
