"""What TVM's RPC needs and the wheel does not ship: its wasm with a kernel inside, and the proxy's web server."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tapml.compilers.tvm.wasm
from tapml.cache import cache_dir
from tapml.compilers.tvm.wasm import emscripten
from tapml.errors import ToolchainError

HERE = Path(__file__).parent
LENGTH = 64

_TORNADO = "tornado==6.6.1"
_UNITS = ("wasm_runtime", "tvmjs_support", "webgpu_runtime")

# TVM's own flags (web/Makefile), so that its half is as fast as TVM makes it; and C++ exceptions as wasm's own,
# without which an error inside is a bare trap.
_COMPILE_FLAGS = ("-O3", "-std=c++17", "-Wno-ignored-attributes", "-fwasm-exceptions", "-I.")
_LINK_FLAGS = (
    *("-O3", "-fwasm-exceptions", "--no-entry"),
    *("-s", "WASM_BIGINT=1"),
    *("-s", "ERROR_ON_UNDEFINED_SYMBOLS=0"),
    *("-s", "STANDALONE_WASM=1"),
    *("-s", "ALLOW_MEMORY_GROWTH=1"),
    *("-s", "TOTAL_MEMORY=160MB"),
    *("-s", "TOTAL_STACK=5MB"),  # emscripten since 3.1.27 gives 64 kB
)


@dataclass(frozen=True)
class Built:
    """`wasm`: TVM's runtime and the kernel `main(x, y, z)`, z = x + y; `packages`: a folder for PYTHONPATH."""

    wasm: Path
    packages: Path


def build() -> Built:
    """Compile, link and install into tapml's cache on the first call (two minutes on two cores, and one download).

    Raises ToolchainError if emcc, TVM's sources or pip fail.
    """
    parent = cache_dir().absolute() / "benchmarks"
    folder = parent / f"tvm-rpc-{_key()}"
    if not folder.is_dir():
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent, prefix="building-") as name:
            work = Path(name)
            result = work / "result"
            result.mkdir()
            _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(result / "packages"), _TORNADO])
            _link_kernel(_compile_runtime(work / "sources"), result / "vector_add.wasm")
            try:
                result.rename(folder)
            except OSError:
                # Another process was first: a folder is complete from the moment it bears this name.
                if not folder.is_dir():
                    raise
    return Built(folder / "vector_add.wasm", folder / "packages")


def _compile_runtime(sources: Path) -> list[Path]:
    """TVM's own three units as wasm objects, in `sources`, where they find each other by relative paths."""
    tvm, ffi = _package("tvm"), _package("tvm_ffi")
    for source, target in (
        (Path(tapml.compilers.tvm.wasm.__file__).parent / "include", sources),  # headers that the wheel lacks
        (tvm / "include", sources),
        (tvm / "src" / "runtime", sources / "src" / "runtime"),
        (tvm / "web" / "emcc", sources / "web" / "emcc"),
        (ffi / "include", sources),
        (ffi / "src", sources / "3rdparty" / "tvm-ffi" / "src"),
        (ffi / "3rdparty" / "dlpack" / "include", sources),
        (HERE / "include", sources),  # last: takes the place of some of them
    ):
        if not source.is_dir():
            raise ToolchainError(f"{source} is missing: install apache-tvm from its wheel, which ships it")
        shutil.copytree(source, target, dirs_exist_ok=True)

    def compiled(unit: str) -> Path:
        target = sources / f"{unit}.o"
        _run([emscripten.emcc(), *_COMPILE_FLAGS, "-c", f"web/emcc/{unit}.cc", "-o", str(target)], sources)
        return target

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compiled, _UNITS))


def _link_kernel(runtime: list[Path], output: Path) -> None:
    """Link the runtime with a WebGPU kernel that adds two vectors of LENGTH float32."""
    import tvm
    from tvm import te

    x, y = (te.placeholder((LENGTH,), name=name) for name in "xy")
    z = te.compute((LENGTH,), lambda i: x[i] + y[i], name="z")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y, z])}))
    (loop,) = schedule.get_loops(schedule.get_sblock("z"))
    block, thread = schedule.split(loop, [None, 64])
    schedule.bind(block, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    host = {"kind": "llvm", "mtriple": "wasm32-unknown-unknown-wasm"}
    library = tvm.build(schedule.mod.with_attr("system_lib_prefix", ""), target=tvm.target.Target("webgpu", host=host))

    def link(target: str, objects: list[str] | str, _options: Any = None, **_others: Any) -> None:
        names = [objects] if isinstance(objects, str) else objects
        _run([emscripten.emcc(), *_LINK_FLAGS, *map(str, runtime), *names, "-o", target])

    # TVM asks the function what it wants. The default is LLVM bitcode, newer than emscripten's LLVM can read.
    link.object_format = "o"  # type: ignore[attr-defined]
    library.export_library(str(output), fcompile=link)


def _run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")


def _key() -> str:
    """Changes with everything that goes into the folder."""
    digest = hashlib.sha256(emscripten.version().encode())
    for distribution in ("apache-tvm", "apache-tvm-ffi"):
        digest.update(importlib.metadata.version(distribution).encode() + b"\0")
    for path in [HERE / "build.py", *sorted(path for path in (HERE / "include").rglob("*") if path.is_file())]:
        digest.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ToolchainError(f"the Python package {name} was not found: install apache-tvm")
    return Path(spec.submodule_search_locations[0])
