"""Little models around one operator, for the fault gallery."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax

from tapml.importing import ImportedModel, Step
from tapml.importing.fold import fold
from tapml.importing.narrow import narrow

BYSTANDER = "relu"
"""The kernel of each model that nothing is wrong with: nobody may accuse it."""

Arrays = Mapping[str, np.ndarray]


def te_model(name: str, function: Callable[..., Any], *steps: Arrays) -> ImportedModel:
    """One kernel `name` of a tensor expression over the inputs; `steps` hold the inputs of each run by name."""
    return _model(lambda builder, inputs: builder.emit_te(function, *inputs, primfunc_name_hint=name), *steps)


def relax_model(function: Callable[..., Any], *steps: Arrays) -> ImportedModel:
    """One kernel of a Relax operator over the inputs."""
    model = _model(lambda builder, inputs: builder.emit(function(*inputs)), *steps)
    # As importers do it: what TVM has no kernel for (top-k) becomes one.
    return dataclasses.replace(model, module=narrow(fold(model.module), ()).module)


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(seed: int, *shape: int, dtype: str = "float32", scale: float = 1.0) -> np.ndarray:
    """What a layer's activations look like."""
    return (scale * random(seed).standard_normal(shape)).astype(dtype)


def _model(build: Callable[[relax.BlockBuilder, list[relax.Var]], Any], *steps: Arrays) -> ImportedModel:
    builder = relax.BlockBuilder()
    given = [{**step, "bystander": normal(99, 4, 8)} for step in steps]
    variables = [relax.Var(key, relax.TensorType(array.shape, str(array.dtype))) for key, array in given[0].items()]
    with builder.function("main", variables):
        with builder.dataflow():
            result = build(builder, variables[:-1])
            innocent = builder.emit(relax.op.nn.relu(variables[-1]))
            outputs = builder.emit_output(relax.Tuple([result, innocent]))
        builder.emit_func_output(outputs)
    return ImportedModel(
        module=builder.finalize(),
        input_names=list(given[0]),
        parameters=[],
        steps=[Step(f"step {number}", dict(step), True, None) for number, step in enumerate(given)],
        provenance={"kind": "test", "source": "tests/faults", "sha256": "0" * 64, "title": "fault", "notes": []},
        outputs=["result", "innocent"],
        oracle_missing="a single operator",
    )
