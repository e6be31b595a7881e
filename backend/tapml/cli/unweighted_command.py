"""`tapml build --hf CONFIG --no-weights`: program and kernels of a language model that has no weights yet."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from tapml.cache import cache_dir
from tapml.cli.outputs import Outputs
from tapml.cli.package_state import state_of_package
from tapml.errors import InputError
from tapml.files import cannot_write, json_bytes, sha256, write_bytes
from tapml.leftovers import put_in_place, sweep_beside, temporary_folder
from tapml.program.program import Program
from tapml.reports.plain import generation_text
from tapml.reports.progress import ProgressReport
from tapml.strict_json import parse_json
from tapml.suite.collecting import not_collecting
from tapml.suite.unweighted import DOCUMENT, FORMAT, Unweighted, read_unweighted
from tapml.text import counted, size

_CHUNK = 32
_CONFIG = "config.json"
_GGUF = ".gguf"
_LIBRARIES = ("torch", "transformers", "apache-tvm", "apache-tvm-ffi")
_MOST_BYTES = 2**28
_MOST_KEPT = 16
_OTHERS = (
    *("prompt", "prompt_ids", "steps", "speculate", "batch", "draws", "encoder", "source_ids", "source_file"),
    "quantise_text",
    *("device", "single", "range", "external", "no_oracle", "keep_disagreeing", "loop_limit", "random_inputs"),
)
"""Options of `tapml build` that are about weights, or calls."""


def build_unweighted(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Raises InputError as import_unweighted, and for options that it has no use for."""
    config = _config(options)
    _check_output(options.output, options.force)
    if missing := next((path for path in options.tuned if not path.is_file()), None):
        raise InputError(f"--tuned {missing}: there is no such file: give a table that `tapml tune` wrote")
    asked = options.compiler, [sha256(path.read_bytes()) for path in options.tuned]
    rounded = options.quantise, options.activations
    given = config, options.capacity, options.chunk or _CHUNK, options.variants, asked, rounded
    made_by = _versions()
    key = sha256(json.dumps([FORMAT, sha256(config.read_bytes()), *map(str, given[1:]), made_by]))
    found = None if options.no_cache else _cached(key)
    kept = found is not None
    if found is None:
        found = _made(*given[:4], options.compiler, options.tuned, rounded, made_by, progress)
        if not options.no_cache:
            _keep(key, found)
    _write(found, options.output)
    outputs = Outputs(progress)
    document = {**_facts(found), "path": str(options.output), "from_cache": kept}
    outputs.report(options.json, document, lambda: _show(console, found, options.output, kept))
    return outputs.exit_code(0)


def _config(options: argparse.Namespace) -> Path:
    if options.hf is None:
        raise InputError("--no-weights is for decoders of transformers: give a folder or a config.json with --hf")
    if given := next((name for name in _OTHERS if getattr(options, name, None)), None):
        raise InputError(f"without weights nothing is run: leave out --{given.replace('_', '-')}, or --no-weights")
    config: Path = options.hf / _CONFIG if options.hf.is_dir() else options.hf
    if config.suffix.lower() == _GGUF:
        raise InputError(f"{config} has weights: leave out --no-weights, or give a {_CONFIG}")
    if not config.is_file():
        raise InputError(f"{config}: there is no such file: give a {_CONFIG} of transformers, or a folder with one")
    return config


def _check_output(path: Path, overwrite: bool) -> None:
    if (path.exists() or path.is_symlink()) and not (path / DOCUMENT).is_file():
        raise InputError(f"{path} exists and was not written by --no-weights: choose another name with -o")
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists: choose another name with -o, or replace it with --force")


def _versions() -> dict[str, str]:
    found = {"tapml": f"{version('tapml')} {state_of_package()}", "python": sys.version.split()[0]}
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@not_collecting()  # PyTorch's and TVM's graphs stay to the end, and are a million objects
def _made(
    config: Path,
    capacity: int | None,
    chunk: int,
    variants: str,
    compiler: str | None,
    tuned: Sequence[Path],
    rounded: tuple[str | None, str | None],
    made_by: Mapping[str, str],
    progress: Console,
) -> Unweighted:
    # Late: PyTorch and TVM take seconds to load.
    from tapml.carving.unweighted import without_weights
    from tapml.compilers.choose import compilers_of
    from tapml.importing import import_unweighted

    with ProgressReport(progress) as report:
        quantise, activations = rounded
        imported = import_unweighted(
            config, capacity=capacity, chunk=chunk, quantise=quantise, activations=activations, progress=report.line
        )
        return without_weights(imported, made_by, variants.split(","), report.update, compilers_of(compiler, tuned))


def _cached(key: str) -> Unweighted | None:
    """What was kept; None where nothing was, or it is not what was kept: it is made anew then."""
    path = _place(key)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
        digest, _, document = content.partition(b"\n")
        if digest.decode() != sha256(key.encode() + document):
            return None
        return read_unweighted(path, parse_json(document, path, ""))
    except (OSError, ValueError, InputError):
        return None


def _keep(key: str, found: Unweighted) -> None:
    path, document = _place(key), json_bytes(found.to_json())
    with contextlib.suppress(OSError):  # a full disk only costs the next run some time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, sha256(key.encode() + document).encode() + b"\n" + document)
        for old in sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)[:-_MOST_KEPT]:
            old.unlink()


def _place(key: str) -> Path:
    return cache_dir() / "unweighted" / f"{key}.json"


def _write(found: Unweighted, output: Path) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        sweep_beside(output)
        with temporary_folder(output) as folder:
            found.write(folder)
            put_in_place(folder, output)
    except OSError as error:
        raise InputError(f"{cannot_write(output, error)} with -o") from error


def _weights(program: Program) -> dict[str, tuple[str, int, int]]:
    """By id: name, elements and bytes of each parameter that functions share."""
    found = {}
    for function in program.functions.values():
        for value in function.values.values():
            if value.kind == "parameter":
                kind = value.type.at({}, value.name)
                found[value.id] = value.name, math.prod(kind.shape), kind.nbytes
    return found


def _facts(found: Unweighted) -> dict[str, Any]:
    program = found.program
    weights = _weights(program)
    states = [state.type.at({}, state.name).nbytes for state in program.states]
    return {
        "format": FORMAT,
        **found.summary(),
        "kernels": len(found.kernels),
        "wgsl_bytes": sum(len(text.encode()) for texts in found.texts.values() for text in texts.values()),
        "dispatches": {
            name: sum(node.kind == "kernel" for node in function.nodes) for name, function in program.functions.items()
        },
        "weights": {
            "tensors": len(weights),
            "elements": sum(count for _, count, _ in weights.values()),
            "bytes": sum(count for _, _, count in weights.values()),
        },
        "state_bytes": sum(states),
        "unsupported": {
            name: document["unsupported"] for name, document in found.kernels.items() if document["unsupported"]
        },
    }


def _show(console: Console, found: Unweighted, path: Path, kept: bool) -> None:
    facts = _facts(found)
    weights = facts["weights"]
    rows = [
        ("model", f"{found.title}, without weights ({path})"),
        ("generation", generation_text(found.generation)),
        ("kernels", f"{facts['kernels']}, {size(facts['wgsl_bytes'])} of WGSL"),
        *(("call", f"of {name}: {counted(count, 'call')} of kernels") for name, count in facts["dispatches"].items()),
        (
            "weights",
            f"{weights['elements']:,} numbers in {weights['tensors']} tensors, {size(weights['bytes'])} of memory",
        ),
        ("states", f"{size(facts['state_bytes'])} for {found.generation.capacity} tokens"),
        *(("no WGSL", f"for {name}: {why}") for name, why in facts["unsupported"].items()),
        *(("note", note) for note in found.notes),
        *([("from", "the cache (--no-cache makes it anew)")] if kept else []),
    ]
    for name, text in rows:
        console.print(f"{name:<10} {text}", markup=False, highlight=False, soft_wrap=True)
