"""The kernels of a work: one of each compiler, and, to choose parameters by, those of every parameter that a template
has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from benchmarks.kernels.works import Work
from tapml.compilers.native.compile import NATIVE, generated
from tapml.compilers.native.matmul import matmul
from tapml.compilers.native.rows import rows
from tapml.compilers.native.skinny import INVOCATIONS, Split
from tapml.compilers.native.tiled import TILES, Tile
from tapml.compilers.tvm.compile import TVM
from tapml.compilers.tvm.variants import parse_specs
from tapml.expressions import evaluate
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator

LARGER_TILES = (Tile(16, 8, 16, 8), Tile(8, 8, 16, 8), Tile(8, 8, 16, 16), Tile(4, 8, 16, 8), Tile(8, 4, 8, 16))
"""Besides those that the template chooses from."""

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
            yield _candidate(compiler.name, "", kernel)


def _swept(operator: Operator) -> Iterator[dict[str, Any]]:
    """Each text once, by the first parameters that give it."""
    seen: set[str] = set()
    for parameters, template, threads in _templates():
        launches = generated(operator, threads, (template,))
        if launches is None or len(launches) != 1 or launches[0].text in seen:
            continue
        seen.add(launches[0].text)
        (spec,) = parse_specs([_VARIANT])
        yield _candidate("native", parameters, NATIVE.document(operator, spec, launches))


def _templates() -> Iterable[tuple[str, Any, int]]:
    for tile in (*TILES, *LARGER_TILES):
        text = f"{tile.rows}x{tile.columns} x {tile.high}x{tile.wide}"
        yield f"tile {text}", partial(matmul, chosen=tile), 256
    for lanes in (4, 8, 16, 32, 64, 128):
        for vectors in (1, 2, 4, 8):
            split = Split(INVOCATIONS // lanes, lanes, vectors)
            yield f"split {lanes} lanes, {vectors} vectors", partial(matmul, chosen=split), 256
    for lanes in (32, 64, 128, 256, 512, 1024):
        yield f"rows {lanes} lanes", partial(rows, lanes=lanes), max(lanes, 256)


def _candidate(compiler: str, parameters: str, kernel: CompiledKernel) -> dict[str, Any]:
    (variant,) = kernel.document["variants"]
    texts = {file.name: file.text for file in kernel.files}
    points = {point["name"]: point for point in variant["entry_points"]}
    return {
        "compiler": compiler,
        "parameters": parameters,
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
