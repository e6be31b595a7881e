"""Which schedule an operator is given, and what is put right before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from helpers import compiled_anew
from tapml.compilers.tvm.compile import BASE, webgpu_target
from tapml.compilers.tvm.schedules import cost, schedule
from tapml.importing.activations import product
from tapml.importing.kernel_calls import call
from tapml.importing.quantise import Q4F16
from tapml.lowering.fuse import MOST_BUFFERS
from tapml.lowering.lower import lower
from tapml.lowering.operator import Operator


def operator(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Operator:
    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{n}", relax.TensorType(shape, "float32")) for n, shape in enumerate(shapes)]
    with builder.function("main", parameters):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(function(builder, *parameters)))
        builder.emit_func_output(out)
    (made,) = lower(builder.finalize(), len(shapes)).operators
    return made


def scheduled(made: Operator) -> tvm.IRModule:
    return schedule(tvm.IRModule({"main": made.prim_func}), webgpu_target(BASE))


def depthwise(_: Any, data: Any, weight: Any) -> Any:
    return relax.op.nn.conv2d(data, weight, padding=1, groups=32)


def test_an_invocation_computes_an_element_of_a_depthwise_convolution() -> None:
    """dlight gives each a workgroup, most of which has nothing to do: 100 times as slow on a software GPU."""
    made = operator(depthwise, (1, 32, 80, 80), (32, 1, 3, 3))
    (launch,) = compiled_anew(made).document["variants"][0]["launches"]
    assert launch["grid"] == [32 * 80 * 80 // 256, 1, 1]
    assert cost(scheduled(made)) < 32 * 80 * 80 * 64 / 4096


def test_few_long_sums_are_added_up_by_workgroups() -> None:
    made = operator(lambda _, x: relax.op.mean(x, [1]), (4, 8192))
    (launch,) = compiled_anew(made).document["variants"][0]["launches"]
    assert launch["grid"] == [4, 1, 1]


def test_what_is_added_to_a_sum_of_one_term_is_added_once() -> None:
    """TVM moves it into the sum's start and its step."""

    def added(builder: Any, x: Any, weight: Any, y: Any) -> Any:
        return relax.op.add(y, builder.emit(relax.op.nn.conv2d(x, weight, groups=8)))

    text = compiled_anew(operator(added, (1, 8, 20, 20), (8, 1, 1, 1), (1, 8, 20, 20))).files[0].text
    assert text.count("x2_ptr[") == 1


def test_sums_of_integers_that_are_terms_of_a_sum_are_in_registers() -> None:
    """Of a product of 8-bit integers with weights of 4 bits: in memory they would be as many as groups for each
    element."""
    types = [((3, 16), "uint32"), ((3, 1), "float32"), ((40, 8), "uint32"), ((40, 2), "float32")]
    builder = relax.BlockBuilder()
    given = [relax.Var(f"x{n}", relax.TensorType(*found)) for n, found in enumerate(types)]
    with builder.function("main", given):
        with builder.dataflow():
            made = call(builder, lambda *parts: product(*parts, 64, "float32", Q4F16), given, name="made", alone=True)
            out = builder.emit_output(made)
        builder.emit_func_output(out)
    (found,) = lower(builder.finalize(), len(types)).operators
    (variant,) = compiled_anew(found).document["variants"]
    assert variant["temporaries"] == []
    (launch,) = variant["launches"]
    assert launch["grid"] == [1, 1, 1]


def test_no_kernel_binds_more_buffers_than_browsers_allow() -> None:
    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{n}", relax.TensorType((1, 4), "float32")) for n in range(30)]
    with builder.function("main", parameters):
        with builder.dataflow():
            grown = [builder.emit(relax.op.exp(part)) for part in parameters]
            whole = builder.emit(relax.op.concat(grown, 0))
            stacked = builder.emit(relax.op.stack(grown, 0))
            out = builder.emit_output(relax.op.add(whole, builder.emit(relax.op.squeeze(stacked, [1]))))
        builder.emit_func_output(out)
    lowered = lower(builder.finalize(), 30)
    assert max(len(made.arguments) for made in lowered.operators) <= MOST_BUFFERS
