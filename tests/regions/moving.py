"""Programs that move elements, drawn at random, and what numpy says that they give."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tvm import te, topi

from tapml.lowering.write import program_of
from tapml.operators.program import Axis, Block, Buffer, Expression, Let, Loop, OperatorProgram, Store
from tapml.regions.region import Region

Array = np.ndarray[Any, Any]
Move = tuple[Callable[[Any], Any], Callable[[Array], Array]]
"""Of a TE tensor, and of an array."""


def moved(regions: Sequence[Region], given: Mapping[str, Array], shape: Sequence[int]) -> Array:
    """What regions of fixed sizes make of arrays. Each element is written once, or it is no array."""
    dtype = next(iter(given.values())).dtype
    found, times = np.zeros(int(np.prod(shape)), dtype), np.zeros(int(np.prod(shape)), int)
    for region in regions:
        points = np.indices(region.sizes) if region.sizes else np.zeros((0, 1), int)

        def at(view: Any, points: Array = points) -> Any:
            return sum(
                (s * p for s, p in zip(view.strides, points, strict=True)), np.full(points.shape[1:], view.offset)
            )

        read = region.value if region.source is None else given[region.source].ravel()[at(region.read)]
        found[at(region.write)] = read
        np.add.at(times, at(region.write).ravel(), 1)
    assert (times == 1).all()
    return found.reshape(shape)


def program(made: Callable[..., Any], shapes: Sequence[Sequence[int]], dtype: str = "float32") -> OperatorProgram:
    """Of a TE expression of inputs x0, x1, ..."""
    given = [te.placeholder(shape, dtype, f"x{n}") for n, shape in enumerate(shapes)]
    return program_of("drawn", te.create_prim_func([*given, made(*given)], "int64"))


def chained(programs: Sequence[OperatorProgram]) -> OperatorProgram:
    """One program in which each reads what the one before writes; each but the first has one input."""
    parameters, temporaries, blocks = list(programs[0].parameters[:-1]), list[Buffer](), list[Block]()
    last = ""
    for number, found in enumerate(programs):
        names = {b.name: f"{b.name}_{number}" for b in (*found.parameters, *found.temporaries)}
        if number:
            names[found.parameters[0].name] = last
        else:
            names |= {buffer.name: buffer.name for buffer in parameters}
        renaming = _Renaming(names, f"_{number}")
        blocks += [renaming.block(block) for block in found.blocks]
        temporaries += [dataclasses.replace(buffer, name=names[buffer.name]) for buffer in found.temporaries]
        result = found.parameters[-1]
        last = names[result.name]
        (parameters if number == len(programs) - 1 else temporaries).append(dataclasses.replace(result, name=last))
    return OperatorProgram("chain", None, tuple(parameters), tuple(temporaries), tuple(blocks))


class _Renaming:
    def __init__(self, buffers: Mapping[str, str], suffix: str) -> None:
        self._buffers, self._suffix = buffers, suffix

    def block(self, block: Block) -> Block:
        loops = [Loop(loop.variable + self._suffix, loop.dtype, loop.extent) for loop in block.loops]
        axes = [
            Axis(axis.variable + self._suffix, axis.dtype, axis.extent, axis.reduction, self._of(axis.value))
            for axis in block.axes
        ]
        body = [self._store(statement) for statement in block.body]
        return dataclasses.replace(block, loops=tuple(loops), axes=tuple(axes), body=tuple(body))

    def _store(self, store: Store | Let) -> Store:
        assert isinstance(store, Store)
        return Store(self._buffers[store.buffer], tuple(map(self._of, store.indices)), self._of(store.value))

    def _of(self, found: Expression) -> Expression:
        value: Any = found.value
        if found.kind == "variable":
            value = f"{value}{self._suffix}"
        elif found.kind == "load":
            value = self._buffers[str(value)]
        return dataclasses.replace(found, operands=tuple(map(self._of, found.operands)), value=value)


# ------------------------------------------------ drawn

MOST = 600
"""Elements of what is drawn."""


def _reshape(draw: Any, shape: tuple[int, ...]) -> Move:
    left, wanted = int(np.prod(shape)), []
    while left > 1 and len(wanted) < 4:
        wanted.append(draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
        left //= wanted[-1]
    made = (*wanted, left)
    return lambda x: topi.reshape(x, made), lambda a: a.reshape(made)


def _transpose(draw: Any, shape: tuple[int, ...]) -> Move:
    axes = draw(st.permutations(range(len(shape))))
    return lambda x: topi.transpose(x, axes), lambda a: a.transpose(axes)


def _slice(draw: Any, shape: tuple[int, ...]) -> Move:
    cuts = []
    for size in shape:
        step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        begin = draw(st.integers(0, size - 1))
        count = draw(st.integers(1, (size - 1 - begin) // step + 1 if step > 0 else begin // -step + 1))
        end = begin + step * (count - 1) + (1 if step > 0 else -1)
        cuts.append((begin, end if end >= 0 else -size - 1, step))
    begins, ends, steps = (list(found) for found in zip(*cuts, strict=True))
    picked = tuple(slice(b, None if e < 0 else e, s) for b, e, s in cuts)
    return lambda x: topi.strided_slice(x, begins, ends, steps), lambda a: a[picked]


def _pad(draw: Any, shape: tuple[int, ...]) -> Move:
    before, after = ([draw(st.integers(0, 2)) for _ in shape] for _ in range(2))
    return (
        lambda x: topi.nn.pad(x, before, after, 5.0),
        lambda a: np.pad(a, [*zip(before, after, strict=True)], constant_values=5),
    )


def _mirrored(draw: Any, shape: tuple[int, ...]) -> Move:
    widths = [draw(st.integers(0, min(2, size - 1))) for size in shape]
    return (
        lambda x: topi.nn.mirror_pad(x, widths, widths, "REFLECT"),
        lambda a: np.pad(a, [(w, w) for w in widths], "reflect"),
    )


def _tile(draw: Any, shape: tuple[int, ...]) -> Move:
    times = [draw(st.sampled_from([1, 1, 2, 3])) for _ in shape]
    return lambda x: topi.tile(x, times), lambda a: np.tile(a, times)


def _repeat(draw: Any, shape: tuple[int, ...]) -> Move:
    axis, times = draw(st.integers(0, len(shape) - 1)), draw(st.integers(2, 3))
    return lambda x: topi.repeat(x, times, axis), lambda a: np.repeat(a, times, axis)


def _flip(draw: Any, shape: tuple[int, ...]) -> Move:
    axis = draw(st.integers(0, len(shape) - 1))
    return lambda x: topi.flip(x, axis), lambda a: np.flip(a, axis)


def _beside_itself(draw: Any, shape: tuple[int, ...]) -> Move:
    axis = draw(st.integers(0, len(shape) - 1))
    return (
        lambda x: topi.concatenate([x, topi.flip(x, axis), x], axis),
        lambda a: np.concatenate([a, np.flip(a, axis), a], axis),
    )


def _rolled(draw: Any, shape: tuple[int, ...]) -> Move:
    axis = draw(st.integers(0, len(shape) - 1))
    by = draw(st.integers(0, shape[axis] - 1))

    def made(x: Any) -> Any:
        ends, begins = list(shape), [0] * len(shape)
        begins[axis], ends[axis] = shape[axis] - by, shape[axis] - by
        first, last = topi.strided_slice(x, [0] * len(shape), ends), topi.strided_slice(x, begins, list(shape))
        return topi.concatenate([last, first], axis) if by else topi.identity(x)

    return made, lambda a: np.roll(a, by, axis)


def _stack(draw: Any, shape: tuple[int, ...]) -> Move:
    axis = draw(st.integers(0, len(shape)))
    return lambda x: topi.stack([x, x], axis), lambda a: np.stack([a, a], axis)


def _spread(draw: Any, shape: tuple[int, ...]) -> Move:
    made = (draw(st.integers(1, 3)), *shape)
    return lambda x: topi.broadcast_to(x, made), lambda a: np.broadcast_to(a, made)


MOVES = (
    _reshape, _reshape, _transpose, _transpose, _slice, _pad, _mirrored, _tile, _repeat, _flip, _beside_itself, _rolled,
    _stack, _spread,
)  # fmt: skip


@st.composite
def chains(draw: Any) -> tuple[tuple[int, ...], list[OperatorProgram], list[Callable[[Array], Array]]]:
    """The shape of an input, programs that each read what the one before writes, and the same of arrays."""
    begun = shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    array = np.zeros(shape, np.float32)
    programs, arrays = [], []
    for _ in range(draw(st.integers(1, 4))):
        made, of_array = draw(st.sampled_from(MOVES))(draw, shape)
        if not 0 < of_array(array).size <= MOST:
            continue
        programs.append(program(made, [shape]))
        arrays.append(of_array)
        array = of_array(array)
        shape = array.shape
    if not programs:
        programs, arrays = [program(topi.identity, [shape])], [np.copy]
    return begun, programs, arrays
