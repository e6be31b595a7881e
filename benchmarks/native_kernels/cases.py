"""Operators drawn at random: shapes about the sizes of tiles, chains before and behind what each is about."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tvm import relax

from benchmarks.native_kernels.attention import attention_of_models, attention_to_a_cache
from benchmarks.native_kernels.drawing import MOST, SIZES, Drawing
from tapml.importing.model import ImportedModel, Step
from tapml.importing.ranked import ranked
from tapml.importing.scanned import scanned

op = relax.op


def _pointwise(d: Drawing) -> Any:
    return d.pointwise(d.input(d.shape()), d.draw.randint(1, 5))


def _transpose(d: Drawing) -> Any:
    shape = d.shape(2)
    order = d.draw.sample(range(len(shape)), len(shape))
    return d.end(d.emit(op.permute_dims(d.tensor(shape), order)))


def _reshape(d: Drawing) -> Any:
    heads, size = d.draw.choice((2, 3, 4, 8, 12)), d.draw.choice((4, 5, 8, 16, 32))
    rows = d.draw.choice(SIZES[:14])
    x = d.emit(op.reshape(d.tensor([rows, heads * size]), (rows, heads, size)))
    x = d.emit(op.permute_dims(x, d.draw.choice(([1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]))))
    if d.draw.random() < 0.5:
        x = d.emit(op.reshape(x, (-1, d.draw.choice((heads, size)))))
    return d.end(x)


def _slice(d: Drawing) -> Any:
    shape = d.shape(1, 3)
    axis = d.draw.randrange(len(shape))
    begin = d.draw.randrange(shape[axis])
    end = d.draw.randint(begin + 1, shape[axis])
    step = d.draw.choice((1, 1, 2, 3))
    return d.end(d.emit(op.strided_slice(d.tensor(shape), [axis], [begin], [end], [step])))


def _concat(d: Drawing) -> Any:
    shape = d.shape(1, 3)
    axis = d.draw.randrange(len(shape))
    parts = []
    for _ in range(d.draw.randint(2, 4)):
        part = list(shape)
        part[axis] = d.draw.choice(SIZES[:12])
        parts.append(d.tensor(part))
    return d.end(d.emit(op.concat(parts, axis)))


def _pad(d: Drawing) -> Any:
    shape = d.shape(1, 3)
    widths = [d.draw.choice((0, 0, 1, 2, 4)) for _ in range(2 * len(shape))]
    return d.end(d.emit(op.nn.pad(d.tensor(shape), widths, pad_value=d.draw.choice((0.0, 1.5)))))


def _take(d: Drawing) -> Any:
    shape = d.shape(1, 3)
    axis = d.draw.randrange(len(shape))
    at = d.input(d.shape(1, 2)[:2] if math.prod(shape) < 500 else [5], "int32", shape[axis])
    return d.end(d.emit(op.take(d.tensor(shape), at, axis)))


def _cast(d: Drawing) -> Any:
    dtype = d.draw.choice(("int32", "float16", "bool"))
    x = d.emit(op.astype(d.tensor(d.shape()), dtype))
    return d.end(d.emit(op.astype(x, "float32")))


def _softmax(d: Drawing) -> Any:
    shape = d.shape()
    axis = d.draw.choice((-1, -1, d.draw.randrange(len(shape))))
    return d.end(d.emit(d.draw.choice((op.nn.softmax, op.nn.log_softmax))(d.tensor(shape), axis)))


def _norm(d: Drawing) -> Any:
    shape = d.shape(2)
    count = d.draw.choice((1, 1, 2)) if len(shape) > 2 else 1
    axes, sizes = list(range(-count, 0)), shape[-count:]
    x = d.tensor(shape)
    if d.draw.random() < 0.4:
        return d.end(d.emit(op.nn.rms_norm(x, d.input(sizes), axes=axes)))
    return d.end(d.emit(op.nn.layer_norm(x, d.input(sizes), d.input(sizes), axes=axes)))


def _group_norm(d: Drawing) -> Any:
    groups, each = d.draw.choice((1, 2, 4, 8)), d.draw.choice((1, 2, 3, 4))
    height, width = d.draw.choice(SIZES[:14]), d.draw.choice(SIZES[:14])
    x = d.tensor([d.draw.choice((1, 2)), groups * each, height, width])
    weights = d.input([groups * each]), d.input([groups * each])
    if d.draw.random() < 0.3:
        return d.end(d.emit(op.nn.instance_norm(x, *weights, channel_axis=1, axes=[2, 3])))
    return d.end(d.emit(op.nn.group_norm(x, *weights, num_groups=groups, channel_axis=1, axes=[2, 3])))


def _reduce(d: Drawing) -> Any:
    shape = d.shape()
    axes = sorted(d.draw.sample(range(len(shape)), d.draw.randint(1, len(shape))))
    call = d.draw.choice((op.sum, op.sum, op.mean, op.max, op.min, op.variance))
    return d.end(d.emit(call(d.tensor(shape), axes, keepdims=d.draw.random() < 0.5)))


def _pool(d: Drawing) -> Any:
    size, stride = d.draw.choice((2, 3)), d.draw.choice((1, 2))
    x = d.tensor(
        [d.draw.choice((1, 2)), d.draw.choice((1, 3, 4)), d.draw.choice((8, 13, 16)), d.draw.choice((8, 13, 16))]
    )
    padding = d.draw.choice((0, 1))
    call = d.draw.choice((op.nn.max_pool2d, op.nn.avg_pool2d))
    return d.end(d.emit(call(x, (size, size), (stride, stride), (padding, padding))))


def _topk(d: Drawing) -> Any:
    shape = d.shape(1, 3)
    axis = d.draw.randrange(len(shape))
    while math.prod(shape) * shape[axis] > 10 * MOST:  # it is quadratic
        shape[axis] = d.draw.choice(SIZES[:12])
    count, largest = d.draw.randint(1, min(8, shape[axis])), d.draw.random() < 0.5
    x = d.tensor(shape)
    called = partial(ranked, axis=axis, count=count, largest=largest, kind=d.draw.choice(("values", "indices")))
    found = d.emit(d.builder.call_te(called, x, primfunc_name_hint="topk"))
    return d.end(d.emit(op.astype(found, "float32")))


def _scan(d: Drawing) -> Any:
    shape = d.shape(1, 3)
    axis = d.draw.randrange(len(shape))
    while math.prod(shape) * shape[axis] > 10 * MOST:
        shape[axis] = d.draw.choice(SIZES[:12])
    name, exclusive = d.draw.choice(("relax.cumsum", "relax.cumsum", "relax.cumprod")), d.draw.random() < 0.3
    called = partial(scanned, axis=axis, exclusive=exclusive, dtype="float32", name=name)
    return d.end(d.emit(d.builder.call_te(called, d.tensor(shape), primfunc_name_hint="scanned")))


def _argmax(d: Drawing) -> Any:
    shape = d.shape()
    call = d.draw.choice((op.argmax, op.argmin))
    found = d.emit(call(d.tensor(shape), d.draw.randrange(len(shape)), keepdims=d.draw.random() < 0.5))
    return d.end(d.emit(op.astype(found, "float32")))


KINDS: dict[str, Callable[[Drawing], Any]] = {
    "pointwise": _pointwise,
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "take": _take,
    "cast": _cast,
    "softmax": _softmax,
    "norm": _norm,
    "group_norm": _group_norm,
    "reduce": _reduce,
    "pool": _pool,
    "topk": _topk,
    "scan": _scan,
    "argmax": _argmax,
    "attention": attention_to_a_cache,
    "attention_of_models": attention_of_models,
}


@dataclass(frozen=True)
class Drawn:
    """`outputs`: what case each output of the model is of."""

    model: ImportedModel
    outputs: Sequence[str]


def drawn(seed: int, count: int, kinds: Sequence[str] = (*KINDS,)) -> Drawn:
    """A model of `count` cases that have nothing to do with each other, the same for the same arguments."""
    draw, builder = random.Random(f"{seed} {','.join(kinds)}"), relax.BlockBuilder()
    # Inputs are only known once all is drawn, and the function begins with them.
    trial = [_draw(relax.BlockBuilder(), draw.getrandbits(64), kinds[n % len(kinds)], n) for n in range(count)]
    names = [found[1] for found in trial]
    inputs = [pair for found in trial for pair in found[2]]
    with builder.function("main", [variable for variable, _ in inputs]):
        with builder.dataflow():
            results, at = [], 0
            for number, (seed_, kind, given) in enumerate(trial):
                own = [variable for variable, _ in inputs[at : at + len(given)]]
                at += len(given)
                results.append(_made(builder, seed_, kind, number, own))
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    arrays = {str(variable.name): array for variable, array in inputs}
    model = ImportedModel(
        module=builder.finalize(),
        input_names=list(arrays),
        parameters=[],
        steps=[Step("all", arrays, False, None)],
        provenance={"kind": "test", "source": "drawn", "sha256": "0" * 64, "notes": []},
        outputs=[f"{name} {number}" for number, name in enumerate(names)],
    )
    return Drawn(model, [f"{name} {number}" for number, name in enumerate(names)])


def _draw(builder: Any, seed: int, kind: str, number: int) -> tuple[int, str, list[tuple[Any, np.ndarray[Any, Any]]]]:
    """What a case asks for."""
    d = Drawing(random.Random(seed), builder, f"x{number}")
    # Outside a function nothing is emitted: types are enough.
    with builder.function("main", []):
        with builder.dataflow():
            KINDS[kind](d)
            out = builder.emit_output(relax.const(0.0, "float32"))
        builder.emit_func_output(out)
    return seed, kind, d.given


def _made(builder: Any, seed: int, kind: str, number: int, given: Sequence[Any]) -> Any:
    d = Drawing(random.Random(seed), builder, f"x{number}")
    waiting = iter(given)
    ask = d.input

    def input(shape: Sequence[int], dtype: str = "float32", high: int = 0) -> Any:
        ask(shape, dtype, high)  # draws as before
        return next(waiting)

    d.input = input  # type: ignore[method-assign]
    return KINDS[kind](d)
