"""What the pages are made of: the runtimes as npm has them, tapml's own, and each model as these take it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.web_generation.site import ORT
from benchmarks.web_generation.site import PAGES as OF_GENERATION
from benchmarks.web_runtimes.site import PAGES as SHARED
from benchmarks.web_runtimes.site import PEERS, ROOT, RUNTIME, put, put_packaged
from benchmarks.whole_models.models import WHOLE, Whole
from benchmarks.whole_models.tfjs import write_graph

PAGES = Path(__file__).parent / "pages"
LITERT = ROOT / "build/litert"
"""litert-torch, which the Makefile puts there."""
COMPILERS = ("auto", "tvm")
"""By which tapml's models are built."""


def make_site(folder: Path, packages: Path, names: Sequence[str], *, half: bool, small: bool) -> list[str]:
    """Make all that pages load in `folder`, anew but for the models, and give their names. `packages` keeps what was
    downloaded; `names`: of `WHOLE`."""
    folder = folder.resolve()
    for name in (*ORT, *PEERS):
        put_packaged(folder, name, packages)
    for file in (RUNTIME, RUNTIME.with_name("tapml-preparing.js")):
        put(folder / "tapml" / file.name, file.read_bytes())
    for page in (*PAGES.iterdir(), SHARED / "session.js", OF_GENERATION / "passes.js"):
        put(folder / page.name, page.read_bytes())
    made = []
    for model in WHOLE:
        if model.name in names and (model.halves or not half):
            name = f"{model.name}{'-f16' if half else ''}{'-small' if small else ''}"
            if not (folder / f"models/{name}/asked.json").is_file():
                _model(folder / f"models/{name}", model, half=half, small=small)
            made.append(name)
    return made


def _model(folder: Path, model: Whole, *, half: bool, small: bool) -> None:
    """The ONNX file, its inputs and what ONNX Runtime gives for them on this machine, and tapml's compiled models."""
    import onnxruntime

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    onnx = folder / "model.onnx"
    inputs = model.write(onnx, half, small)
    if not half:
        write_graph(onnx, folder)  # tfjs has no float16
    session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, dict(inputs))
    np.savez(folder / "inputs.npz", **inputs)
    _litert(folder, model, small=small)
    for compiler in COMPILERS:
        build = [sys.executable, "-m", "tapml", "build", str(onnx), "--inputs", str(folder / "inputs.npz")]
        subprocess.run([*build, "--compiler", compiler, "-o", str(folder / f"{compiler}.tapml")], check=True)
    for name, array in {**inputs, "result": result}.items():
        put(folder / f"{name}.bin", np.ascontiguousarray(array).tobytes())
    tensors = {name: {"dtype": str(array.dtype), "shape": array.shape} for name, array in inputs.items()}
    facts = {
        "title": f"{model.title}, made small" if small else model.title,
        "inputs": tensors,
        "result": {"dtype": str(result.dtype), "name": session.get_outputs()[0].name},
    }
    # Last: a model with it is whole.
    put(folder / "asked.json", json.dumps(facts).encode())


def _litert(folder: Path, model: Whole, *, small: bool) -> None:
    """Write model.tflite: of float32, which LiteRT computes in float16 where it is asked to."""
    if not (LITERT / ".ready").is_file():
        print(f"without LiteRT: `make {LITERT.relative_to(ROOT)}/.ready` gets its converter", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as temporary:
        onnx, inputs = Path(temporary) / "model.onnx", Path(temporary) / "inputs.npz"
        np.savez(inputs, **model.write(onnx, False, small))
        convert = [sys.executable, "-m", "benchmarks.whole_models.litert", str(onnx), str(inputs)]
        where = {**os.environ, "PYTHONPATH": str(LITERT)}
        subprocess.run([*convert, str(folder / "model.tflite")], env=where, cwd=ROOT, check=True)
