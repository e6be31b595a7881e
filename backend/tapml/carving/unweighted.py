"""From a configuration to program and kernels, without weights, a run or a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tapml.carving.prepare import lowered_with_documents
from tapml.carving.runs import Progress
from tapml.compilers.base import Compiler
from tapml.compilers.choose import COMPILERS, check_kernel, compile_operators
from tapml.compilers.tvm.variants import BASE
from tapml.importing import ImportedModel
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
    lowered, operators = lowered_with_documents(model)
    kernels = compile_operators(lowered.operators, variants, partial(progress, "kernels"), compilers)
    for operator in lowered.operators:
        check_kernel(kernels[operator.name], operator)
    notes = model.provenance.get("notes", [])
    return Unweighted(
        str(model.provenance["title"]),
        made_by,
        [*map(str, notes)] if isinstance(notes, list) else [],
        model.generation,
        lowered.model,
        operators,
        {name: kernel.document for name, kernel in kernels.items()},
        {name: {file.name: file.text for file in kernel.files} for name, kernel in kernels.items()},
    )
