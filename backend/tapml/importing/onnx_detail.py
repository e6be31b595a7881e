"""The values between an ONNX model's operators, as the oracle computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.importing.inputs import RawStep
from tapml.importing.model import Array, Intermediate
from tapml.importing.onnx_file import described
from tapml.importing.onnx_run import Oracle, read_by
from tapml.importing.onnx_tensors import subgraphs

_TOGETHER = 16
"""Nodes that are run at once."""

_WEIGHTS = 8 << 20
"""Bytes of their weights: while a piece begins it has them three times."""


@dataclass(frozen=True)
class Detail:
    """Floating-point values of the file, in the order of its nodes: their names, what they are for people, and what
    they are in each step."""

    names: list[str]
    said: list[str]
    expected: list[list[Array]]


def intermediates(
    path: Path, model: Any, steps: Sequence[RawStep], start: Callable[[bytes, Path | None], Oracle]
) -> Iterator[Intermediate]:
    """What each node of the `model` that `path` holds gives. The model is run a few nodes at a time, so that no more of
    its values and weights are held at once. Raises InputError where the oracle cannot give it."""
    said = _said(model)
    pieces = _pieces(model)
    live = [dict(step.arrays) for step in steps]
    for place, piece in enumerate(pieces):
        names = [name for node in piece for name in node.output if name in said]
        if not names:
            continue
        try:
            arrays = [*_run(path, _graph_of(model, piece, names, live), names, live, start)]
        except InputError:
            if len(pieces) == 1:
                raise
            # What runs as a whole need not run in pieces.
            names = [name for later in pieces[place:] for node in later for name in node.output if name in said]
            given = [dict(step.arrays) for step in steps]
            whole = _graph_of(model, [node for one in pieces for node in one], names, given)
            arrays, pieces[place + 1 :] = [*_run(path, whole, names, given, start)], []
        later = {name for following in pieces[place + 1 :] for node in following for name in node.input}
        for name, of_steps in zip(names, zip(*arrays, strict=True), strict=True):
            for number, array in enumerate(of_steps):
                if name in later:
                    live[number][name] = array
                yield number, said[name], array
        del arrays
        for known in live:
            for name in known.keys() - later - steps[0].arrays.keys():
                del known[name]


def _pieces(model: Any) -> list[list[Any]]:
    """Its nodes in order, a few in each. What has graphs of its own or gives no tensors stays in one piece."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    together = model.graph.sparse_initializer or any(
        "Sequence" in node.op_type or "Optional" in node.op_type or any(True for _ in subgraphs(node)) for node in nodes
    )
    if together:
        return [nodes]
    sizes = {tensor.name: len(tensor.raw_data) for tensor in model.graph.initializer}
    pieces: list[list[Any]] = []
    held = 0
    for node in nodes:
        weights = sum(sizes.get(name, 0) for name in node.input)
        if not pieces or len(pieces[-1]) == _TOGETHER or held + weights > _WEIGHTS:
            pieces.append([])
            held = 0
        pieces[-1].append(node)
        held += weights
    return pieces


def _graph_of(model: Any, nodes: Sequence[Any], names: Sequence[str], given: Sequence[Mapping[str, Array]]) -> Any:
    """A model of these nodes, which gives `names`."""
    import onnx

    read = {name for node in nodes for name in read_by(node)}
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = model.graph.name
    constants = [node for node in model.graph.node if node.op_type == "Constant" and node.output[0] in read]
    part.graph.node.extend([*constants, *nodes])
    arrays = given[0]
    part.graph.initializer.extend(t for t in model.graph.initializer if t.name in read and t.name not in arrays)
    part.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    inputs = {value.name: value for value in model.graph.input}
    for name in arrays.keys() & read:
        shapes = {known[name].shape for known in given}
        kind = onnx.helper.np_dtype_to_tensor_dtype(arrays[name].dtype)
        shape = list(shapes.pop()) if len(shapes) == 1 else None
        part.graph.input.append(inputs.get(name) or onnx.helper.make_tensor_value_info(name, kind, shape))
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return part


def _run(
    path: Path,
    model: Any,
    names: Sequence[str],
    given: Sequence[Mapping[str, Array]],
    start: Callable[[bytes, Path | None], Oracle],
) -> Iterator[list[Array]]:
    """The values `names` for the arrays `given` in each step."""
    inputs = [value.name for value in model.graph.input]
    try:
        content = model.SerializeToString()
    except ValueError as error:  # protobuf's, of 2 GB and more
        raise InputError(f"{path} cannot be run in detail: {error}") from error
    del model  # its weights are in `content`, and then in the oracle
    runtime = start(content, path.parent)
    del content
    for arrays in given:
        yield runtime.run(names, {name: arrays[name] for name in inputs})


def in_detail(
    path: Path, model: Any, steps: Sequence[RawStep], start: Callable[[bytes, Path | None], Oracle]
) -> Detail:
    """Of the `model` that `path` holds. Raises InputError where the oracle cannot give them."""
    said = _said(model)
    names = [*said]
    given = [step.arrays for step in steps]
    whole = [node for node in model.graph.node if node.op_type != "Constant"]
    found = [*_run(path, _graph_of(model, whole, names, given), names, given, start)]
    kept = [place for place in range(len(said)) if all(map(_is_float, (arrays[place] for arrays in found)))]
    return Detail(
        [names[place] for place in kept],
        [said[names[place]] for place in kept],
        [[arrays[place] for place in kept] for arrays in found],
    )


def _said(model: Any) -> dict[str, str]:
    """The names of all that nodes give, with what they are for people."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    return {
        name: f"{name!r}, which {described(node, opsets)} gives"
        for node in model.graph.node
        for name in node.output
        if name and node.op_type != "Constant"
    }


def _is_float(found: Any) -> bool:
    return isinstance(found, np.ndarray) and found.dtype.kind == "f" and found.size > 0


def outputs_of(model: Any, detail: Detail) -> None:
    """Make a detail's values the outputs of `model`."""
    import onnx

    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in detail.names)
