"""The whole model as one wasm: what a deployment would ship, run by the tvmjs virtual machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import tvm
from tvm import relax, tirx

from tapml.cache import cached
from tapml.compilers.tvm.compile import TVM, chosen, webgpu_target
from tapml.compilers.tvm.variants import BASE
from tapml.compilers.tvm.wasm.runtime import link_model, runtime_objects
from tapml.errors import InputError
from tapml.files import sha256
from tapml.lowering.emit import prim_func
from tapml.lowering.lower import Model
from tapml.lowering.model import relax_module
from tapml.lowering.operator import Operator
from tapml.lowering.quiet import quiet_tvm, reason
from tapml.operators.document import to_json_text
from tapml.operators.program import OperatorProgram

_GENERATION = 5


def model_library(model: Model, progress: Callable[[str], None] = lambda message: None) -> Path:
    """Path of the model's wasm, built once for a given model (cached by content).

    The library's function "main" takes the graph's arguments in order. Raises InputError
    for what TVM cannot build, ToolchainError where emscripten is missing.
    """
    return cached(lambda folder: _built(model, folder, progress))


def _built(model: Model, folder: Path, progress: Callable[[str], None]) -> Path:
    # The runtime's key changes with TVM, emscripten and its sources: all that the link puts in.
    runtime = runtime_objects(folder, progress)[0].parent.name
    made_of = [model.graph.to_json(), model.arguments, [to_json_text(found) for found in model.programs.values()]]
    key = sha256(json.dumps([_GENERATION, tvm.__version__, BASE.target, runtime, made_of]))
    path = folder / "libraries" / f"{key}.wasm"
    if not path.is_file():
        progress("linking the model library")
        path.parent.mkdir(parents=True, exist_ok=True)
        target, module = webgpu_target(), relax_module(model)
        try:
            with quiet_tvm():
                for variable, function in module.functions_items():
                    if isinstance(function, tirx.PrimFunc):
                        # As each kernel by itself, whose text, edited or not, takes its place.
                        module.update_func(variable, chosen(Operator(variable.name_hint, (), (), function, {})))
                with target:
                    executable = relax.build(module, target)
        except Exception as error:  # TVM raises its own types, without a common base
            raise InputError(f"TVM cannot build the whole model for WebGPU: {reason(error)}") from error
        link_model(executable, path, folder)
    return path


def kernel_texts(model: Model) -> dict[str, str]:
    """Entry points of a model's kernels, made for its sizes alone, and their WGSL. Raises InputError for one that has
    none."""
    operators = []
    for name, found in model.programs.items():
        if isinstance(found, OperatorProgram):
            node = model.graph.nodes_of(name)[0]
            places = [(value, "input") for value in node.inputs] + [(value, "output") for value in node.outputs]
            types = [(model.graph.values[value].type, role) for value, role in places]
            arguments = [
                {"name": buffer.name, "dtype": of.dtype, "shape": list(of.shape), "role": role}
                for buffer, (of, role) in zip(found.parameters, types, strict=True)
            ]
            operators.append(Operator(name, (), arguments, prim_func(found), {}))
    texts: dict[str, str] = {}
    for name, kernel in TVM.compile(operators).items():
        if kernel.document["unsupported"]:
            raise InputError(f"{name} has no WGSL at the sizes of this model: {kernel.document['unsupported']}")
        entry_points = kernel.document["variants"][-1]["entry_points"]
        texts |= {entry["name"]: file.text for entry, file in zip(entry_points, kernel.files, strict=True)}
    return texts
