"""Calling emcc: where it is, which version it is, and errors that say what to do."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tapml.errors import ToolchainError

_INSTALL = "install emscripten (Debian: apt-get install emscripten node-acorn; macOS: brew install emscripten)"

# C++ exceptions as wasm's own, which every browser with WebGPU has: an error inside the runtime then reaches
# JavaScript with its text, and the instance lives on. Without them it is a bare "unreachable" trap.
_EXCEPTIONS = "-fwasm-exceptions"

# -Os and not -O2: a third faster to compile and smaller, and the runtime only hands out kernels.
COMPILE_FLAGS = ("-Os", "-std=c++17", "-Wno-ignored-attributes", _EXCEPTIONS)

# -O0 leaves out emscripten's own optimizer: half a second instead of ten, for 17 % more bytes. Symbol names
# would be more than half of the file, and go.
LINK_FLAGS = (
    "-O0",
    "-Wl,-O2,--strip-all,--compress-relocations",
    _EXCEPTIONS,
    "--no-entry",
    *("-s", "STANDALONE_WASM=1"),
    *("-s", "WASM_BIGINT=1"),
    *("-s", "ALLOW_MEMORY_GROWTH=1"),
    *("-s", "TOTAL_STACK=5MB"),  # emscripten since 3.1.27 gives 64 kB
)

_PAGE = 64 << 10
_SPARE_MEMORY = 16 << 20


def emcc() -> str:
    """The path of emcc. Raises ToolchainError if it is not on PATH."""
    found = shutil.which("emcc")
    if found is None:
        raise ToolchainError(f"emcc was not found: {_INSTALL}")
    return found


@functools.cache
def version() -> str:
    """emcc's version line. Raises ToolchainError if emcc is missing or does not start."""
    return _run([emcc(), "--version"], os.environ, "start").splitlines()[0]


def compile_unit(source: Path, target: Path, cache_dir: Path) -> None:
    """Compile one C++ file, whose folder is the one it includes from, to a wasm object.

    Raises ToolchainError with the compiler's first error.
    """
    command = [emcc(), *COMPILE_FLAGS, "-I.", "-c", source.name, "-o", str(target.absolute())]
    _run(command, _environment(command[0], cache_dir), f"compile {source.name}", source.parent)


def link(objects: Sequence[Path], target: Path, imports: Path, cache_dir: Path) -> None:
    """Link objects to a wasm; `imports`, a JavaScript library, names what the page provides.

    Raises ToolchainError with the linker's first error, also for any other undefined symbol.
    """
    # Constants lie in the data segment, which must fit the first memory: it grows only once the wasm runs.
    needed = sum(path.stat().st_size for path in objects) + _SPARE_MEMORY
    memory = f"INITIAL_MEMORY={-(-needed // _PAGE) * _PAGE}"
    command = [emcc(), *LINK_FLAGS, "-s", memory, "--js-library", str(imports)]
    command += [str(path) for path in objects] + ["-o", str(target)]
    _run(command, _environment(command[0], cache_dir), f"link {target.name}")


def _run(command: Sequence[str], environment: Mapping[str, str], task: str, folder: Path | None = None) -> str:
    """Standard output of a command that must succeed, run in `folder`."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    except OSError as error:
        raise ToolchainError(f"{command[0]} could not {task}: {error.strerror}; {_INSTALL}") from error
    if done.returncode != 0:
        raise ToolchainError(f"{command[0]} could not {task}: {_first_error(done.stderr)}")
    return done.stdout


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]  # emcc is a Python program, and this is where it says why it stopped
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["it gave no reason"])[0]


def _environment(program: str, cache_dir: Path) -> dict[str, str]:
    environment = dict(os.environ)
    if "EM_CACHE" not in environment and _cache_is_closed(program):
        environment["EM_CACHE"] = str(cache_dir.absolute() / "emscripten")
    return environment


@functools.cache
def _cache_is_closed(program: str) -> bool:
    """Emscripten keeps system libraries that it built in a folder of its own: is that not ours to write?

    No if it is "frozen" (Debian's): then it has all it needs and is never written.
    """
    config = Path(program).with_name("em-config")
    if not config.exists():
        return False
    folder = _run([str(config), "CACHE"], os.environ, "name its cache folder").strip()
    if os.access(folder, os.W_OK):
        return False
    frozen = _run([str(config), "FROZEN_CACHE"], os.environ, "say if its cache is frozen")
    return frozen.strip() not in {"True", "1"}
