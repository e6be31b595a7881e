"""The whole model as one wasm: what a deployment would ship, run by the tvmjs virtual machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import tvm
from tvm import relax

from tapml.cache import cached
from tapml.files import sha256
from tapml.kernels.compile import schedule, webgpu_target
from tapml.kernels.lower import Lowered
from tapml.kernels.quiet import quiet_tvm
from tapml.kernels.variants import BASE
from tapml.kernels.wasm import link_model, runtime_wasm

_GENERATION = 1


def model_library(lowered: Lowered, progress: Callable[[str], None] = lambda message: None) -> Path:
    """Path of the model's wasm, built once for a given model (cached by content).

    Its function "main" takes the graph's arguments in order. Raises ToolchainError where emscripten is missing.
    """
    return cached(lambda folder: _built(lowered, folder, progress))


def _built(lowered: Lowered, folder: Path, progress: Callable[[str], None]) -> Path:
    # The runtime's key changes with TVM, emscripten and its sources: all that the link puts in.
    runtime = runtime_wasm(folder, progress).parent.name
    text = lowered.module.script(show_meta=True)
    key = sha256(json.dumps([_GENERATION, tvm.__version__, BASE.target, runtime, text]))
    path = folder / "libraries" / f"{key}.wasm"
    if not path.is_file():
        progress("linking the model library")
        path.parent.mkdir(parents=True, exist_ok=True)
        target = webgpu_target()
        with quiet_tvm():
            module = schedule(lowered.module, target)
            with target:
                executable = relax.build(module, target)
        link_model(executable, path, folder)
    return path
