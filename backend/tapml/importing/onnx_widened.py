"""ONNX's types that neither numpy nor WebGPU has, in one that both have and that holds all of their numbers.

bfloat16 is computed in float32, and not rounded in between. float8 and the types of less than a byte hold what is
stored or quantized; what would round to them is refused, for it means something else in a wider type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.importing.onnx_tensors import subgraphs, tensors

_WIDER: Mapping[str, str] = {
    "BFLOAT16": "FLOAT",
    **dict.fromkeys(("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"), "FLOAT"),
    **dict.fromkeys(("FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2"), "FLOAT"),
    **dict.fromkeys(("INT4", "INT2"), "INT8"),
    **dict.fromkeys(("UINT4", "UINT2"), "UINT8"),
}

_ENDS = {"INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3)}

_TYPED = ("to", "dtype", "output_dtype", "precision", "stash_type", "softmax_precision")
"""Attributes that name a type."""


_ROUNDING = ("Cast", "CastLike", "QuantizeLinear")
"""Operators that make numbers of another type."""


def exact(model: Any) -> list[str]:
    """Take from products with weights of few bits the leave to round what is multiplied: nobody has to use it, and ONNX
    Runtime does on some processors. Changes the model; gives a note where there was one.
    """
    notes = set()
    for graph in _graphs(model.graph):
        for node in graph.node:
            for attribute in [found for found in node.attribute if found.name == "accuracy_level"]:
                node.attribute.remove(attribute)
                if attribute.i > 1:
                    notes.add(f"{node.op_type}: accuracy_level {attribute.i} allows rounding, which nobody does here")
    return sorted(notes)


def widen(model: Any, path: Path) -> list[str]:
    """Change the model, which has no such type then; gives a note for each that it had.

    Raises InputError naming a node that rounds to one.
    """
    types = _types()
    wider = {types[name]: types[wide] for name, wide in _WIDER.items() if name in types}
    found = {kind for kind in _mentioned(model.graph) if kind in wider}
    if not found:
        return []
    names = {number: name for name, number in types.items()}
    kinds = _kinds(model)
    for graph in _graphs(model.graph):
        _limit(graph, {name: names[kind] for name, kind in kinds.items() if kind in wider}, path)
    for tensor in tensors(model.graph):
        if tensor.data_type in wider:
            _widen(tensor, wider[tensor.data_type], path)
    for graph in _graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type in wider:
                value.type.tensor_type.elem_type = wider[value.type.tensor_type.elem_type]
        for attribute in _typed(graph):
            attribute.i = wider.get(attribute.i, attribute.i)
    said = sorted((names[kind].lower(), {"FLOAT": "float32"}.get(_WIDER[names[kind]], "8 bits")) for kind in found)
    return [f"{name} is held in {wide}, for WebGPU has none: nothing is rounded to it" for name, wide in said]


def _limit(graph: Any, kinds: Mapping[str, str], path: Path) -> None:
    """What is quantized to less than a byte saturates at its ends still. `kinds`: names of the values' types."""
    from onnx import helper, numpy_helper

    nodes = []
    for node in graph.node:
        nodes.append(node)
        (kind,) = {kinds[name] for name in node.output if name in kinds} or {""}
        given = {kinds[name] for name in node.input if name in kinds}
        if node.op_type == "QuantizeLinear" and kind in _ENDS:
            whole, said = node.output[0], f"{node.output[0]}_in_8_bits"
            node.output[0] = said
            low, high = (f"{said}_{end}" for end in ("least", "most"))
            for name, end in zip((low, high), _ENDS[kind], strict=True):
                dtype = _numpy(_types()[_WIDER[kind]])
                graph.initializer.append(numpy_helper.from_array(dtype.type(end), name))
            nodes.append(helper.make_node("Clip", [said, low, high], [whole]))
        elif node.op_type == "BitCast" and (kind or given):
            raise InputError(f"{path}: BitCast (at {node.output[0]}) is of {kind or min(given)}, which WebGPU has not")
        elif node.op_type in _ROUNDING and kind not in ("", "BFLOAT16", kinds.get(node.input[0])):
            raise InputError(
                f"{path}: the operator {node.op_type} (at {node.output[0]}) rounds to {kind.lower()}, which WebGPU has "
                "not: export the model without it, or with float16"
            )
    del graph.node[:]
    graph.node.extend(nodes)


def _widen(tensor: Any, wider: int, path: Path) -> None:
    from onnx import TensorProto, numpy_helper
    from onnx.external_data_helper import load_external_data_for_tensor

    if tensor.data_location == TensorProto.EXTERNAL:
        try:
            load_external_data_for_tensor(tensor, str(path.parent))
        except Exception as error:  # onnx raises its checker's errors as well as OSError
            raise InputError(f"{path}: its external data cannot be read: {error}") from error
    try:
        array = numpy_helper.to_array(tensor).astype(_numpy(wider))
    except Exception as error:  # as many ways to be damaged
        raise InputError(f"{path}: the tensor {tensor.name[:200]!r} cannot be read: {error}") from error
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _kinds(model: Any) -> dict[str, int]:
    """The types of values, as far as they can be told."""
    from onnx import shape_inference

    with contextlib.suppress(Exception):  # what it cannot infer stays unknown
        model = shape_inference.infer_shapes(model)
    found: dict[str, int] = {}
    for graph in _graphs(model.graph):
        values = (*graph.input, *graph.output, *graph.value_info)
        found |= {value.name: value.type.tensor_type.elem_type for value in values}
        found |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        for node in graph.node:
            found.update((name, a.i) for name in node.output for a in node.attribute if a.name == "to")
    return found


def _mentioned(graph: Any) -> Iterator[int]:
    """Types that it has anywhere."""
    yield from (tensor.data_type for tensor in tensors(graph))
    for part in _graphs(graph):
        yield from (v.type.tensor_type.elem_type for v in (*part.input, *part.output, *part.value_info))
        yield from (attribute.i for attribute in _typed(part))


def _typed(graph: Any) -> Iterator[Any]:
    """Attributes that name a type."""
    for node in graph.node:
        yield from (attribute for attribute in node.attribute if attribute.name in _TYPED)


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _types() -> dict[str, int]:
    from onnx import TensorProto

    return dict(TensorProto.DataType.items())


def _numpy(kind: int) -> Any:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(kind)
