"""Converters that replace some of TVM's PyTorch importer's own.

Besides those of arithmetic and of indexing: its matrix products always give float32, so that a float16 model no longer
fits together.
"""

from __future__ import annotations

from typing import Any

from tvm.relax import op

from tapml.importing.sizes import Bounds
from tapml.importing.torch_arithmetic import arithmetic, as_tensor
from tapml.importing.torch_indexing import indexing
from tapml.importing.torch_program import Converter


def converters(bounds: Bounds) -> dict[str, Converter]:
    """By the operator's name as the importer spells it; `bounds`: least and most of each symbol."""
    products: dict[str, Converter] = dict.fromkeys(("bmm.default", "matmul.default", "mm.default"), _matmul)
    return {
        **arithmetic(),
        **indexing(bounds),
        **products,
        "addmm.default": _addmm,
        "baddbmm.default": _addmm,
    }


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


def _scaled(importer: Any, value: Any, factor: float) -> Any:
    if factor == 1:
        return value
    return importer.block_builder.emit(op.multiply(value, as_tensor(importer, factor, str(value.ty.dtype))))
