"""Loops of the reference in another order: the same results, bit by bit, and only where each element keeps its own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from running_programs import lowered_of, made_up, run
from tvm import relax

from tapml.lowering.lower import lower
from tapml.operators.guard import guarded
from tapml.operators.program import Expression, OperatorProgram, Store, integer
from tapml.platforms import reference as references
from tapml.platforms.reference import Reference
from tapml.platforms.vectors import Vectorized, vectorized

_OP = relax.op

MADE = {
    "conv2d": (lambda x, w: _OP.nn.conv2d(x, w, padding=1), (1, 3, 9, 21), (5, 3, 3, 3)),
    "strided": (lambda x, w: _OP.nn.conv2d(x, w, strides=2, padding=2), (1, 3, 13, 75), (4, 3, 5, 5)),
    "depthwise": (lambda x, w: _OP.nn.conv2d(x, w, padding=1, groups=6), (2, 6, 4, 16), (6, 1, 3, 3)),
    "conv1d": (lambda x, w: _OP.nn.conv1d(x, w), (1, 4, 35), (6, 4, 3)),
    "narrow": (lambda x, w: _OP.nn.conv2d(x, w), (1, 3, 6, 7), (2, 3, 3, 3)),
    "matmul": (_OP.matmul, (3, 40), (40, 50)),
    "vector": (_OP.matmul, (1, 33), (33, 128)),
    "batched": (_OP.matmul, (2, 3, 9, 8), (2, 3, 8, 20)),
    "pool": (lambda x, w: _OP.add(_OP.nn.max_pool2d(x, (3, 3), padding=(1, 1)), w), (1, 2, 6, 40), (1,)),
}


def _program(name: str, dtype: str = "float32") -> OperatorProgram:
    make, *shapes = MADE[name]
    builder = relax.BlockBuilder()
    x, w = (relax.Var(n, relax.TensorType(shape, dtype)) for n, shape in zip("xw", shapes, strict=True))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(make(x, w))
        builder.emit_func_output(out)
    (operator,) = lower(builder.finalize(), 1).operators
    assert isinstance(operator.program, OperatorProgram)
    return operator.program


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("level", [0, 1])
def test_every_element_is_the_same_bit_by_bit(name: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(name)
    found = vectorized(guarded(program))
    assert found.lanes
    assert found.steps < program.turns
    random = np.random.default_rng(3)
    ordinary = [random.standard_normal(buffer.shape).astype(buffer.dtype) for buffer in program.parameters]
    odd = [made_up(buffer, random) for buffer in program.parameters]
    model = lowered_of([program])
    monkeypatch.setattr(references, "_FEW_STEPS", 0 if level else 1 << 40)
    fast = Reference(model)
    monkeypatch.setattr(references, "vectorized", lambda given: Vectorized(given, frozenset(), 1 << 41))
    plain = Reference(model)
    for arrays in (ordinary, odd):
        one, other = (run(built, program, arrays) for built in (fast, plain))
        assert all(tensor.intact for tensor in one)
        np.testing.assert_array_equal(one[-1].array, other[-1].array)
    assert np.isfinite(run(fast, program, ordinary)[-1].array).all()


def test_what_reads_its_neighbours_keeps_its_order() -> None:
    program = _program("matmul")
    (block,) = program.blocks
    (store,) = block.body
    assert isinstance(store, Store)
    assert vectorized(program).lanes

    def changed(body: Store, **more: object) -> OperatorProgram:
        return dataclasses.replace(program, blocks=(dataclasses.replace(block, body=(body,), **more),))

    own, column = store.value.operands[0], store.indices[1]
    beside = Expression("min", "int64", (Expression("add", "int64", (column, integer(1))), integer(49)))
    elsewhere = dataclasses.replace(own, operands=(store.indices[0], beside))
    others = dataclasses.replace(store.value, operands=(elsewhere, store.value.operands[1]))
    half = Expression("floordiv", "int64", (column, integer(2)))
    for different in (
        changed(dataclasses.replace(store, value=others)),
        changed(dataclasses.replace(store, indices=(store.indices[0], half))),
        changed(store, annotations={"schedule_rule": "sequential"}),
        changed(dataclasses.replace(store, value=Expression("call", "float32", (store.value,), "exp"))),
    ):
        assert vectorized(different) == Vectorized(different, frozenset(), different.turns)
