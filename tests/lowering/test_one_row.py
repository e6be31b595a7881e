"""Rows that are rounded by an operator of their own, or by those that read them."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax
from tvm.relax import op

from tapml.compilers.auto.in_place import is_better
from tapml.importing.quantise import INT8
from tapml.importing.quantise_module import packed_variables, quantised_module
from tapml.importing.quantise_uses import uses_of
from tapml.lowering.accepts import Accepts
from tapml.lowering.lower import lower
from tapml.lowering.one_row import MOST_AGAIN


def operators(shape: tuple[int, ...], *, native: bool = True) -> list[str]:
    """Of two products that share their rows, `[..., inner]`."""
    builder = relax.BlockBuilder()
    data, *weights = (
        relax.Var(name, relax.TensorType(found, "float32"))
        for name, found in (("x", shape), ("a", (32, shape[-1])), ("b", (48, shape[-1])))
    )
    with builder.function("main", [data, *weights]):
        with builder.dataflow():
            products = [builder.emit(op.matmul(data, builder.emit(op.permute_dims(weight)))) for weight in weights]
            result = builder.emit_output(relax.Tuple(products))
        builder.emit_func_output(result)
    module = builder.finalize()
    packed = {weight: packed_variables(weight, str(weight.name), INT8, False) for weight in weights}
    made: tvm.IRModule = quantised_module(module, uses_of(module, weights), packed, all_round=True)
    found = lower(made, len(made["main"].params), accepts=Accepts(is_better) if native else None)
    return sorted(operator.name.rstrip("0123456789") for operator in found.operators)


@pytest.mark.parametrize("shape", [(1, 40), (1, 1, 64), (1, MOST_AGAIN // 2)])
def test_each_product_of_one_row_rounds_it(shape: tuple[int, ...]) -> None:
    names = operators(shape)
    assert len(names) == 2
    assert all(name.endswith("_of_one_row") for name in names)


@pytest.mark.parametrize("shape", [(2, 40), (2, 1, 64), (1, MOST_AGAIN // 2 + 1)])
def test_several_rows_and_long_ones_are_rounded_once_for_all_products(shape: tuple[int, ...]) -> None:
    assert operators(shape) == ["int8_matmul", "int8_matmul", "int8_rows"]


def test_so_is_one_row_of_kernels_that_tvm_makes() -> None:
    assert operators((1, 40), native=False) == ["int8_matmul", "int8_matmul", "int8_rows"]
