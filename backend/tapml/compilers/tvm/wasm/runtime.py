"""TVM's wasm runtime, compiled once from the sources that the apache-tvm wheel ships, and linked with a model."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tapml.compilers.tvm.wasm import emscripten
from tapml.errors import ToolchainError

# Our half of the sources: two units that include the wheel's, and the headers which the wheel lacks.
_OURS = Path(__file__).parent / "include"
_UNITS = ("vm", "ffi")  # the longer one first

# What no model needs of the sources that TVM's own unit includes: RPC, paged key-value caches, sorting on the CPU; and
# tvm-ffi, which is a unit of ours.
_LEFT_OUT = re.compile(
    r'#include "(3rdparty|src/runtime/(extra|rpc|logging|timer|vm/(attn|kv_state|paged|rnn)))[^"]*"\n'
)

IMPORTS = _OURS / "imports.js"


def runtime_objects(cache_dir: Path, progress: Callable[[str], None] = lambda message: None) -> list[Path]:
    """The wasm objects to link with a model's own, compiled on the first call (15 s on two cores).

    They lie in `cache_dir`/wasm-runtime/KEY, where KEY follows from all that goes in. `progress` is told what
    takes time. Raises ToolchainError if emcc or TVM's sources are missing or fail to compile.
    """
    parent = cache_dir.absolute() / "wasm-runtime"
    folder = parent / _key()
    objects = [folder / f"{unit}.o" for unit in _UNITS]
    if folder.is_dir():
        return objects
    progress("compiling TVM's wasm runtime (once, about 15 s)")
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="building-") as name:
        work = Path(name)
        result = work / "result"
        result.mkdir()
        _compile(work / "sources", result, cache_dir)
        try:
            result.rename(folder)
        except OSError:
            # Another process was first: a folder is complete from the moment it bears this name.
            if not folder.is_dir():
                raise
    progress("TVM's wasm runtime is ready")
    return objects


def link_model(executable: Any, output: Path, cache_dir: Path) -> None:
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


def _compile(sources: Path, result: Path, cache_dir: Path) -> None:
    tvm, ffi = _package("tvm"), _package("tvm_ffi")
    # Copied into one tree, for the wheel's sources include each other and our headers by relative paths. They
    # are part of error texts too, so that the objects are the same on every machine.
    shutil.copytree(_OURS, sources)
    for source, target in (
        (tvm / "include", sources),
        (tvm / "src" / "runtime", sources / "src" / "runtime"),
        (tvm / "web" / "emcc", sources / "web" / "emcc"),
        (ffi / "include", sources),
        (ffi / "src", sources / "tvm_ffi" / "src"),
        (ffi / "3rdparty" / "dlpack" / "include", sources),
    ):
        if not source.is_dir():
            raise ToolchainError(f"{source} is missing: install apache-tvm from its wheel, which ships it")
        shutil.copytree(source, target, dirs_exist_ok=True)
    whole = sources / "web" / "emcc" / "wasm_runtime.cc"
    whole.write_text(_LEFT_OUT.sub("", whole.read_text()))

    def compile_unit(unit: str) -> None:
        emscripten.compile_unit(sources / f"{unit}.cc", result / f"{unit}.o", cache_dir)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(compile_unit, _UNITS))  # raises what one of them raised


def _key() -> str:
    """Changes with everything that goes into the objects: TVM, emscripten and this package with its flags."""
    digest = hashlib.sha256()
    for distribution in ("apache-tvm", "apache-tvm-ffi"):
        digest.update(importlib.metadata.version(distribution).encode() + b"\0")
    digest.update(emscripten.version().encode() + b"\0")
    ours = Path(__file__).parent
    for path in sorted(path for path in ours.rglob("*") if path.suffix in {".py", ".cc", ".h", ".js"}):
        digest.update(path.relative_to(ours).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _package(name: str) -> Path:
    """A package's folder, without importing it: TVM takes a second to load."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ToolchainError(f"the Python package {name} was not found: install apache-tvm")
    return Path(spec.submodule_search_locations[0])
