"""Read an ONNX file and say clearly what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.importing.inputs import InputSpec
from tapml.importing.onnx_operators import converter
from tapml.importing.onnx_tensors import check_tensors, subgraphs, tensors

CONTROL_FLOW = ("If", "Loop", "Scan")
"""Operators that hold graphs."""

_AGAIN = ": copy it again, or export the model again; onnx.checker.check_model says whether a file is whole"
"""What to do about a file that is damaged."""


def read(path: Path) -> Any:
    """The model, without the contents of external data files. Raises InputError where the file or
    an external data file is missing, or it is not an ONNX model.
    """
    try:
        import onnx
    except ImportError as error:
        raise InputError(f"{path}: reading ONNX needs the package onnx: pip install 'tapml[onnx]'") from error
    try:
        model = onnx.load(path, load_external_data=False)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error
    except Exception as error:  # protobuf has its own errors
        raise InputError(f"{path} is not a valid ONNX file: {error}{_AGAIN}") from error
    if not model.ir_version or not model.graph.output:
        raise InputError(f"{path} is not a valid ONNX file: it holds no graph{_AGAIN}")
    if model.functions:
        from onnx import inliner

        try:
            model = inliner.inline_local_functions(model)
        except Exception as error:  # C++ exceptions of its own
            raise InputError(f"{path} is not a valid ONNX file: {error}{_AGAIN}") from error
    check_tensors(model, path)
    for node in nodes(model.graph):
        # protobuf gives bytes for what is no UTF-8.
        if not isinstance(node.op_type, str) or not isinstance(node.domain, str):
            raise InputError(
                f"{path} is not a valid ONNX file: the operator {node.op_type!r} has a name that is no text{_AGAIN}"
            )
    return model


def _check_given(graph: Any, path: Path, outer: frozenset[str] = frozenset()) -> None:
    """Raises InputError for the first operator, or output of a graph, that reads what nothing gives. `outer`: what
    graphs around this one have."""
    weights = [tensor.name for tensor in graph.initializer]
    weights += [tensor.values.name for tensor in graph.sparse_initializer]
    computed = [name for node in graph.node for name in node.output]
    given = outer.union(weights, computed, (found.name for found in graph.input))
    for node in graph.node:
        if missing := next((name for name in node.input if name and name not in given), None):
            place = node.name or next(filter(None, node.output), "unnamed")
            raise InputError(
                f"{path} is not a valid ONNX file: {node.op_type} (at {place}) reads {missing}, and no input, weight "
                "or operator gives that: export the model again"
            )
        for subgraph in subgraphs(node):
            _check_given(subgraph, path, given)
    if missing := next((found.name for found in graph.output if found.name not in given), None):
        raise InputError(
            f"{path} is not a valid ONNX file: nothing gives the output {missing} of the graph {graph.name}: export "
            "the model again"
        )


def fill_in(node: Any, opset: int) -> None:
    """The attributes that it leaves at their defaults: what it is written out to has none of its own."""
    from onnx import AttributeProto, defs

    if node.domain not in ("", "ai.onnx") or not defs.has(node.op_type, opset):
        return
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, opset).attributes.items():
        if name not in given and attribute.default_value.type != AttributeProto.UNDEFINED:
            node.attribute.append(attribute.default_value)


def _write_out(constant: Any) -> None:
    """A constant that is an attribute of numbers as one that is a tensor, which is all that TVM's importer knows."""
    from onnx import helper, numpy_helper

    (attribute,) = constant.attribute
    dtype = {"value_float": "float32", "value_int": "int64"}.get(attribute.name.removesuffix("s"))
    if dtype is not None:
        array = np.array(helper.get_attribute_value(attribute), dtype)
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(array)))


def with_known_operators(model: Any, path: Path) -> Any:
    """The model in operators that TVM's importer has.

    Operators it lacks are written out where ONNX defines them by others (Attention of opset 23, for
    one); others are left. Raises InputError naming the first that holds graphs of its own, which
    nothing can compute by itself; subgraphs are looked into.
    """
    _check_given(model.graph, path)
    lacking: set[str] = set()
    # What is written out may hold operators that have to be written out themselves.
    while (found := {node.op_type for node in nodes(model.graph) if not known(node)}) - lacking:
        lacking |= found
        model = _expanded(model, lacking)
    for node in nodes(model.graph):
        if node.op_type == "Constant":
            _write_out(node)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    for node in nodes(model.graph):
        if not known(node) and any(True for _ in subgraphs(node)):
            raise InputError(
                f"{path}: TVM's ONNX importer lacks the operator {described(node, opsets)}: export the model without it"
            )
    return model


def described(node: Any, opsets: Mapping[str, int]) -> str:
    """An operator with its set, and the node's name."""
    name = node.name or (node.output[0] if node.output else "unnamed")
    return f"{node.op_type} ({node.domain or 'ai.onnx'} opset {opsets.get(node.domain, '?')}, node {name!r})"


def known(node: Any) -> bool:
    """Whether TVM's importer has its operator, or tapml's own."""
    from tvm.relax.frontend.onnx import onnx_frontend

    if converter(node) is not None:
        return True
    if node.domain not in ("", "ai.onnx"):
        return False
    # TVM shows what it can convert in no public way.
    return node.op_type in CONTROL_FLOW or node.op_type in onnx_frontend._get_convert_map()


def _expanded(model: Any, operators: set[str]) -> Any:
    from onnx import inliner, shape_inference

    chosen = [("", name) for name in sorted(operators)]
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    for node in nodes(model.graph):
        if node.op_type in operators:
            fill_in(node, opset)
    try:
        # Some definitions depend on the operands' types.
        typed = shape_inference.infer_shapes(model)
        return inliner.inline_selected_functions(typed, chosen, inline_schema_functions=True)
    except Exception:  # an onnx too old for this, or a graph it cannot infer: the check will tell
        return model


def nodes(graph: Any) -> Iterator[Any]:
    """All nodes of a graph and of the graphs inside its nodes."""
    for node in graph.node:
        yield node
        for subgraph in subgraphs(node):
            yield from nodes(subgraph)


def input_specs(model: Any, path: Path) -> list[InputSpec]:
    """What the model takes, weights left out. Raises InputError for inputs that are no tensors."""
    from onnx import helper

    weights = {tensor.name for tensor in model.graph.initializer}
    specs = []
    for value in model.graph.input:
        if value.name in weights:
            continue
        if not value.type.HasField("tensor_type"):
            raise InputError(f"{path}: the input {value.name} is no tensor; tapml takes tensors only")
        tensor = value.type.tensor_type
        try:
            dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{path}: the input {value.name} is of no type that numpy has") from error
        shape = tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None
        specs.append(InputSpec(value.name, dtype, shape, bound=_table_rows(model.graph, value.name)))
    return specs


def _dimension(dimension: Any) -> int | str | None:
    """Some exporters write -1, or the name "?", for any size."""
    if dimension.HasField("dim_value"):
        return int(dimension.dim_value) if dimension.dim_value >= 0 else None
    return None if dimension.dim_param in ("", "?", "-1") else str(dimension.dim_param)


def _table_rows(graph: Any, name: str) -> int | None:
    """The rows of the smallest table that the input `name` indexes, followed through casts and
    reshapes.
    """
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    same, rows = {name}, []
    for node in graph.node:
        if node.op_type in ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze") and node.input[0] in same:
            same.add(node.output[0])
        if node.op_type == "Gather" and node.input[1] in same and node.input[0] in shapes:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            rows.append(shapes[node.input[0]][axis])
    return min(rows, default=None)


def files(model: Any, path: Path) -> list[Path]:
    """The file, followed by its external data files where it has some."""
    locations = {
        entry.value for tensor in _external(model) for entry in tensor.external_data if entry.key == "location"
    }
    return [path, *(path.parent / location for location in sorted(locations))]


def fingerprint(paths: Iterable[Path]) -> str:
    """SHA-256 of what these files hold, one after the other."""
    result = hashlib.sha256()
    for name in paths:
        with name.open("rb") as file:
            hashlib.file_digest(file, lambda: result)
    return result.hexdigest()


def _external(model: Any) -> Iterator[Any]:
    from onnx import TensorProto

    for tensor in tensors(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor
