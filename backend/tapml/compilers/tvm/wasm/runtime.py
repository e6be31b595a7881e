"""TVM's wasm runtime, compiled once from the sources that the apache-tvm wheel ships."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tapml.compilers.tvm.wasm import emscripten
from tapml.errors import ToolchainError

# Our half of the sources: two units that include the wheel's, and the headers which the wheel lacks.
_OURS = Path(__file__).parent / "include"
_UNITS = ("vm", "ffi")  # the longer one first
_WASM = "runtime.wasm"

IMPORTS = _OURS / "imports.js"


def _silent(message: str) -> None:
    pass


def runtime_objects(cache_dir: Path, progress: Callable[[str], None] = _silent) -> list[Path]:
    """The wasm objects to link with a model's own, compiled on the first call (15 s on two cores).

    They lie in `cache_dir`/wasm-runtime/KEY, where KEY follows from all that goes in. `progress` is told what
    takes time. Raises ToolchainError if emcc or TVM's sources are missing or fail to compile.
    """
    folder = _built(cache_dir, progress)
    return [folder / f"{unit}.o" for unit in _UNITS]


def runtime_wasm(cache_dir: Path, progress: Callable[[str], None] = _silent) -> Path:
    """The runtime alone as wasm, which runs single kernels: `tvmjs.instantiate(bytes, createPolyfillWASI())`.

    Built and cached with `runtime_objects`, whose errors it raises.
    """
    return _built(cache_dir, progress) / _WASM


def _built(cache_dir: Path, progress: Callable[[str], None]) -> Path:
    parent = cache_dir.absolute() / "wasm-runtime"
    folder = parent / _key()
    if folder.is_dir():
        return folder
    progress("compiling TVM's wasm runtime (once, about 15 s)")
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="building-") as name:
        work = Path(name)
        result = work / "result"
        result.mkdir()
        _compile(work, result, cache_dir)
        try:
            result.rename(folder)
        except OSError:
            # Another process was first: a folder is complete from the moment it bears this name.
            if not folder.is_dir():
                raise
    progress("TVM's wasm runtime is ready")
    return folder


def _compile(work: Path, result: Path, cache_dir: Path) -> None:
    tvm, ffi = _package("tvm"), _package("tvm_ffi")
    sources = work / "sources"
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
    objects = [result / f"{unit}.o" for unit in _UNITS]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [
            pool.submit(emscripten.compile_unit, sources / f"{unit}.cc", target, cache_dir)
            for unit, target in zip(_UNITS, objects, strict=True)
        ]
        for future in futures:
            future.result()
    emscripten.link(objects, result / _WASM, IMPORTS, cache_dir)


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
