"""Values of an ONNX graph that are known at import: arrays, or integers that are expressions over sizes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op

from tapml.importing.constants import require_small
from tapml.importing.model import Array
from tapml.importing.relax_ir import Expr
from tapml.importing.sizes import Sizes, integer

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

_FLOATS = {1, 10, 11, 16}
"""TensorProto's float, float16, double, bfloat16."""

_MOVED: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape"), (0,)),
    **dict.fromkeys(("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"), (0,)),
    "Concat": range(1 << 16),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "Where": (1, 2),
}
"""Operators that only move elements, and the operands whose elements they are."""

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": tirx.floordiv,
    "Mod": operator.mod,
    "Min": tirx.min,
    "Max": tirx.max,
}

_CONDITIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Equal": tirx.EQ,
    "Greater": tirx.GT,
    "GreaterOrEqual": tirx.GE,
    "Less": tirx.LT,
    "LessOrEqual": tirx.LE,
}

_MOST_SIZES = 256
"""Elements of a tensor that says a shape."""

_REDUCED: Mapping[str, str] = {"ReduceProd": "Mul", "ReduceSum": "Add", "ReduceMax": "Max", "ReduceMin": "Min"}


@dataclass(frozen=True)
class Known:
    """An array; of objects, integers and TVM's expressions, where an element depends on a symbol.

    `dtype`: what the graph has.
    """

    array: Array
    dtype: str

    @staticmethod
    def of(array: Any) -> Known:
        return Known(np.asarray(array), str(np.asarray(array).dtype))

    @property
    def symbolic(self) -> bool:
        return self.array.dtype == object

    def same(self, other: Known) -> bool:
        """Whether both are the same numbers of the same type."""
        alike = self.dtype == other.dtype and self.array.shape == other.array.shape
        return alike and not self.symbolic and not other.symbolic and self.array.tobytes() == other.array.tobytes()

    @property
    def elements(self) -> list[Any]:
        """In row-major order, integers or expressions."""
        return list(self.array.reshape(-1).tolist())


def symbolic(elements: Sequence[Any], shape: Sequence[int], dtype: str = "int64") -> Known:
    """Of integers and expressions; a plain array where all are integers."""
    if all(isinstance(found, int) for found in elements):
        return Known(np.array(elements, dtype).reshape(shape), dtype)
    array = np.empty(len(elements), object)
    for place, found in enumerate(elements):
        array[place] = found
    return Known(array.reshape(shape), dtype)


def constant(array: Array) -> Expr:
    """An array in a module. (relax.const makes int32 of an int64 without dimensions.)"""
    return relax.const(tvm.runtime.tensor(array))


def tensor_of(builder: Expr, found: Known) -> Expr:
    """A constant, or a tensor of sizes."""
    if not found.symbolic:
        return constant(found.array)
    vector = builder.emit(op.shape_to_tensor(relax.ShapeExpr(found.elements)))
    if found.dtype != "int64":
        vector = builder.emit(op.astype(vector, found.dtype))
    return vector if found.array.ndim == 1 else builder.emit(op.reshape(vector, found.array.shape))


def is_weight(tensor: Any) -> bool:
    """Whether a TensorProto is data (a float that is no scalar): what is computed from it stays computed."""
    return tensor.data_type in _FLOATS and len(tensor.dims) > 0


def evaluate(node: Any, operands: Sequence[Known | None], sizes: Sizes, opsets: Any) -> list[Known] | None:
    """A node's outputs where they can be computed now, else None."""
    if node.op_type in RANDOM:
        return None
    if any(found is not None and found.symbolic for found in operands):
        return _evaluate_symbolic(node, operands, sizes, opsets)
    return _run(node, [None if found is None else found.array for found in operands], opsets)


def _run(node: Any, arrays: Sequence[Any], opsets: Any) -> list[Known] | None:
    """By onnx's own reference implementation."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    given = {name: array for name, array in zip(node.input, arrays, strict=True) if name}
    inputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in given]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    _check_sizes(node, given, opsets)
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, given)
    except Exception:  # whatever it does not know, TVM may
        return None
    results = iter(found)
    return [Known.of(next(results)) if name else Known.of(0) for name in node.output]


def _check_sizes(node: Any, given: Mapping[str, Array], opsets: Any) -> None:
    """Raises InputError where an output would be too large: before it is made."""
    from onnx import helper, numpy_helper, shape_inference

    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
    inputs = [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in given.items()]
    sizes = [numpy_helper.from_array(array, name) for name, array in given.items() if array.size <= _MOST_SIZES]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    model = helper.make_model(helper.make_graph([node], "sizes", inputs, outputs, sizes), opset_imports=opsets)
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph.output
    except Exception:  # what it cannot infer is seen when it is there
        return
    for output in inferred:
        tensor = output.type.tensor_type
        if tensor.elem_type and all(axis.HasField("dim_value") for axis in tensor.shape.dim):
            dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            what = f"the operator {node.op_type} (at {output.name})"
            require_small(what, [axis.dim_value for axis in tensor.shape.dim], dtype)


def _evaluate_symbolic(node: Any, operands: Sequence[Known | None], sizes: Sizes, opsets: Any) -> list[Known] | None:
    kind = node.op_type
    given = [found for found in operands if found is not None]
    if kind in _MOVED:
        return _move(node, operands, opsets)
    if kind == "Cast" and "int" in (dtype := _cast_to(node)):
        return [Known(given[0].array, dtype)]
    if kind in _REDUCED and given[0].array.ndim == 1 and len(given) == 1:
        reduced = functools.reduce(_ARITHMETIC[_REDUCED[kind]], given[0].elements)
        axes = any(a.name == "keepdims" and a.i == 0 for a in node.attribute)
        return [symbolic([sizes.simplified(reduced)], () if axes else (1,), given[0].dtype)]
    if kind in _ARITHMETIC and "int" in given[0].dtype:
        if kind in ("Div", "Mod") and not all(sizes.holds(integer(x) >= 0) for found in given for x in found.elements):
            return None  # ONNX rounds towards zero
        return [functools.reduce(lambda a, b: _elementwise(_ARITHMETIC[kind], a, b, sizes.simplified, a.dtype), given)]
    if kind in _CONDITIONS:
        return [_elementwise(_CONDITIONS[kind], given[0], given[1], sizes.holds, "bool")]
    if kind == "Neg":
        return [_elementwise(operator.mul, given[0], Known.of(-1), sizes.simplified, given[0].dtype)]
    return None


def _elementwise(
    function: Callable[[Any, Any], Any], a: Known, b: Known, finish: Callable[[Any], Any], dtype: str
) -> Known:
    left, right = np.broadcast_arrays(a.array, b.array)
    pairs = zip(Known(left, a.dtype).elements, Known(right, b.dtype).elements, strict=True)
    return symbolic([finish(function(integer(x), integer(y))) for x, y in pairs], left.shape, dtype)


def _move(node: Any, operands: Sequence[Known | None], opsets: Any) -> list[Known] | None:
    """As places in a list, which the node moves about instead."""
    pool: list[Any] = []
    arrays: list[Array | None] = []
    for position, found in enumerate(operands):
        if found is None or position not in _MOVED[node.op_type]:
            if found is not None and found.symbolic:
                return None
            arrays.append(None if found is None else found.array)
            continue
        places = np.arange(len(pool), len(pool) + found.array.size, dtype=np.int64)
        pool += found.elements
        arrays.append(places.reshape(found.array.shape))
    moved = _run(node, arrays, opsets)
    dtype = next(found.dtype for p, found in enumerate(operands) if found is not None and p in _MOVED[node.op_type])
    return moved and [symbolic([pool[place] for place in m.elements], m.array.shape, dtype) for m in moved]


def _cast_to(node: Any) -> str:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(next(a.i for a in node.attribute if a.name == "to")))
