"""What is timed: operators of the sizes that models have, each with what its kernel may take at most."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from tvm import relax, te, tirx

from tapml.compilers.auto.in_place import is_better
from tapml.importing.activations import ROWS, packed_rows
from tapml.importing.kernel_calls import call
from tapml.importing.quantise import INT8, Q4F16, Q4F32, Q8, Kind
from tapml.importing.quantise_module import packed_variables, quantised_module
from tapml.importing.quantise_uses import uses_of
from tapml.lowering.accepts import Accepts
from tapml.lowering.lower import lower
from tapml.lowering.operator import Operator

op = relax.op
Body = Callable[..., Any]


@dataclass(frozen=True)
class Work:
    """An operator on tensors of these shapes. `rotated`: how many of the last of them are weights, or a cache: each
    call has others, so that none lies in the GPU's caches. `goal`: microseconds that a call may take on an H200."""

    name: str
    body: Body
    shapes: Sequence[Sequence[int]]
    dtype: str = "float32"
    rotated: int = 0
    goal: float | None = None
    integers: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Of inputs of int32, by place: numbers below this."""
    kind: Kind | None = None
    """How the last of the tensors, a weight, is quantised: words and scales stand in its place."""
    cached: bool = False
    """Whether what rotates is a cache, which changes from call to call, and no weights."""
    rounded: bool = False
    """Whether the first is rounded to 8-bit integers before: words and scales of its rows are the arguments then."""
    within: bool = False
    """Whether that is within the product's kernel, as it is of one row: the first is the argument then."""
    stored: bool = False
    """Whether the last of the tensors, a weight of float32, lies in memory as float16."""

    def operator(self) -> Operator:
        """Raises ValueError where it is not one."""
        module = self._module()
        # Where moves may be read in place operators round their row themselves; here is no move.
        accepts = Accepts(is_better) if self.within else None
        operators = lower(module, len(module["main"].params), accepts=accepts).operators
        if self.rounded:
            operators = [one for one in operators if not one.name.startswith(ROWS)]
        if len(operators) != 1:
            raise ValueError(f"{self.name} is {len(operators)} operators: {', '.join(one.name for one in operators)}")
        return operators[0]

    @property
    def halves(self) -> frozenset[int]:
        """Arguments that are float16 on a device, as weights and scales that are numbers of float16 are."""
        if self.stored:
            return frozenset({len(self.shapes) - 1})
        # Rows that are rounded before are words and scales.
        place = len(self.shapes) + (self.rounded and not self.within)
        return frozenset({place} if self.kind is not None and self.kind.half else ())

    def _module(self) -> tvm.IRModule:
        builder = relax.BlockBuilder()
        given = [
            relax.Var(f"x{place}", relax.TensorType(tuple(shape), "int32" if place in self.integers else self.dtype))
            for place, shape in enumerate(self.shapes)
        ]
        with builder.function("main", given):
            with builder.dataflow():
                result = builder.emit_output(self.body(builder, *given))
            builder.emit_func_output(result)
        module = builder.finalize()
        if self.kind is None:
            return module
        uses = uses_of(module, given[-1:])
        packed = {given[-1]: packed_variables(given[-1], "weight", self.kind, False)}
        return quantised_module(module, uses, packed, all_round=self.rounded)


def matmul(_: Any, x: Any, w: Any) -> Any:
    return op.matmul(x, w)


def _linear(builder: Any, x: Any, w: Any) -> Any:
    return op.matmul(x, builder.emit(op.permute_dims(w)))


def _dense(builder: Any, x: Any, w: Any, bias: Any) -> Any:
    sums = builder.emit(op.add(builder.emit(op.matmul(x, w)), bias))
    return op.nn.gelu(sums)


def _projected(builder: Any, x: Any, w: Any, bias: Any, residual: Any) -> Any:
    return op.add(builder.emit(op.add(builder.emit(op.matmul(x, w)), bias)), residual)


def _scores(builder: Any, q: Any, k: Any) -> Any:
    return op.einsum(builder.emit(relax.Tuple([q, k])), "hid,hjd->hij")


def conv(**attributes: Any) -> Body:
    return lambda _, x, w: op.nn.conv2d(x, w, **attributes)


def attention(builder: Any, *tensors: Any, halved: bool = False) -> Any:
    """Of every query [heads, n, size] to every key, softmax in float32 as models have it. `halved`: with weights in the
    dtype of the values, as transformers has them."""

    def program(query: Any, keys: Any, values: Any) -> Any:
        heads, n, size = query.shape
        places, dtype = keys.shape[1], query.dtype
        over = [te.reduce_axis((0, extent), name) for extent, name in ((size, "r"), *((places, at) for at in "abc"))]
        scores = te.compute(
            (heads, n, places),
            lambda h, i, j: te.sum((query[h, i, over[0]] * keys[h, j, over[0]]).astype("float32"), axis=over[0]),
            "scores",
        )
        scaled = te.compute(scores.shape, lambda *at: scores[at] * tirx.const(int(size) ** -0.5, "float32"), "scaled")
        most = te.compute((heads, n), lambda h, i: te.max(scaled[h, i, over[1]], axis=over[1]), "most")
        weights = te.compute(scores.shape, lambda h, i, j: tirx.exp(scaled[h, i, j] - most[h, i]), "weights")
        total = te.compute((heads, n), lambda h, i: te.sum(weights[h, i, over[2]], axis=over[2]), "total")

        def mix(h: Any, i: Any, d: Any) -> Any:
            weight, value = weights[h, i, over[3]], values[h, over[3], d]
            if halved:
                return te.sum(((weight / total[h, i]).astype(dtype) * value).astype("float32"), axis=over[3])
            return te.sum(weight * value.astype("float32"), axis=over[3])

        mixed = te.compute(query.shape, mix, "mixed")
        if halved:
            return te.compute(query.shape, lambda *at: mixed[at].astype(dtype), "attended")
        return te.compute(query.shape, lambda h, i, d: (mixed[h, i, d] / total[h, i]).astype(dtype), "attended")

    return call(builder, program, tensors, name="attention", alone=True)


_NAMES = {"float32": "f32", "float16": "f16"}


def works(small: bool = False) -> list[Work]:
    """All of them; `small`: of sizes that a GPU in software takes."""
    return [*_products(small), *_quantised(small), *_rows(small), *_attentions(small), *_others(small)]


def _products(small: bool) -> list[Work]:
    s = 16 if small else 1
    found = []
    for dtype, goals in (("float32", (435, 435, 19)), ("float16", (75, 65, 11))):
        for rows, inner, columns in ((512, 4096, 4096), (2048, 2048, 2048)):
            shape = [(rows // s, inner // s), (inner // s, columns // s)]
            goal = goals[rows == 2048]
            found.append(Work(f"GEMM {rows}x{inner}x{columns}", matmul, shape, dtype, 1, goal))
        along = [(512 // s, 4096 // s), (4096 // s, 4096 // s)]
        found.append(Work("GEMM 512x4096x4096, by columns", _linear, along, dtype, 1, goals[0]))
        for rows, inner, columns in ((500, 4096, 4096), (512, 4096, 4095), (512, 4097, 4096), (500, 4097, 4095)):
            shape = [(rows // s, (inner // s) | (inner % 2)), ((inner // s) | (inner % 2), columns // s)]
            found.append(Work(f"GEMM {rows}x{inner}x{columns}", matmul, shape, dtype, 1, round(1.15 * goals[0], 1)))
        found.append(Work("GEMV 4096x4096", matmul, [(1, 4096 // s), (4096 // s, 4096 // s)], dtype, 1, goals[2]))
        for inner, columns, name in ((4096, 4096, "4096x4096, by columns"), (4097, 4095, "4097x4095, by columns")):
            shape = [(1, (inner // s) | (inner % 2)), (columns // s, (inner // s) | (inner % 2))]
            most = goals[2] * (1 if inner == 4096 else 1.15)
            found.append(Work(f"GEMV {name}", _linear, shape, dtype, 1, round(most, 1)))
    return found


def _quantised(small: bool) -> list[Work]:
    """Weights of integers, and those of float32 that lie as float16; the goals are of groups with scales of float16."""
    s = 16 if small else 1
    found = []
    for rows, what in ((512 // s, "GEMM 512x4096x4096"), (1, "GEMV 4096x4096")):
        shapes = [(rows, 4096 // s), (4096 // s, 4096 // s)]
        found.append(Work(f"{what}, stored as f16", _linear, shapes, "float32", 2, stored=True))
    for kind, dtype, goals in (
        (Q4F32, "float32", (None, 6.5)),
        (Q4F16, "float32", (None, 6.5)),
        (Q8, "float32", (None, None)),
        (Q4F16, "float16", (70.0, 6.5)),
        (Q8, "float16", (None, None)),
    ):
        for rows, what, goal in ((512 // s, "GEMM 512x4096x4096", goals[0]), (1, "GEMV 4096x4096", goals[1])):
            shapes = [(rows, 4096 // s), (4096 // s, 4096 // s)]
            found.append(Work(f"{what}, {kind.name}", _linear, shapes, dtype, 2, goal, kind=kind))
            if kind in (Q8, Q4F16):
                name, of = f"{what}, {kind.name} activations", INT8 if kind == Q8 else kind
                found.append(Work(name, _linear, shapes, dtype, 2, kind=of, rounded=True))
                if rows == 1:
                    name = f"{name}, rounded within"
                    found.append(Work(name, _linear, shapes, dtype, 2, kind=of, rounded=True, within=True))
        if kind == Q8:
            rows = [(512 // s, 4096 // s)]
            found.append(Work("rows to int8 512x4096", _words_of_rows, rows, dtype))
    return found


def _words_of_rows(builder: Any, x: Any) -> Any:
    return call(builder, packed_rows, [x], name=ROWS, alone=True)


def _rows(small: bool) -> list[Work]:
    rows, size = (32, 1024) if small else (512, 4096)
    found = []
    for dtype, goal in (("float32", 5.7), ("float16", 4.9)):
        at = f"{rows}x{size}"
        found += [
            Work(f"softmax {at}", lambda _, x: op.nn.softmax(x, -1), [(rows, size)], dtype, goal=goal),
            Work(
                f"RMSNorm {at}",
                lambda _, x, w: op.nn.rms_norm(x, w, axes=[-1]),
                [(rows, size), (size,)],
                dtype,
                0,
                goal,
            ),
            Work(
                f"LayerNorm {at}",
                lambda _, x, w, b: op.nn.layer_norm(x, w, b, axes=[-1]),
                [(rows, size), (size,), (size,)],
                dtype,
                goal=goal,
            ),
        ]
    found += [
        Work("softmax 500x4095", lambda _, x: op.nn.softmax(x, -1), [(500 // (16 if small else 1), 4095)]),
        Work("softmax 192x16", lambda _, x: op.nn.softmax(x, -1), [(12, 16, 16)]),
        Work("LayerNorm 16x384", lambda _, x, w, b: op.nn.layer_norm(x, w, b, axes=[-1]), [(16, 384), (384,), (384,)]),
        Work("RMSNorm 1x3072", lambda _, x, w: op.nn.rms_norm(x, w, axes=[-1]), [(1, 3072), (3072,)]),
        Work(
            "GroupNorm 320x64x64",
            lambda _, x, w, b: op.nn.group_norm(x, w, b, num_groups=32, channel_axis=1, axes=[2, 3]),
            [(1, 320, *((8, 8) if small else (64, 64))), (320,), (320,)],
        ),
        Work("sum of 2^20", lambda _, x: op.sum(x), [(2**12 if small else 2**20,)]),
        Work("sum of columns 512x4096", lambda _, x: op.sum(x, 0), [(rows, size)]),
        Work("mean 512x4096", lambda _, x: op.mean(x, 1), [(rows, size)]),
        Work(
            "max pool 3x3 64x112x112",
            lambda _, x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)),
            [(1, 64, *((28, 28) if small else (112, 112)))],
        ),
    ]
    return found


def _attentions(small: bool) -> list[Work]:
    heads, keys, size, queries = (2, 256, 32, 32) if small else (32, 4096, 128, 512)
    found = []
    for dtype, goals in (("float16", (23, 37)), ("float32", (None, None))):
        cache, text = (heads, keys, size), (heads, queries, size)
        found.append(
            Work(
                "attention, 1 query, 4096 keys",
                attention,
                [(heads, 1, size), cache, cache],
                dtype,
                2,
                goals[0],
                cached=True,
            )
        )
        found.append(Work("attention, 512 queries and keys", attention, [text, text, text], dtype, 0, goals[1]))
    halved = partial(attention, halved=True)
    name = "attention, 512 queries and keys, weights of f16"
    found.append(Work(name, halved, [text, text, text], "float16", 0, 37))
    return found


def _others(small: bool) -> list[Work]:
    s = 16 if small else 1
    big = (512 // s, 4096 // s)
    image, channels = ((8, 8), 32) if small else ((64, 64), 320)
    found = [
        Work(
            "conv 3x3 64x64x320",
            conv(padding=1),
            [(1, channels, *image), (channels, channels, 3, 3)],
            dtype,
            1,
            goal,
        )
        for dtype, goal in (("float16", 46.0), ("float32", 215.0))
    ]
    return [
        *found,
        Work("conv 1x1 56x56x96 to 24", conv(), [(1, 96, 56 // s, 56), (24, 96, 1, 1)]),
        Work("conv 3x3 56x56x96, depthwise", conv(padding=1, groups=96), [(1, 96, 56 // s, 56), (96, 1, 3, 3)]),
        Work("conv 3x3 14x14x64", conv(padding=1), [(1, 64, 14, 14), (64, 64, 3, 3)]),
        Work("conv 7x7 224x224x3 to 64", conv(padding=3, strides=2), [(1, 3, 224 // s, 224), (64, 3, 7, 7)]),
        Work("dense 16x384x1536, GELU", _dense, [(16, 384), (384, 1536), (1536,)]),
        Work("dense 16x1536x384, residual", _projected, [(16, 1536), (1536, 384), (384,), (16, 384)]),
        Work("GEMM 16x384x384", matmul, [(16, 384), (384, 384)]),
        Work("dense 512x384x1536, GELU", _dense, [(512 // s, 384), (384, 1536), (1536,)]),
        Work("GEMM 512x384x384", matmul, [(512 // s, 384), (384, 384)]),
        Work("scores 12x16x32x16", _scores, [(12, 16, 32), (12, 16, 32)]),
        Work("scores 384x16x32x16", _scores, [(384 // s, 16, 32), (384 // s, 16, 32)]),
        Work("mixed 12x16x16x32", matmul, [(12, 16, 16), (12, 16, 32)]),
        Work("GEMV 3072x8192", matmul, [(1, 3072 // s), (3072 // s, 8192 // s)], "float32", 1),
        Work("GEMM 4x4096x4096", matmul, [(4, 4096 // s), (4096 // s, 4096 // s)], "float32", 1),
        Work("GEMM 32x4096x4096", matmul, [(32, 4096 // s), (4096 // s, 4096 // s)], "float32", 1),
        Work("add 512x4096", lambda _, x, y: op.add(x, y), [big, big]),
        Work("GELU 512x4096", lambda _, x: op.nn.gelu(x), [big]),
        Work("transpose 512x4096", lambda _, x: op.permute_dims(x), [big]),
        Work("heads 512x32x128", lambda _, x: op.permute_dims(x, [1, 0, 2]), [(512 // s, 32, 128)]),
        Work("take 16 of 9999x384", lambda _, x, at: op.take(x, at, 0), [(9999, 384), (16,)], integers={1: 9999}),
        Work("concat of 2 512x4096", lambda b, x, y: op.concat([x, y], 1), [big, big]),
    ]
