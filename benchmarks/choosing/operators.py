"""The operators that tables are made of: those of benchmarks/kernels, and those of models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.kernels.works import works
from tapml.carving.prepare import lowered_with_documents
from tapml.compilers.choose import CHOICES, made_for
from tapml.importing import import_model
from tapml.lowering.operator import Operator


def operators_of(name: str) -> Iterator[tuple[str, Operator, int]]:
    """What is called how, and how many of its last inputs are weights that no cache holds. `name`: `works`, `small` (of
    sizes that a GPU in software takes), or a model as `tapml carve` takes it, lowered as `--compiler auto` does."""
    if name in ("works", "small"):
        for work in works(name == "small"):
            yield f"{work.name} {work.dtype}", work.operator(), work.rotated
        return
    model = import_model(name, random_inputs=name.endswith(".onnx"))
    lowered, _ = lowered_with_documents(model, made_for(CHOICES["auto"]))
    for operator in lowered.operators:
        yield f"{name}: {operator.name}", operator, 0
