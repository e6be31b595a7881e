"""A compiled Relax model and TVM's runtime, as one wasm."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Protocol

from tapml.compilers.tvm.wasm import emscripten
from tapml.compilers.tvm.wasm.runtime import IMPORTS, runtime_objects


class Executable(Protocol):
    """The part of `tvm.relax.VMExecutable` that linking needs."""

    def export_library(self, file_name: str, *, fcompile: Any) -> Any: ...


def link_model(executable: Executable, output: Path, cache_dir: Path) -> None:
    """Write `output`, a wasm for `tvmjs.instantiate` whose virtual machine has the model's functions.

    `executable` is what `relax.build` gives for WebGPU with the host `{"kind": "llvm", "mtriple":
    "wasm32-unknown-unknown-wasm"}`. The folder of `output` must exist; the file appears whole or not at all.
    Raises ToolchainError if emcc is missing or the linker fails.
    """
    runtime = runtime_objects(cache_dir)

    def link(target: str, objects: list[str] | str, _options: Any = None, **_others: Any) -> None:
        names = [objects] if isinstance(objects, str) else objects
        emscripten.link([*runtime, *map(Path, names)], Path(target), IMPORTS, cache_dir)

    # TVM asks the function what it wants. The default is LLVM bitcode, newer than emscripten's LLVM can read.
    link.object_format = "o"  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(dir=output.absolute().parent, prefix=".linking-") as work:
        partial = Path(work) / "model.wasm"
        executable.export_library(str(partial), fcompile=link)
        partial.replace(output)
