"""Small ONNX models, carved and built, for tests of what becomes one dispatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx.parser

from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.files import CompiledFiles
from tapml.compiled.instructions import Dispatch
from tapml.compilers.base import Compiler
from tapml.compilers.choose import COMPILERS
from tapml.importing import import_model
from tapml.suite import Suite


def carved_of(
    main: str, shapes: Mapping[str, tuple[int, ...]], folder: Path, compilers: Sequence[Compiler] = COMPILERS
) -> Suite:
    """The suite of `main (...) => (...) { ... }`, with random inputs of these shapes."""
    random = np.random.default_rng(5)
    inputs = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{main}'), path)
    np.savez(folder / "in.npz", **inputs)  # type: ignore[arg-type]
    model = import_model(str(path), input_files=[folder / "in.npz"])
    return carve(model, folder / "made.suite", name="made", compilers=compilers)


def dispatches(suite: Suite, folder: Path) -> tuple[CompiledFiles, list[Dispatch]]:
    files = CompiledFiles(build(suite, folder / "made.tapml").path)
    code = files.model.functions["main"].code
    return files, [found for found in code if isinstance(found, Dispatch)]
