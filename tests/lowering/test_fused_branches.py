"""What would read more buffers than a kernel may bind is cut where it costs least."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering import fuse as fusing
from tapml.lowering.fuse import MOST_BUFFERS, fuse


def scaled(builder: Any, given: list[Any]) -> Any:
    """(x - mean) * scale + shift."""
    x, mean, scale, shift = given
    return builder.emit(op.add(builder.emit(op.multiply(builder.emit(op.subtract(x, mean)), scale)), shift))


def branches(count: int, *, apart: bool = False, product: bool = False) -> tvm.IRModule:
    """The sum of so many tensors that are scaled, the first of which may be a `product`; `apart`: another one besides,
    which nothing else is made of."""
    builder = relax.BlockBuilder()
    some = 4 * (count + apart) + product
    given = [relax.Var(f"x{place}", relax.TensorType((8, 8), "float32")) for place in range(some)]
    with builder.function("main", given):
        with builder.dataflow():
            if product:
                given = [builder.emit(op.matmul(given[0], given[-1])), *given[1:-1]]
            parts = [scaled(builder, given[4 * place : 4 * place + 4]) for place in range(count + apart)]
            total = parts[0]
            for part in parts[1:count]:
                total = builder.emit(op.add(total, part))
            results = [builder.emit_output(one) for one in (builder.emit(op.nn.relu(total)), *parts[count:])]
        builder.emit_func_output(relax.Tuple(results))
    module = relax.transform.LegalizeOps()(builder.finalize())
    return relax.transform.AnnotateTIROpPattern()(module)


def buffers(module: tvm.IRModule) -> list[int]:
    """Of each call of a kernel."""
    kernels = relax.transform.FuseTIR()(fuse(module)[1])
    bindings = [binding for block in kernels["main"].body.blocks for binding in block.bindings]
    calls = [one.value for one in bindings if getattr(getattr(one.value, "op", None), "name", "") == "relax.call_tir"]
    return [len(call.args[1].fields) + 1 for call in calls]


def test_what_a_kernel_can_bind_is_one() -> None:
    assert buffers(branches(2)) == [9]


def test_a_branch_is_a_kernel_of_its_own() -> None:
    assert buffers(branches(3)) == [9, 6], "two that are scaled, and what is made of their sum and the third"
    assert buffers(branches(5)) == [9, 10, 6]


def test_what_a_product_is_followed_by_stays_with_it() -> None:
    found = buffers(branches(3, product=True))
    assert len(found) <= 3, "the product, with what is made of it alone, and the branches"
    assert max(found) <= MOST_BUFFERS


def test_operators_elsewhere_stay_as_they_were() -> None:
    """Though they are of the same functions."""
    assert buffers(branches(3, apart=True)) == [9, 6, 5]


def test_without_a_branch_the_widest_operator_stays_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusing, "_branch", lambda *given: None)
    found = buffers(branches(3))
    assert len(found) > 2
    assert max(found) <= MOST_BUFFERS
