"""The door for .onnx files."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tapml.errors import InputError
from tapml.importing.assemble import assemble
from tapml.importing.converted import converted
from tapml.importing.inputs import GatherSteps, RawStep
from tapml.importing.model import Array, Functions, ImportedModel, Intermediate, Progress, Replace
from tapml.importing.onnx_counted import count_name, filled_up
from tapml.importing.onnx_detail import in_detail, intermediates, outputs_of
from tapml.importing.onnx_file import files, fingerprint, input_specs, nodes, read, with_known_operators
from tapml.importing.onnx_fixed import fix_inputs
from tapml.importing.onnx_graph import GraphImporter
from tapml.importing.onnx_nbits import written_out
from tapml.importing.onnx_packed import packed_in
from tapml.importing.onnx_replaced import import_replaced
from tapml.importing.onnx_rounded import NOTHING_ROUNDED, Rounded
from tapml.importing.onnx_run import OnnxReference, OnnxRuntime, drop_unused
from tapml.importing.onnx_turns import Turns
from tapml.importing.onnx_weights import InFile, read_apart
from tapml.importing.onnx_widened import exact, widen
from tapml.importing.quantised import with_packed_of_source
from tapml.importing.sizes import Sizes
from tapml.memory import give_back

_BESIDE = 64 << 20
"""Bytes of a file up to which the oracle runs beside the conversion: each has the weights up to three times, and of
larger ones memory counts for more than a tenth of a second."""


def import_onnx(
    path: Path,
    gather: GatherSteps,
    progress: Progress,
    functions: Functions,
    *,
    loop_limit: int | None = None,
    detailed: bool = False,
    replaced: Replace | None = None,
    rounded: Rounded = NOTHING_ROUNDED,
) -> ImportedModel:
    """Import an ONNX file for the sizes of the given inputs; ONNX Runtime is its oracle.

    `gather` gives the steps for the model's inputs; `functions` compute the operators of their names; `detailed` makes
    every value an output, as `ImportedModel.in_detail` wants it. `loop_limit`: to how many turns loops are written out
    of which values say how many they take, else to some more than the given inputs take. `replaced`: of a weight what
    stands in its place; `rounded`: what its nodes round to 8-bit integers. Raises InputError naming file, node or
    tensor.
    """
    if replaced is not None:

        def again(copy: Path, rounded: Rounded) -> ImportedModel:
            return import_onnx(copy, gather, progress, functions, loop_limit=loop_limit, rounded=rounded)

        return import_replaced(path, replaced, again)
    with ThreadPoolExecutor(1, "oracle") as beside:
        return _imported(path, gather, progress, functions, beside, loop_limit, detailed, rounded)


def _imported(
    path: Path,
    gather: GatherSteps,
    progress: Progress,
    functions: Functions,
    beside: ThreadPoolExecutor,
    loop_limit: int | None,
    detailed: bool,
    rounded: Rounded,
) -> ImportedModel:
    """`beside` is a thread for what holds no lock of Python's."""
    progress(f"reading {path.name}")
    model = read(path)
    sha256 = beside.submit(fingerprint, files(model, path))
    wide_notes = [*widen(model, path), *exact(model)]
    source: Path | bytes = model.SerializeToString() if wide_notes else path
    model = with_known_operators(model, path)
    specs = input_specs(model, path)
    steps = gather(specs)
    outputs = [output.name for output in model.graph.output]
    # Beside the conversion: what ONNX Runtime refuses is seldom worth one, and its messages are good. But a loop may
    # have no end, which the conversion finds.
    loops = not detailed and any(node.op_type == "Loop" for node in nodes(model.graph))
    ask = partial(_ask_oracle, source, path.parent, _oracles(model), outputs)
    asked = None if loops else beside.submit(ask, steps, progress)
    if asked and path.stat().st_size > _BESIDE:
        wait([asked])
        give_back()
    names, raw = outputs, steps

    def closer() -> ImportedModel:
        given = partial(import_onnx, loop_limit=loop_limit, detailed=True, rounded=rounded)
        found = given(path, lambda _: list(raw), lambda _: None, functions)
        return replace(found, functions=functions)

    def plain() -> Any:
        found = read(path)
        widen(found, path)
        exact(found)
        return found

    if detailed:
        assert asked
        detail = in_detail(path, plain(), steps, asked.result().start, rounded.between)
        names, outputs = detail.names, detail.said
        outputs_of(model, detail)
    specs, steps, notes = fix_inputs(model, specs, steps, loops=loop_limit is None)
    drop_unused(model.graph)
    _load_external(model, path)
    of_products = written_out(model)
    progress("converting to Relax")
    turns = Turns(model, steps, loop_limit)
    try:
        sizes = Sizes(specs, steps, {})
        try:
            (module, variables), importer = _convert(model, path, sizes, functions, turns, rounded)
        except InputError:
            if not sizes.mergeable:
                raise
            # Exporters may have several names for one size.
            sizes = Sizes(specs, steps, {}, merged=True)
            (module, variables), importer = _convert(model, path, sizes, functions, turns, rounded)
    except InputError as error:
        missing = asked and asked.result().missing
        if missing and not (error.operator and error.operator in missing):
            # Where ONNX Runtime refused the file for another reason it may be at fault itself.
            raise InputError(f"{error}; {missing}", **error.refusal()) from error
        raise
    counted, limits = importer.counted_outputs, importer.causes

    def as_module(found: Sequence[Array]) -> list[Array]:
        # An oracle ends its loops.
        return [*filled_up(names, found, counted), *(np.zeros(1, np.int32) for _ in limits)]

    def again() -> list[list[Array]]:
        return [as_module(found) for found in _ask_again(ask, raw)]

    def second() -> tuple[str, list[list[Array]]]:
        runtime = OnnxReference(source, path.parent)
        return runtime.name, [as_module(runtime.run(names, step.arrays)) for step in raw]

    def without_weights() -> tuple[Any, InFile]:
        found, in_file = read_apart(path)
        widen(found, path)
        exact(found)
        return found, in_file

    def between(second: bool) -> Iterable[Intermediate]:
        start = OnnxReference if second else answer.start
        return intermediates(path, without_weights, raw, start, rounded.between)

    answer = asked.result() if asked else ask(raw, progress)
    expected = detail.expected if detailed else answer.expected
    give_back()
    packed = {} if detailed else {**packed_in(model.graph), **of_products}
    made = assemble(
        module,
        tensors=itertools.chain(_tensors(model, importer.held), importer.computed),
        held=importer.held,
        steps=steps,
        symbols=sizes.symbols,
        names=variables,
        expected=expected and [as_module(found) for found in expected],
        outputs=[*outputs, *map(count_name, counted), *limits],
        limits=limits,
        oracle=answer.oracle,
        oracle_missing=answer.missing,
        again=again,
        second=second,
        intermediates=None if detailed else between,
        in_detail=None if detailed else closer,
        provenance={
            "kind": "onnx",
            "source": path.name,
            "sha256": sha256.result(),
            "title": path.stem,
            "notes": [*wide_notes, *notes, *map(_counted_note, counted.items()), *turns.notes, *importer.notes],
            "opset": max((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), default=1),
            "producer": f"{model.producer_name} {model.producer_version}".strip(),
        },
    )
    return with_packed_of_source(made, packed) if packed else made


_Oracle: TypeAlias = tuple[str, type[OnnxRuntime] | type[OnnxReference]]


@dataclass(frozen=True)
class _Answer:
    """What the first oracle that runs the model gives; or why none does."""

    start: type[OnnxRuntime] | type[OnnxReference]
    oracle: str | None
    missing: str | None
    expected: list[list[Array]] | None


def _ask_again(ask: Callable[..., _Answer], steps: Sequence[RawStep]) -> list[list[Array]]:
    answer = ask(steps, lambda _: None)
    if answer.expected is None:
        raise InputError(f"{answer.missing}")
    return answer.expected


def _oracles(model: Any) -> list[_Oracle]:
    """Who is asked, in this order."""
    found: list[_Oracle] = [("ONNX Runtime", OnnxRuntime), ("ONNX's reference implementation", OnnxReference)]
    # ONNX Runtime reads MaxUnpool's indices as places in the output_shape (github.com/onnx/onnx/issues/2398).
    misread = any(node.op_type == "MaxUnpool" and len(node.input) > 2 for node in nodes(model.graph))
    return found[::-1] if misread else found


def _ask_oracle(
    source: Path | bytes,
    folder: Path,
    oracles: Sequence[_Oracle],
    outputs: list[str],
    steps: Sequence[RawStep],
    progress: Progress,
) -> _Answer:
    refused: list[str] = []
    for name, start in oracles:
        progress(f"running the model in {name}")
        try:
            runtime = start(source, folder)
            return _Answer(start, runtime.name, None, [runtime.run(outputs, step.arrays) for step in steps])
        except InputError as error:
            refused.append(str(error))
        if importlib.util.find_spec("onnxruntime") is None:  # the second is too slow to be the only one
            break
    return _Answer(OnnxRuntime, None, refused[0], None)


def _load_external(model: Any, path: Path) -> None:
    from onnx.external_data_helper import load_external_data_for_model

    try:
        load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # onnx raises its checker's errors as well as OSError
        raise InputError(f"{path}: its external data cannot be read: {error}") from error


def _counted_note(output: tuple[str, tuple[int, int]]) -> str:
    name, (axis, size) = output
    return f"output {name} has {size} places along axis {axis}, as many as could be: {count_name(name)} of them count"


_Named: TypeAlias = tuple[Any, dict[str, str]]
"""A module, and the names that the file has for its variables."""


def _convert(
    model: Any, path: Path, sizes: Sizes, functions: Functions, turns: Turns, rounded: Rounded
) -> tuple[_Named, GraphImporter]:
    """The module, and the importer, which knows what it computed of shapes alone, and which outputs have counts."""
    opset = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 1)

    def convert() -> tuple[_Named, GraphImporter]:
        importer = GraphImporter(sizes, model.opset_import, functions, turns, rounded)
        return importer.named(importer.from_onnx(model.graph, opset)), importer

    return converted(path, "ONNX", convert)


def _tensors(model: Any, held: Collection[str]) -> Iterator[tuple[str, Array]]:
    """The model's tensors by name, but those that are `held`."""
    from onnx import numpy_helper

    for tensor in model.graph.initializer:
        if tensor.name not in held:
            yield tensor.name, numpy_helper.to_array(tensor)
    for node in nodes(model.graph):
        if node.op_type == "Constant":
            yield from ((node.output[0], numpy_helper.to_array(a.t)) for a in node.attribute if a.name == "value")
