"""What `tapml show` says of a model with two functions: a call is one of one of them."""

from __future__ import annotations

import io

from rich.console import Console

from compiled_models import chained, doubled
from tapml.building.picture import of_model
from tapml.compiled.model import CompiledModel
from tapml.reports.compiled import model_document, show_kernels, show_model


def shown(model: CompiledModel) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=300)
    show_model(console, model, "x.tapml", 1)
    show_kernels(console, model)
    return out.getvalue().splitlines()


def test_dispatches_are_those_of_each_function() -> None:
    document = chained()
    (main,) = document["functions"].values()
    short = {**main, "code": main["code"][:1]}
    one = CompiledModel.model_validate(document)
    (line,) = (line for line in shown(one) if line.startswith("kernels"))
    assert "3 dispatches in a call, " in line
    two = CompiledModel.model_validate({**document, "functions": {"prefill": main, "decode": short}})
    (line,) = (line for line in shown(two) if line.startswith("kernels"))
    assert "3 dispatches in a call of prefill, 1 dispatch in a call of decode, " in line
    (head,) = (line for line in shown(two) if line.startswith("kernel "))
    assert head.split() == ["kernel", "in", "prefill", "in", "decode", "variants", "validated"]
    told = [kernel["dispatches"] for kernel in model_document(two, "x.tapml", 1)["kernels"]]
    assert {name: sum(of.get(name, 0) for of in told) for name in ("prefill", "decode")} == {"prefill": 3, "decode": 1}


def test_a_plan_names_the_sizes_of_its_own_function() -> None:
    model, _ = doubled()
    (function,) = model.functions.values()
    fixed = function.model_copy(update={"tensors": [t.model_copy(update={"shape": [1]}) for t in function.tensors]})
    model = model.model_copy(update={"functions": {"prefill": function, "decode": fixed}})
    assert of_model(model, "prefill").sizes
    assert of_model(model, "decode").sizes == ""
