"""Attention of a model as one operator, and products of heads as those of whole tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from tvm import relax, topi
from tvm.relax import op

from lowering.bodies import Body, N, given, lowered, run
from tapml.compilers.auto.in_place import is_better
from tapml.compilers.native.compile import attention_gains
from tapml.lowering.accepts import Accepts
from tapml.lowering.lower import lower
from tapml.operators.program import OperatorProgram

ANY = Accepts(is_better, lambda _: True)
REAL = Accepts(is_better, attention_gains)
HEADS = {"q": (2, 6, 4), "k": (2, 5, 4), "v": (2, 5, 3)}


def attention(emit: Any, q: Any, k: Any, v: Any, mask: Any = None) -> list[Any]:
    scores = emit(op.matmul(emit(q * relax.const(0.5)), emit(op.permute_dims(k, [0, 2, 1]))))
    scores = scores if mask is None else emit(op.add(scores, mask))
    return [op.matmul(emit(op.nn.softmax(scores)), v)]


def kernels_of(shapes: dict[str, tuple[Any, ...]], body: Body, accepts: Accepts = ANY, n: int = 3) -> list[str]:
    """What is given is nearly the same as without."""
    arrays = given(shapes, n)
    _, wanted = run(lowered(shapes, body, None), arrays, n)
    kernels, found = run(lowered(shapes, body, accepts), arrays, n)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    return kernels


@pytest.mark.parametrize("mask", [None, (6, 5), (2, 1, 5)])
def test_scores_their_softmax_and_what_it_mixes_are_one_operator(mask: tuple[int, ...] | None) -> None:
    shapes = {**HEADS, **({} if mask is None else {"mask": mask})}
    (kernel,) = kernels_of(shapes, attention)
    assert kernel.endswith("softmax_matmul1")


@pytest.mark.parametrize("name", ["attention", "merged", "joined"])
def test_an_operator_may_be_called_what_functions_in_the_making_are(name: str) -> None:
    def body(emit: Any, q: Any, k: Any, v: Any) -> list[Any]:
        doubled = emit.__self__.call_te(topi.multiply, q, q, primfunc_name_hint=name)
        moves = [op.permute_dims(q, axes) for axes in ([1, 0, 2], [2, 0, 1])]
        return [op.nn.softmax(emit(doubled)), *attention(emit, q, k, v), *moves]

    assert [kernel for kernel in kernels_of(HEADS, body) if kernel.endswith("softmax_matmul1")]


@pytest.mark.parametrize("name", ["attention", "merged"])
def test_an_operator_of_it_may_be_called_so(name: str) -> None:
    def body(emit: Any, q: Any, k: Any, v: Any) -> list[Any]:
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
        return [op.matmul(emit(emit.__self__.call_te(topi.nn.softmax, scores, primfunc_name_hint=name)), v)]

    assert len(kernels_of(HEADS, body)) == 1


def test_no_more_is_in_memory_than_scores_and_weights() -> None:
    """What a reference platform computes: the scale and the mask are added where scores are read."""
    (operator,) = lowered({**HEADS, "mask": (6, 5)}, attention, ANY).operators
    program = operator.program
    assert isinstance(program, OperatorProgram)
    large = [buffer.name for buffer in program.temporaries if buffer.shape == (2, 6, 5)]
    assert len(large) == 2
    assert sum(len(buffer.shape) == 2 for buffer in program.temporaries) == 2, "greatest scores and sums of rows"


def test_sizes_that_vary() -> None:
    shapes = {"q": (2, N, 4), "k": (2, N, 4), "v": (2, N, 3)}
    assert len(kernels_of(shapes, attention)) == 1


def test_a_mask_of_constants() -> None:
    seen = np.tril(np.ones((6, 5), np.float32)) * 2

    def body(emit: Any, q: Any, k: Any, v: Any) -> list[Any]:
        return attention(emit, q, k, v, relax.const(seen))

    assert len(kernels_of(HEADS, body)) == 1


@pytest.mark.parametrize("place", ["scores", "weights"])
def test_what_something_else_reads_is_in_memory(place: str) -> None:
    def body(emit: Any, q: Any, k: Any, v: Any) -> list[Any]:
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
        weights = emit(op.nn.softmax(scores))
        return [op.matmul(weights, v), op.tanh(scores if place == "scores" else weights)]

    assert any(kernel.startswith("softmax") for kernel in kernels_of(HEADS, body))


def test_a_result_of_the_model_is_in_memory() -> None:
    def body(emit: Any, q: Any, k: Any, v: Any) -> list[Any]:
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
        weights = emit(op.nn.softmax(scores))
        return [op.matmul(weights, v), scores]

    assert any(kernel.startswith("softmax") for kernel in kernels_of(HEADS, body))


def test_a_softmax_along_another_axis_is_asked_for_and_refused() -> None:
    """Weights of columns are no attention: the operator would be one that no kernel takes."""

    def body(emit: Any, q: Any, k: Any, v: Any) -> list[Any]:
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
        return [op.matmul(emit(op.nn.softmax(scores, axis=1)), v)]

    assert len(kernels_of({"q": (250, 64, 4), "k": (250, 8, 4), "v": (250, 8, 12)}, body, REAL)) == 3


@pytest.mark.parametrize(
    ("heads", "rows", "keys", "width", "merged"),
    [
        (250, 64, 100, 12, True),
        (125, 64, 100, 12, True),
        (124, 64, 100, 12, True),
        (46, 64, 100, 12, False),
        (12, 256, 256, 96, True),
        (12, 256, 256, 100, False),
        (125, 128, 100, 12, True),
        (250, 33, 100, 12, False),
        (250, 64, 100, 260, False),
        (250, 33, 64, 12, True),
        (12, 128, 128, 32, True),
        (12, 130, 128, 32, True),
        (60, 40, 100, 12, False),
        (2, 12, 65536, 96, False),
        (2, 1, 65536, 96, True),
        (8, 256, 256, 160, False),
    ],
)
def test_only_where_workgroups_have_many_rows_or_little_to_do(
    heads: int, rows: int, keys: int, width: int, merged: bool
) -> None:
    """Between, products of their own are faster, and with long values there are no registers for them."""
    shapes = {"q": (heads, rows, 4), "k": (heads, keys, 4), "v": (heads, keys, width)}
    kernels = [operator.name for operator in lowered(shapes, attention, REAL).operators]
    assert (len(kernels) == 1) is merged


def test_attention_of_attention() -> None:
    """What the first one mixes is what the second one has as scores: it is in one of them."""

    def body(emit: Any, q: Any, k: Any, v: Any) -> list[Any]:
        (first,) = attention(emit, q, k, v)
        weights = emit(op.nn.softmax(emit(first)))
        return [op.matmul(weights, v)]

    assert len(kernels_of({"q": (2, 6, 4), "k": (2, 5, 4), "v": (2, 5, 5)}, body)) == 3


def test_what_the_reference_platform_would_not_run_is_several_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(kernels_of(HEADS, attention)) == 1
    monkeypatch.setattr("tapml.lowering.attention.MOST_TEMPORARY_BYTES", 2 * 2 * 6 * 5 * 4)
    assert len(kernels_of(HEADS, attention)) > 1


# ---------------------------------------------------- heads


def by_heads(emit: Any, q: Any, k: Any) -> list[Any]:
    """As PyTorch has it: [batch * heads, rows, columns] for the product, and the root of the scale for each factor."""
    root = relax.const(0.5)
    q = emit(op.reshape(emit(op.broadcast_to(emit(q * root), (2, 3, 6, 4))), (6, 6, 4)))
    turned = emit(op.multiply(emit(op.permute_dims(k, [0, 1, 3, 2])), root))
    return [op.reshape(emit(op.matmul(q, emit(op.reshape(turned, (6, 4, 5))))), (2, 3, 6, 5))]


def test_products_of_heads_have_their_axes_and_their_scale() -> None:
    shapes = {"q": (2, 3, 6, 4), "k": (2, 3, 5, 4)}
    (kernel,) = kernels_of(shapes, by_heads)
    assert kernel.endswith("matmul_multiply")
    (operator,) = lowered(shapes, by_heads, ANY).operators
    assert [tuple(argument["shape"]) for argument in operator.arguments] == [shapes["k"], shapes["q"], (2, 3, 6, 5)]


def test_a_factor_that_something_else_reads_stays_scaled() -> None:
    def body(emit: Any, q: Any, k: Any) -> list[Any]:
        scaled = emit(q * relax.const(0.5))
        return [op.matmul(scaled, k), op.tanh(scaled)]

    kernels = kernels_of({"q": (2, 6, 4), "k": (2, 4, 5)}, body)
    assert not any(kernel.endswith("matmul_multiply") for kernel in kernels)


def test_a_scale_goes_over_one_product() -> None:
    """Of heads that are mixed before their softmax, each value is one of the model's."""

    def body(emit: Any, q: Any, k: Any, w: Any) -> list[Any]:
        scores = emit(op.matmul(emit(op.multiply(q, relax.const(0.5))), k))
        return [op.matmul(emit(op.permute_dims(scores, [0, 2, 1])), w)]

    kernels = kernels_of({"q": (2, 6, 4), "k": (2, 4, 5), "w": (2, 6, 3)}, body)
    assert kernels == ["fused_matmul_multiply", "fused_transpose_matmul1"]


def test_a_scale_of_one_is_none() -> None:
    def body(emit: Any, q: Any, k: Any) -> list[Any]:
        return [op.matmul(emit(q * relax.const(1.0)), k)]

    assert kernels_of({"q": (2, 6, 4), "k": (2, 4, 5)}, body) == ["matmul"]


def test_halves_are_scaled_where_the_program_scales_them() -> None:
    """A product of float16 may be infinite where that of scaled factors is not."""
    names = ("q", "k")
    shapes = ((2, 6, 4), (2, 4, 5))
    given = [relax.Var(name, relax.TensorType(shape, "float16")) for name, shape in zip(names, shapes, strict=True)]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            scaled = builder.emit(op.multiply(given[0], relax.const(0.5, "float16")))
            out = builder.emit_output(op.matmul(scaled, given[1]))
        builder.emit_func_output(out)
    kernels = [operator.name for operator in lower(builder.finalize(), 2, accepts=ANY).operators]
    assert kernels == ["multiply", "matmul"]


def _summed_in_float16(emit: Any, query: Any, keys: Any) -> Any:
    return emit.__self__.call_te(partial(topi.nn.batch_matmul, transpose_b=False), query, keys, primfunc_name_hint="mm")


@pytest.mark.parametrize(
    ("scored", "count"), [(_summed_in_float16, 3), (lambda _, query, keys: op.matmul(query, keys), 1)]
)
def test_scores_that_are_summed_in_float16_are_an_operator_of_their_own(scored: Body, count: int) -> None:
    """As one operator what it gives would have no bounds: exponentials of scores that are off by several."""
    shapes = {"q": (2, 6, 64), "k": (2, 64, 5), "v": (2, 5, 8)}
    given = [relax.Var(name, relax.TensorType(shape, "float16")) for name, shape in shapes.items()]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            scores = builder.emit(scored(builder.emit, *given[:2]))
            out = builder.emit_output(op.matmul(builder.emit(op.nn.softmax(scores)), given[2]))
        builder.emit_func_output(out)
    assert len(lower(builder.finalize(), 3, accepts=REAL).operators) == count
