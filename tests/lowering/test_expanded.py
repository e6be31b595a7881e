"""Chains of operators are cut before their expressions double with each of them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering import expanded
from tapml.lowering.fuse import fuse


def chain(length: int) -> tvm.IRModule:
    """x * tanh(x) again and again: each reads what is before it twice."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(length):
                value = builder.emit(op.multiply(value, builder.emit(op.tanh(value))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps()(builder.finalize())
    return relax.transform.AnnotateTIROpPattern()(module)


def sizes(module: tvm.IRModule) -> list[int]:
    """The loads of each kernel's largest expression, all written out."""
    kernels = relax.transform.FuseTIR()(fuse(module)[1])
    programs = {v.name_hint: f for v, f in kernels.functions.items() if isinstance(f, tvm.tirx.PrimFunc)}
    called = [binding.value.args[0].name_hint for binding in kernels["main"].body.blocks[0].bindings]
    return [expanded.expanded(programs[name], [1] * len(programs[name].params)) for name in called]


@pytest.mark.parametrize("length", [20, 40, 90])
def test_a_chain_is_as_much_work_as_it_is_long(length: int) -> None:
    """Written out in one kernel it is 2 ** length."""
    found = sizes(chain(length))
    assert max(found) <= expanded.MOST_EXPANDED
    assert len(found) <= length
    assert sum(found) <= 30 * length


def test_a_short_chain_stays_one_kernel() -> None:
    assert len(sizes(chain(3))) == 1


def test_what_is_cut_gives_what_it_gave() -> None:
    module = fuse(chain(20))[1]
    x = np.linspace(-3, 3, 16, dtype=np.float32).reshape(4, 4)
    machine = relax.VirtualMachine(tvm.compile(relax.transform.FuseTIR()(module), "llvm"), tvm.cpu())
    wanted = x.astype(np.float64)
    for _ in range(20):
        wanted = wanted * np.tanh(wanted)
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(x)).numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_a_value_that_is_summed_is_not_computed_again() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(100):
                value = builder.emit(op.divide(value, builder.emit(op.sum(value, axis=1, keepdims=True))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    module = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(builder.finalize()))
    before = relax.transform.FuseOps()(module)
    assert len(fuse(module)[1].functions) == len(before.functions)
