"""Moves that are read in place: which kernels are left, and that what they give is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, topi
from tvm.relax import op

from lowering.bodies import Body, N, given, lowered, run
from tapml.compilers.auto.in_place import is_better
from tapml.compilers.choose import CHOICES, made_for
from tapml.errors import InputError
from tapml.lowering.accepts import Accepts, AcceptsMove
from tapml.lowering.operator import Operator


def kernels_of(
    shapes: dict[str, tuple[Any, ...]], body: Body, accepts: AcceptsMove = is_better, n: int = 3
) -> list[str]:
    """Where moves are read in place; both ways give the same, to the last bit."""
    arrays = given(shapes, n)
    _, wanted = run(lowered(shapes, body, None), arrays, n)
    kernels, found = run(lowered(shapes, body, Accepts(accepts)), arrays, n)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return kernels


def heads(emit: Any, x: Any, tokens: Any) -> Any:
    return emit(op.permute_dims(emit(op.reshape(x, (tokens, 4, 8))), [1, 0, 2]))


def attention(emit: Any, x: Any, w: Any) -> list[Any]:
    """Heads are taken apart for two products, and put together again for a third."""
    tokens = x.ty.shape[0]
    query = heads(emit, x, tokens)
    keys = emit(op.permute_dims(heads(emit, emit(op.tanh(x)), tokens), [0, 2, 1]))
    mixed = emit(op.matmul(emit(op.nn.softmax(emit(op.matmul(query, keys)))), query))
    together = emit(op.reshape(emit(op.permute_dims(mixed, [1, 0, 2])), (tokens, 32)))
    return [op.matmul(together, w)]


def test_products_read_heads_where_they_lie() -> None:
    shapes = {"x": (6, 32), "w": (32, 16)}
    moved, _ = run(lowered(shapes, attention, None), given(shapes, 3), 3)
    assert [kernel for kernel in moved if "transpose" in kernel] == [
        "fused_reshape_transpose",
        "fused_tir_tanh_reshape_transpose_transpose1",
        "fused_transpose2_reshape1",
    ]
    assert kernels_of(shapes, attention) == [
        "fused_tir_tanh_reshape_transpose_transpose1",
        "fused_reshape_transpose_matmul",
        "softmax",
        "fused_reshape_transpose_matmul1",
        "fused_transpose2_reshape1_matmul2",
    ]


@pytest.mark.parametrize("n", [1, 3, 8])
def test_views_between_are_part_of_it(n: int) -> None:
    """A reshape of symbols is fused with nothing."""
    kernels = kernels_of({"x": (N, 32), "w": (32, 16)}, attention, n=n)
    assert all("matmul" in kernel for kernel in kernels if "transpose" in kernel)


def test_a_move_that_several_read_is_gone_where_all_do_without() -> None:
    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        turned = emit(op.permute_dims(x, [1, 0]))
        return [op.matmul(turned, w), op.nn.softmax(turned)]

    shapes = {"x": (24, 16), "w": (24, 12)}
    assert len(kernels_of(shapes, body)) == 2
    one_of_them = kernels_of(shapes, body, lambda move, reader, both, readers: "softmax" in reader.name)
    assert one_of_them == ["transpose", "matmul", "softmax"]


def test_chains_of_moves_between_kernels_disappear() -> None:
    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        first = emit(op.permute_dims(x, [1, 0]))
        second = emit(op.flip(first, 1))
        return [op.matmul(first, w), op.matmul(second, w)]

    kernels = kernels_of({"x": (24, 16), "w": (24, 12)}, body, lambda move, reader, both, readers: True)
    assert len(kernels) == 2


def test_results_are_moved() -> None:
    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        turned = emit(op.permute_dims(x, [1, 0]))
        return [turned, op.matmul(turned, w)]

    kernels = kernels_of({"x": (24, 16), "w": (24, 12)}, body, lambda move, reader, both, readers: True)
    assert kernels == ["transpose", "matmul"]


def test_a_choice_for_each_element_that_a_product_reads_often_is_not_worth_it() -> None:
    def body(emit: Any, x: Any, y: Any, w: Any) -> list[Any]:
        return [op.matmul(emit(op.concat([x, y], 1)), w)]

    shapes = {"x": (128, 60), "y": (128, 68), "w": (128, 512)}
    assert kernels_of(shapes, body) == ["concatenate", "matmul"]


def test_operators_that_are_refused_stay_as_they_are() -> None:
    shapes = {"x": (6, 32), "w": (32, 16)}
    moved, _ = run(lowered(shapes, attention, None), given(shapes, 3), 3)
    assert kernels_of(shapes, attention, lambda *asked: False) == moved


def test_moves_are_read_in_place_by_kernels_of_our_own_alone() -> None:
    assert {name: made_for(found) is not None for name, found in CHOICES.items()} == {
        "auto": True,
        "native": True,
        "tvm": False,
    }


def test_parts_of_a_split_are_slices_and_those_that_are_left_are_one_kernel() -> None:
    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        parts = emit(op.split(x, [8, 24], 1))
        first, second, third = (emit(relax.TupleGetItem(parts, place)) for place in range(3))
        return [op.matmul(first, w), op.permute_dims(second, [1, 0]), op.permute_dims(third, [1, 0])]

    assert kernels_of({"x": (6, 40), "w": (8, 16)}, body) == [
        "fused_strided_slice1_transpose_strided_slice2_transpose",
        "fused_strided_slice_matmul",
    ]


@pytest.mark.parametrize(("sections", "axis"), [(3, 1), (2, -1), ([1], 1), ([2, 3, 4], -1)])
def test_slices_are_what_splits_give(sections: Any, axis: int) -> None:
    def body(emit: Any, x: Any) -> list[Any]:
        parts = emit(op.split(x, sections, axis))
        return [op.tanh(emit(relax.TupleGetItem(parts, place))) for place in range(len(parts.ty.fields))]

    kernels_of({"x": (N, 6)}, body)


def test_what_cannot_be_lowered_with_moves_in_place_is_lowered_without(caplog: pytest.LogCaptureFixture) -> None:
    def body(emit: Any, x: Any) -> list[Any]:
        return [emit(op.nn.softmax(emit(op.permute_dims(x, [1, 0])), axis=-1))]

    def failing(*_: Any) -> bool:
        raise InputError("a defect")

    shapes = {"x": (5, 7)}
    assert len(kernels_of(shapes, body, lambda *_: True)) == 1
    assert kernels_of(shapes, body, failing) == kernels_of(shapes, body, lambda *_: False)
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("no move of this model is read in place")
    assert "a defect" in said
    caplog.clear()


def test_of_each_part_of_a_split_it_is_asked_once() -> None:
    """What asking takes grows with the parts, for each question makes kernels."""
    asked: list[tuple[str, str]] = []

    def accepts(move: Operator, reader: Operator, both: Operator, readers: int) -> bool:
        asked.append((move.name, reader.name))
        return is_better(move, reader, both, readers)

    def body(emit: Any, x: Any) -> list[Any]:
        parts = emit(op.split(x, 12, axis=1))
        norms = [emit(op.nn.softmax(emit(parts[number]))) for number in range(12)]
        return [op.multiply(norm, relax.const(float(number + 2))) for number, norm in enumerate(norms)]

    assert len(kernels_of({"x": (8, 96)}, body, accepts)) == 12
    assert len(asked) == len(set(asked)) == 12


def test_what_several_outputs_are_made_of_is_moved() -> None:
    """A kernel of several outputs reads what a move wrote; the other moves of the model are read in place."""

    def body(emit: Any, x: Any) -> list[Any]:
        def both(found: Any) -> list[Any]:
            return [topi.nn.softmax(found, axis=1), topi.sum(found, axis=1)]

        two = emit(emit.__self__.call_te(both, emit(op.permute_dims(x, [1, 0])), primfunc_name_hint="both"))
        moved = emit(op.permute_dims(emit(op.tanh(x)), [1, 0]))
        parts = [emit(relax.TupleGetItem(two, place)) for place in (0, 1)]
        return [*map(op.tanh, parts), op.nn.softmax(moved)]

    assert sum("transpose" in kernel for kernel in kernels_of({"x": (5, 7)}, body, lambda *_: True)) == 2
