"""The values between an ONNX model's operators, as the oracle computes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.importing.inputs import RawStep
from tapml.importing.model import Array, Intermediate
from tapml.importing.onnx_file import described
from tapml.importing.onnx_run import OnnxRuntime, Oracle, read_by
from tapml.importing.onnx_tensors import subgraphs
from tapml.importing.onnx_weights import InFile

_TOGETHER = 8
"""Nodes that are run at once."""

_WEIGHTS = 2 << 20
"""Bytes of their weights: while a piece begins it has them several times."""
_LARGE = 1 << 20
"""Bytes of a weight that is given to ONNX Runtime apart."""
_FLOAT = 1
"""ONNX's number of float32."""


@dataclass(frozen=True)
class Detail:
    """Floating-point values of the file, in the order of its nodes: their names, what they are for people, and what
    they are in each step."""

    names: list[str]
    said: list[str]
    expected: list[list[Array]]


def intermediates(
    path: Path,
    read: Callable[[], tuple[Any, InFile]],
    steps: Sequence[RawStep],
    start: Callable[[bytes, Path | None], Oracle],
    unsaid: Collection[str] = (),
) -> Iterator[Intermediate]:
    """What each node of the model that `path` holds gives, but for what is `unsaid`; `read` reads it. It is run a few
    nodes at a time, so that no more of its values and weights are held at once. Raises InputError where the oracle
    cannot give it."""
    whole, in_file = read()
    model, weights = _apart(whole)
    del whole
    said = _said(model)
    pieces = _pieces(model, weights, in_file)
    live = [dict(step.arrays) for step in steps]
    for place, piece in enumerate(pieces):
        names = [name for node in piece for name in node.output if name in said]
        if not names:
            continue
        later = {name for following in pieces[place + 1 :] for node in following for name in node.input}
        try:
            held, starts = _held(piece, weights, in_file, start)
            part = [_graph_of(model, {**weights, **held}, piece, names, live)]
            weights = {name: weight for name, weight in weights.items() if name in later}
            del held
            arrays = [*_run(path, part.pop(), names, live, starts)]
            del starts
        except InputError:
            if len(pieces) == 1:
                raise
            # What runs as a whole need not run in pieces.
            names = [name for later in pieces[place:] for node in later for name in node.output if name in said]
            given = [dict(step.arrays) for step in steps]
            _, weights = _apart(read()[0])
            everything = [node for one in pieces for node in one]
            held, starts = _held(everything, weights, in_file, start)
            whole = _graph_of(model, {**weights, **held}, everything, names, given)
            arrays, pieces[place + 1 :], later = [*_run(path, whole, names, given, starts)], [], set()
            del whole, held, starts
        for name, of_steps in zip(names, zip(*arrays, strict=True), strict=True):
            for number, array in enumerate(of_steps):
                if name in later:
                    live[number][name] = array
                if name not in unsaid:
                    yield number, said[name], array
        del arrays
        for known in live:
            for name in known.keys() - later - steps[0].arrays.keys():
                del known[name]


def _held(
    nodes: Sequence[Any],
    weights: Mapping[str, Any],
    in_file: InFile,
    start: Callable[[bytes, Path | None], Oracle],
) -> tuple[dict[str, Any], Callable[[bytes, Path | None], Oracle]]:
    """The large weights that these nodes read, as a model is to have them, and what begins with them."""
    import onnx

    if start is OnnxRuntime:
        arrays = _large(nodes, weights, in_file)
        return _elsewhere(arrays), partial(OnnxRuntime, weights=arrays) if arrays else start
    held = {}
    for name in in_file.places.keys() & {name for node in nodes for name in read_by(node)} & weights.keys():
        held[name] = onnx.TensorProto()
        held[name].CopyFrom(weights[name])
        held[name].raw_data = _in_file(in_file, name).tobytes()
    return held, start


def _large(nodes: Sequence[Any], weights: Mapping[str, Any], in_file: InFile) -> dict[str, Array]:
    """Large weights that these nodes read."""
    read = {name for node in nodes for name in read_by(node)}
    found = {}
    for name, tensor in weights.items():
        if name not in read:
            continue
        if name in in_file.places:
            found[name] = _in_file(in_file, name).reshape(tuple(tensor.dims))
        elif tensor.data_type == _FLOAT and tensor.data_location == tensor.DEFAULT and len(tensor.raw_data) >= _LARGE:
            found[name] = np.frombuffer(tensor.raw_data, "<f4").reshape(tuple(tensor.dims))
    return found


def _in_file(in_file: InFile, name: str) -> Array:
    try:
        return in_file.array(name)
    except OSError as error:
        raise InputError(f"{in_file.path} cannot be read any more: {error}") from error


def _elsewhere(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Weights that are given apart, as a model has them."""
    import onnx

    found = {}
    for name, array in arrays.items():
        found[name] = onnx.TensorProto(name=name, data_type=_FLOAT, dims=array.shape, data_location="EXTERNAL")
        found[name].external_data.add(key="location", value="elsewhere")
    return found


def _apart(model: Any) -> tuple[Any, dict[str, Any]]:
    """A model without its weights, and these by name: protobuf frees a message's parts with the message alone."""
    import onnx

    bare = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    bare.graph.node.extend(model.graph.node)
    bare.graph.input.extend(model.graph.input)
    bare.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    weights = {}
    for tensor in model.graph.initializer:
        weights[tensor.name] = onnx.TensorProto()
        weights[tensor.name].CopyFrom(tensor)
    return bare, weights


def _pieces(model: Any, weights: Mapping[str, Any], in_file: InFile) -> list[list[Any]]:
    """Its nodes in order, a few in each. What has graphs of its own or gives no tensors stays in one piece."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    together = model.graph.sparse_initializer or any(
        "Sequence" in node.op_type or "Optional" in node.op_type or any(True for _ in subgraphs(node)) for node in nodes
    )
    if together:
        return [nodes]
    sizes = {name: len(tensor.raw_data) for name, tensor in weights.items()}
    sizes |= {name: length for name, (_, length) in in_file.places.items()}
    pieces: list[list[Any]] = []
    held = 0
    for node in nodes:
        size = sum(sizes.get(name, 0) for name in node.input)
        if not pieces or len(pieces[-1]) == _TOGETHER or held + size > _WEIGHTS:
            pieces.append([])
            held = 0
        pieces[-1].append(node)
        held += size
    return pieces


def _graph_of(
    model: Any,
    weights: Mapping[str, Any],
    nodes: Sequence[Any],
    names: Sequence[str],
    given: Sequence[Mapping[str, Array]],
) -> Any:
    """A model of these nodes, which gives `names`."""
    import onnx

    read = {name for node in nodes for name in read_by(node)}
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = model.graph.name
    constants = [node for node in model.graph.node if node.op_type == "Constant" and node.output[0] in read]
    part.graph.node.extend([*constants, *nodes])
    arrays = given[0]
    part.graph.initializer.extend(t for name, t in weights.items() if name in read and name not in arrays)
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
    path: Path,
    model: Any,
    steps: Sequence[RawStep],
    start: Callable[[bytes, Path | None], Oracle],
    unsaid: Collection[str] = (),
) -> Detail:
    """Of the `model` that `path` holds, but for what is `unsaid`. Raises InputError where the oracle cannot give
    them."""
    said = _said(model)
    names = [name for name in said if name not in unsaid]
    given = [step.arrays for step in steps]
    whole = [node for node in model.graph.node if node.op_type != "Constant"]
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [*_run(path, _graph_of(model, weights, whole, names, given), names, given, start)]
    kept = [place for place in range(len(names)) if all(map(_is_float, (arrays[place] for arrays in found)))]
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
