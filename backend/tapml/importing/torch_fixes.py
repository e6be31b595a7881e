"""Converters that replace some of TVM's PyTorch importer's own, which are wrong for some dtypes.

Its matrix products always give float32, so a float16 model no longer fits together; its division
by a number makes that number int32 whatever the tensor's dtype is; its x[-1] reads before the
tensor's first element; it writes at indices only where there is one for each dimension; it
adds bools up as bools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.external import call
from tapml.importing.model import Functions
from tapml.importing.sizes import LONGEST, Bounds, integer, variables

_END = 2**31 - 1

Converter = Callable[[Any, Any], Any]
"""From an FX node and the importer to a Relax variable."""


def converters(bounds: Bounds) -> dict[str, Converter]:
    """By the operator's name as the importer spells it; `bounds`: least and most of each symbol."""
    return {
        "addmm.default": _addmm,
        "bmm.default": _matmul,
        "cumsum.default": _cumsum,
        "div.Tensor_mode": _divide,
        "index_put.default": _index_put,
        "matmul.default": _matmul,
        "mm.default": _matmul,
        "select.int": _select,
        "slice.Tensor": lambda node, importer: _slice(node, importer, bounds),
    }


def computed_elsewhere(functions: Functions) -> Converter:
    """Of an operator that TVM lacks: PyTorch computes it, or the function of its name."""

    def convert(node: Any, importer: Any) -> Any:
        name = str(node.target)
        own = name.split(".")[-2] if name.count(".") else name
        fields = {
            "source": "python" if own in functions else "torch",
            "operator": own if own in functions else name,
            "attributes": dict(node.kwargs),
        }
        outputs = node.meta["val"]
        count = len(outputs) if isinstance(outputs, tuple | list) else 1
        try:
            made = call(fields, importer.retrieve_args(node), [True] * count, functions)
        except InputError as error:
            raise InputError(
                f"TVM's PyTorch importer lacks the operator {node.target.__name__}, and {error}: export the model "
                "without it, or give a Python function that computes it with --external FILE.py"
            ) from error
        return importer.block_builder.emit(made)

    return convert


def _matmul(node: Any, importer: Any) -> Any:
    left, right = (importer.env[argument] for argument in node.args)
    return importer.block_builder.emit(op.matmul(left, right))


def _addmm(node: Any, importer: Any) -> Any:
    """beta * bias + alpha * (left @ right)."""
    emit = importer.block_builder.emit
    bias, left, right = (importer.env[argument] for argument in node.args)
    product = _scaled(importer, emit(op.matmul(left, right)), node.kwargs.get("alpha", 1))
    beta = node.kwargs.get("beta", 1)
    return product if beta == 0 else emit(op.add(product, _scaled(importer, bias, beta)))


def _divide(node: Any, importer: Any) -> Any:
    """Division rounded down ("floor"), towards zero ("trunc") or not at all."""
    emit = importer.block_builder.emit
    left, right = importer.retrieve_args(node)
    dtype = str((left if isinstance(left, relax.Expr) else right).ty.dtype)
    left, right = (v if isinstance(v, relax.Expr) else relax.const(v, dtype) for v in (left, right))
    mode = node.kwargs.get("rounding_mode")
    if mode == "floor":
        return emit(op.floor_divide(left, right))
    if mode == "trunc" and "int" not in dtype:
        return emit(op.trunc(emit(op.divide(left, right))))
    # On integers Relax's divide rounds towards zero.
    return emit(op.divide(left, right))


def _index_put(node: Any, importer: Any) -> Any:
    """`values` at places along one dimension (a cache's rows); of two at the same place the last one."""
    emit = importer.block_builder.emit
    data, values = importer.env[node.args[0]], importer.env[node.args[2]]
    along = [(dimension, importer.env[found]) for dimension, found in enumerate(node.args[1]) if found is not None]
    accumulate = len(node.args) > 3 and node.args[3]
    if accumulate or len(along) != 1 or len(along[0][1].ty.shape) != 1:
        return importer._index_put(node)
    dimension, index = along[0]
    dtype = str(index.ty.dtype)
    shape, (count,) = [*data.ty.shape.values], index.ty.shape.values
    size = shape[dimension]
    values = emit(op.broadcast_to(values, [*shape[:dimension], count, *shape[dimension + 1 :]]))
    index = emit(op.where(op.less(index, relax.const(0, dtype)), op.add(index, relax.const(int(size), dtype)), index))
    row = emit(op.expand_dims(op.arange(0, size, 1, dtype), 1))
    number = op.where(op.equal(row, index), op.arange(0, count, 1, dtype), relax.const(-1, dtype))
    number = emit(op.max(emit(number), 1))
    taken = emit(op.take(values, emit(op.maximum(number, relax.const(0, dtype))), axis=dimension))
    there = op.greater_equal(number, relax.const(0, dtype))
    there = emit(op.reshape(there, [size, *([1] * (len(shape) - dimension - 1))]))
    return emit(op.where(there, taken, data))


def _cumsum(node: Any, importer: Any) -> Any:
    """A running sum; of bools it counts, as PyTorch's does."""
    tensor = importer.env[node.args[0]]
    if str(tensor.ty.dtype) != "bool":
        return importer._cumsum(node)
    wanted = node.kwargs.get("dtype")
    dtype = "int64" if wanted is None else importer._convert_data_type(str(wanted))
    emit = importer.block_builder.emit
    return emit(op.cumsum(emit(op.astype(tensor, dtype)), node.args[1]))


def _select(node: Any, importer: Any) -> Any:
    """One element along a dimension; a negative index counts from the end."""
    tensor = importer.env[node.args[0]]
    dimension, index = (int(number) for number in node.args[1:3])
    emit = importer.block_builder.emit
    if index >= 0:
        return emit(op.take(tensor, relax.const(index, "int64"), axis=dimension))
    # The size may be a symbol still, so that no place can be told yet: a slice counts from the end by itself.
    end = index + 1 if index < -1 else _END
    return emit(op.squeeze(emit(op.strided_slice(tensor, [dimension], [index], [end])), [dimension]))


def _slice(node: Any, importer: Any, bounds: Bounds) -> Any:
    """Of which the shape is as simple as the symbols' bounds allow, so that it fits what it is combined with."""
    given = importer.retrieve_args(node)
    parts: list[Any] = [*given, *(0, None, None, 1)[len(given) - 1 :]]
    tensor, dimension, start, end, step = parts
    dimension %= tensor.ty.ndim
    size = tensor.ty.shape.values[dimension]
    analyzer = tvm.sym.Analyzer()
    for symbol in {found for value in (size, start, end) if value is not None for found in variables(value)}:
        low, high = bounds.get(symbol.name, (1, LONGEST))
        analyzer.bind(symbol, tvm.ir.Range(low, high + 1))

    def place(value: Any) -> Any:
        value = integer(value)
        if not analyzer.can_prove(value >= 0) and analyzer.can_prove(value < 0):
            value = tirx.max(value + size, 0)
        return analyzer.simplify(tirx.min(value, size))

    first, last = place(0 if start is None else start), place(size if end is None else end)
    if analyzer.can_prove(first == 0) and analyzer.can_prove(last == size) and step == 1:
        return tensor
    return importer.block_builder.emit(op.strided_slice(tensor, [dimension], [first], [last], [step], True))


def _scaled(importer: Any, value: Any, factor: float) -> Any:
    if factor == 1:
        return value
    return importer.block_builder.emit(op.multiply(value, relax.const(factor, str(value.ty.dtype))))
