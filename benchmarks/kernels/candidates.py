"""The kernels of a work: one of each compiler, and, to choose parameters by, those of every parameter that a template
has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.kernels.works import Work
from tapml.compilers.native.compile import NATIVE, generated
from tapml.compilers.native.matmul import matmul
from tapml.compilers.native.matrices import BLOCKS, Blocks
from tapml.compilers.native.rows import rows
from tapml.compilers.native.skinny import INVOCATIONS, Split
from tapml.compilers.native.tiled import TILES, Tile
from tapml.compilers.tvm.compile import TVM
from tapml.expressions import evaluate
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator

LARGER_TILES = (Tile(16, 8, 16, 8), Tile(8, 8, 16, 8), Tile(8, 8, 16, 16), Tile(4, 8, 16, 8), Tile(8, 4, 8, 16))
"""Besides those that the template chooses from."""

OTHER_BLOCKS = (
    Blocks(64, 64, 2, 2, 32),
    Blocks(64, 32, 2, 4, 32),
    Blocks(64, 32, 2, 4, 64),
    Blocks(32, 64, 4, 2, 32),
    Blocks(64, 64, 2, 4, 32),
    Blocks(32, 64, 2, 2, 32),
    Blocks(32, 32, 2, 2, 32),
    Blocks(32, 32, 2, 4, 32),
    Blocks(32, 32, 4, 2, 64),
)

_VARIANT = "256"


def plan(work: Work, sweep: bool) -> dict[str, Any]:
    """What measure.mjs is given of a work."""
    operator = work.operator()
    last = len(work.shapes)
    given = []
    for place, (argument, found) in enumerate(zip(operator.arguments, operator.types({}), strict=True)):
        below = work.integers.get(place)
        given.append({"role": argument["role"], "dtype": found.dtype, "bytes": found.nbytes, "below": below})
    return {
        "name": work.name,
        "dtype": work.dtype,
        "arguments": given,
        "rotated": [*range(last - work.rotated, last)],
        "candidates": [*_compiled(operator), *(_swept(operator) if sweep else ())],
    }


def _compiled(operator: Operator) -> Iterator[dict[str, Any]]:
    for compiler in (TVM, NATIVE):
        kernel = compiler.compile([operator], (_VARIANT,)).get(operator.name)
        if kernel is not None and kernel.document["variants"]:
            yield from _candidates(compiler.name, "", kernel)


def _swept(operator: Operator) -> Iterator[dict[str, Any]]:
    """Each text once, by the first parameters that give it."""
    seen: set[str] = set()
    for parameters, template, threads in _templates():
        launches = generated(operator, threads, (template,), matrices=parameters.startswith("blocks"))
        key = "".join(launch.text for launch in launches or ())
        if launches is None or key in seen:
            continue
        seen.add(key)
        yield from _candidates("native", parameters, NATIVE.document(operator, _VARIANT, launches))


def _templates() -> Iterable[tuple[str, Any, int]]:
    for splits in (1, 2, 3, 4, 8, 16):
        for tile in (*TILES, *LARGER_TILES):
            text = f"{tile.rows}x{tile.columns} x {tile.high}x{tile.wide}{f', {splits} parts' if splits > 1 else ''}"
            yield f"tile {text}", partial(matmul, chosen=replace(tile, splits=splits)), 256
    for blocks in (*BLOCKS, *OTHER_BLOCKS):
        text = f"{blocks.rows}x{blocks.columns}x{blocks.depth} x {blocks.high}x{blocks.wide}"
        yield f"blocks {text}", partial(matmul, chosen=blocks), 256
    for lanes in (4, 8, 16, 32, 64, 128):
        for vectors in (1, 2, 4, 8):
            split = Split(INVOCATIONS // lanes, lanes, vectors)
            yield f"split {lanes} lanes, {vectors} vectors", partial(matmul, chosen=split), 256
    for lanes in (32, 64, 128, 256, 512, 1024):
        yield f"rows {lanes} lanes", partial(rows, lanes=lanes), max(lanes, 256)


def _candidates(compiler: str, parameters: str, kernel: CompiledKernel) -> Iterator[dict[str, Any]]:
    """One for each variant: of those of one compiler with the same parameters, a device takes the first that it can."""
    texts = {file.name: file.text for file in kernel.files}
    for variant in kernel.document["variants"]:
        points = {point["name"]: point for point in variant["entry_points"]}
        yield {
            "compiler": compiler,
            "parameters": parameters,
            "features": variant["requires"]["features"],
            "temporaries": [evaluate(size, {}) for size in variant["temporaries"]],
            "launches": [_launch(launch, points[launch["entry_point"]], texts) for launch in variant["launches"]],
        }


def _launch(launch: Mapping[str, Any], point: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    storage = sorted(one["binding"] for one in point["bindings"] if one["access"] != "uniform")
    uniform = [one["binding"] for one in point["bindings"] if one["access"] == "uniform"]
    return {
        "entry_point": point["name"],
        "text": texts[point["file"]],
        "operands": launch["operands"],
        "bindings": storage,
        "uniforms": [evaluate(found["value"], {}) for found in launch["uniforms"]],
        "uniform_binding": uniform[0] if uniform else None,
        "grid": [evaluate(axis, {}) for axis in launch["grid"]],
    }
