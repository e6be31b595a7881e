"""The kernels of a work: one of each compiler, and, to choose parameters by, those of every parameter that a template
has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from re import Pattern
from types import MappingProxyType
from typing import Any

from benchmarks.kernels.works import Work
from tapml.compilers.halves import halved
from tapml.compilers.native.blocks import BLOCKS, BLOCKS_OF_LEFT_PIECES, BLOCKS_OF_PIECES, Blocks
from tapml.compilers.native.compile import NATIVE, generated_of, has_words, recognised
from tapml.compilers.native.matmul import matmul
from tapml.compilers.native.ragged import LineSplit
from tapml.compilers.native.rows import rows
from tapml.compilers.native.skinny import INVOCATIONS, Split
from tapml.compilers.native.skinny_integers import WordSplit
from tapml.compilers.native.stored import read_as_float16, read_as_stored
from tapml.compilers.native.tiles import TILES, Tile
from tapml.compilers.native.winograd import WINOGRAD
from tapml.compilers.tvm.compile import TVM
from tapml.expressions import evaluate
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator

LARGER_TILES = (Tile(16, 8, 8, 16), Tile(8, 8, 8, 16), Tile(8, 8, 16, 16), Tile(4, 8, 8, 16), Tile(8, 4, 16, 8))
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
    Blocks(80, 64, 2, 2, 32),
    Blocks(80, 64, 2, 2, 64),
    Blocks(80, 32, 2, 4, 64),
    Blocks(80, 32, 2, 2, 32),
    Blocks(64, 32, 2, 2, 64),
    Blocks(32, 64, 2, 2, 64),
    Blocks(64, 64, 2, 2, 64),
)

BLOCKS_OF_WORDS = (
    *BLOCKS_OF_PIECES,
    *BLOCKS_OF_LEFT_PIECES,
    Blocks(64, 64, 2, 2, 16),
    Blocks(64, 64, 2, 4, 16),
    Blocks(64, 32, 2, 4, 16),
    Blocks(32, 64, 2, 4, 32),
    Blocks(64, 32, 4, 2, 32),
    Blocks(64, 32, 2, 2, 32),
    Blocks(32, 32, 2, 4, 64),
)
"""Of products with weights that are integers, besides."""

PACKED = ((), ("left",), ("right",), ("right narrow",), ("left", "right"))

_VARIANT = "256"


def plan(work: Work, sweep: Pattern[str] | None, prepared: bool = False) -> dict[str, Any]:
    """What measure.mjs is given of a work. `sweep`: of parameters that are tried, too, what their names have in
    them. `prepared`: kernels are tried, too, without launches that read nothing but weights, which the runtime runs
    once, when a model is loaded."""
    operator = work.operator()
    last = sum(argument["role"] == "input" for argument in operator.arguments)
    given = []
    for place, (argument, found) in enumerate(zip(operator.arguments, operator.types({}), strict=True)):
        below = work.integers.get(place)
        dtype, nbytes = ("float16", found.nbytes // 2) if place in work.halves else (found.dtype, found.nbytes)
        given.append({"role": argument["role"], "dtype": dtype, "bytes": nbytes, "below": below})
    weights = range(last - work.rotated, 0 if work.cached else last)
    candidates = [*_compiled(operator, work), *(_swept(operator, sweep, work) if sweep else ())]
    if prepared:
        # What words would be written as is as large as they are, and kernels of few rows read these.
        sizes = {place: given[place]["bytes"] for place in weights if given[place]["dtype"] != "uint32"}
        candidates += [made for one in candidates if (made := _prepared(one, sizes)) is not None]
    return {
        "name": work.name,
        "dtype": work.dtype,
        "arguments": given,
        "rotated": [*range(last - work.rotated, last)],
        "candidates": candidates,
    }


_MOST_KEPT = 1.8
"""Times the bytes of the weights that it is of, as in the runtime (runner_js/src/runtime/preparing.ts)."""


def _prepared(candidate: Mapping[str, Any], weights: Mapping[int, int]) -> dict[str, Any] | None:
    """The same where launches that read nothing but `weights`, bytes of arguments by their number, run once."""

    def written(launch: Mapping[str, Any]) -> set[int]:
        found = zip(launch["operands"], launch["writes"], strict=True)
        return {one["temporary"] for one, writes in found if writes and "temporary" in one}

    def is_fixed(launch: Mapping[str, Any]) -> bool:
        return all("temporary" in one or one.get("argument") in weights for one in launch["operands"])

    launches = candidate["launches"]
    once = [number for number, launch in enumerate(launches) if is_fixed(launch)]
    while True:
        others = set[int]().union(*(written(launch) for number, launch in enumerate(launches) if number not in once))
        pure = [one for one in once if not others & {read.get("temporary") for read in launches[one]["operands"]}]
        if len(pure) == len(once):
            break
        once = pure
    kept = set[int]().union(*(written(launches[number]) for number in once))
    read = {one["argument"] for number in once for one in launches[number]["operands"] if "argument" in one}
    most = _MOST_KEPT * sum(weights[place] for place in read)
    if not once or sum(candidate["temporaries"][one] for one in kept) > most:
        return None
    parameters = ", ".join(filter(None, (candidate["parameters"], "weights packed once")))
    return {**candidate, "parameters": parameters, "once": once, "kept": sorted(kept)}


def _compiled(operator: Operator, work: Work) -> Iterator[dict[str, Any]]:
    for compiler in (TVM, NATIVE):
        kernel = compiler.compile([operator], (_VARIANT,)).get(operator.name)
        if kernel is not None and kernel.document["variants"]:
            found = read_as_stored(kernel, operator, work.halves) if work.halves else kernel
            assert found is not None
            yield from texts_of(compiler.name, "", found)


def _swept(operator: Operator, named: Pattern[str], work: Work) -> Iterator[dict[str, Any]]:
    """Each text once, by the first parameters that give it."""
    seen: set[str] = set()
    for parameters, template, threads in _templates(work.stored or has_words(operator)):
        if not named.search(parameters):
            continue
        found = recognised(operator, threads)
        if found is None:
            return
        matrices = parameters.startswith("blocks")
        as_float16 = work.stored and matrices
        if as_float16:
            found = read_as_float16(found, work.halves)
        launches = generated_of(found, (template,), matrices=matrices, dots=True)
        key = "".join(launch.text for launch in launches or ())
        if launches is None or key in seen:
            continue
        seen.add(key)
        made = NATIVE.document(operator, _VARIANT, launches)
        read = halved(made, work.halves) if work.halves and not as_float16 else made
        assert read is not None
        yield from texts_of("native", parameters, read)


def _templates(of_words: bool) -> Iterable[tuple[str, Any, int]]:
    yield "winograd", partial(matmul, chosen=WINOGRAD), 256
    for splits in (1, 2, 3, 4, 8, 16):
        for tile in (*TILES, *LARGER_TILES):
            text = f"{tile.rows}x{tile.columns} x {tile.high}x{tile.wide}{f', {splits} parts' if splits > 1 else ''}"
            for packed in PACKED:
                some = f", packed {' and '.join(packed)}" if packed else ""
                yield f"tile {text}{some}", partial(matmul, chosen=replace(tile, splits=splits), packed=packed), 256
    for blocks in (*BLOCKS, *OTHER_BLOCKS, *(BLOCKS_OF_WORDS if of_words else ())):
        for splits in (1, 2, 3, 4):
            text = f"{blocks.rows}x{blocks.columns}x{blocks.depth} x {blocks.high}x{blocks.wide}"
            text += f", {splits} parts" if splits > 1 else ""
            for packed in PACKED:
                some = f", packed {' and '.join(packed)}" if packed else ""
                chosen = replace(blocks, splits=splits)
                yield f"blocks {text}{some}", partial(matmul, chosen=chosen, packed=packed), 256
    for lanes, vectors in product((4, 8, 16, 32, 64, 128, 256), (1, 2, 4, 8)):
        for ahead, eights, together in product((False, True), (False, True), (1, 2, 4, 8)):
            if vectors % together == 0:
                split = Split(INVOCATIONS // lanes, lanes, vectors, together, ahead, eights)
                text = f"{lanes} lanes, {vectors} vectors{' of eight' if eights else ''}"
                text += f", {together} together" if together > 1 else ""
                yield f"split {text}{', ahead' if ahead else ''}", partial(matmul, chosen=split), 256
    for columns, lanes, vectors in product((1, 2, 4), (8, 16, 32, 64, 128, 256), (1, 2, 4)):
        lines = LineSplit(lanes, columns, vectors)
        yield f"lines {columns} columns, {lanes} lanes, {vectors} vectors", partial(matmul, chosen=lines), 256
    for columns, lanes, words in product((1, 2, 4), (8, 16, 32, 64, 128, 256), (1, 2, 4, 8)) if of_words else ():
        for fours in (False, True)[: 2 if words % 4 == 0 else 1]:
            for staged in (False, True):
                text = f"words {columns} columns, {lanes} lanes, {words} words{' by fours' if fours else ''}"
                of = WordSplit(columns, lanes, words, fours, staged)
                yield f"{text}{', staged' if staged else ''}", partial(matmul, chosen=of), 256
    for lanes in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        yield f"rows {lanes} lanes", partial(rows, lanes=lanes), max(lanes, 256)


def texts_of(
    compiler: str, parameters: str, kernel: CompiledKernel, sizes: Mapping[str, int] = MappingProxyType({})
) -> Iterator[dict[str, Any]]:
    """What measure.mjs is given of a kernel, at these sizes of its symbols. One for each variant: of those of one
    compiler with the same parameters, a device takes the first that it can."""
    texts = {file.name: file.text for file in kernel.files}
    for variant in kernel.document["variants"]:
        points = {point["name"]: point for point in variant["entry_points"]}
        yield {
            "compiler": compiler,
            "parameters": parameters,
            "features": variant["requires"]["features"],
            "temporaries": [evaluate(size, sizes) for size in variant["temporaries"]],
            "textures": [
                {**texture, "size": [evaluate(size, sizes) for size in texture["size"]]}
                for texture in variant.get("textures", ())
            ],
            "launches": [
                _launch(launch, points[launch["entry_point"]], texts, sizes) for launch in variant["launches"]
            ],
        }


def _launch(
    launch: Mapping[str, Any], point: Mapping[str, Any], texts: Mapping[str, str], sizes: Mapping[str, int]
) -> dict[str, Any]:
    bound = sorted((one["binding"], one["access"]) for one in point["bindings"] if one["access"] != "uniform")
    uniform = [one["binding"] for one in point["bindings"] if one["access"] == "uniform"]
    return {
        "entry_point": point["name"],
        "text": texts[point["file"]],
        "operands": launch["operands"],
        "bindings": [binding for binding, _ in bound],
        "writes": [access != "read" for _, access in bound],
        "uniforms": [evaluate(found["value"], sizes) for found in launch["uniforms"]],
        "uniform_binding": uniform[0] if uniform else None,
        "grid": [evaluate(axis, sizes) for axis in launch["grid"]],
    }
