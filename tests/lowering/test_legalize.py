"""Kernels that are made once for calls that are alike, against those that TVM makes of each call."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering import legalize


@pytest.fixture
def module() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x, y, z = (relax.Var(name, relax.TensorType((4, 6), "float32")) for name in "xyz")
    with builder.function("main", [x, y, z]):
        with builder.dataflow():
            products = [builder.emit(op.multiply(a, b)) for a, b in ((x, y), (x, x), (y, z), (z, z), (z, x))]
            scaled = [builder.emit(op.multiply(value, relax.const(n, "float32"))) for value in products for n in (2, 3)]
            parts = [builder.emit(op.strided_slice(value, [1], [at], [at + 3])) for value in scaled for at in (0, 3)]
            joined = [builder.emit(op.concat(pair, axis)) for pair in ((x, y), (y, y), (y, z)) for axis in (0, 1)]
            shapes = [builder.emit(op.reshape(value, shape)) for value in (x, y) for shape in ((6, 4), (24,))]
            result = builder.emit_output(relax.Tuple([*products, *scaled, *parts, *joined, *shapes]))
        builder.emit_func_output(result)
    return builder.finalize()


def test_the_module_is_the_one_that_tvm_makes(module: tvm.IRModule) -> None:
    assert legalize.legalized(module).script() == relax.transform.LegalizeOps()(module).script()


def test_a_kernel_is_made_once_for_calls_that_are_alike(module: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    plain = legalize.Alike.legalized

    def counted(self: Any, function: legalize.Legalize, builder: Any, call: Any) -> Any:
        def noted(builder: Any, call: Any) -> Any:
            made.append(str(call.op.name))
            return function(builder, call)

        return plain(self, noted, builder, call)

    monkeypatch.setattr(legalize.Alike, "legalized", counted)
    legalize.legalized(module)
    # x * y stands for y * z and z * x, and x * x for z * z; a constant is part of its kernel.
    assert made.count("relax.multiply") == 2 + 10
    assert made.count("relax.strided_slice") == 2
    assert made.count("relax.concat") == 4
    assert made.count("relax.reshape") == 2


def test_sizes_that_are_only_known_at_a_call_are_left_to_tvm() -> None:
    builder, rows = relax.BlockBuilder(), tvm.tirx.Var("rows", "int64")
    x = relax.Var("x", relax.TensorType((rows, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            once = builder.emit(op.multiply(x, x))
            result = builder.emit_output(op.multiply(once, once))
        builder.emit_func_output(result)
    module = builder.finalize()
    assert legalize.legalized(module).script() == relax.transform.LegalizeOps()(module).script()
