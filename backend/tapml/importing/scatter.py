"""Scattering as a search: each element of the result looks for the update that lands on it.

TVM's own kernels write where an index says, which is code of each platform and, with equal indices, a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx

product = te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="product")

Hit = Callable[[tuple[Any, ...], tuple[Any, ...]], Any]
"""(place in the result, place among the updates) -> whether the update lands there."""


def scatter_elements(data: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    """ONNX's ScatterElements: `indices`, of the rank of `data`, may be smaller than it, and count from the end where
    they are negative. Of equal indices the last update counts, or `reduction` joins them ("add", "mul", "min", "max").
    """

    def source(at: tuple[Any, ...], steps: tuple[Any, ...]) -> tuple[Any, ...]:
        # Beyond the indices' own extents nothing is hit; what is read there must lie inside.
        inside = [tirx.min(place, extent - 1) for place, extent in zip(at, indices.shape, strict=True)]
        return (*inside[:axis], *steps, *inside[axis + 1 :])

    def hit(at: tuple[Any, ...], steps: tuple[Any, ...]) -> Any:
        others = [
            place < extent
            for number, (place, extent) in enumerate(zip(at, indices.shape, strict=True))
            if number != axis and not _same(extent, data.shape[number])
        ]
        return tirx.all(*others, _place(indices(*source(at, steps)), data.shape[axis]) == _int32(at[axis]))

    return _joined(data, [indices.shape[axis]], hit, lambda at, steps: updates(*source(at, steps)), reduction)


def scatter_nd(data: Any, indices: Any, updates: Any, reduction: str) -> Any:
    """ONNX's ScatterND: the last axis of `indices` holds the places along the first axes of `data`, whose other axes
    `updates` has behind those of `indices`. As for `scatter_elements`.
    """
    *rows, depth = indices.shape

    def hit(at: tuple[Any, ...], steps: tuple[Any, ...]) -> Any:
        return tirx.all(*(_place(indices(*steps, j), data.shape[j]) == _int32(at[j]) for j in range(int(depth))))

    return _joined(data, rows, hit, lambda at, steps: updates(*steps, *at[int(depth) :]), reduction)


def broadcast_shape(tensors: Sequence[Any]) -> list[Any]:
    """Of tensors that fit each other, as numpy has it."""
    rank = max(len(tensor.shape) for tensor in tensors)
    shape: list[Any] = [1] * rank
    for tensor in tensors:
        for axis, size in enumerate(tensor.shape, rank - len(tensor.shape)):
            shape[axis] = size if _is_one(shape[axis]) else shape[axis]
    return shape


def own_place(tensor: Any, at: Sequence[Any]) -> list[Any]:
    """Where a tensor that is broadcast has what is at the place `at` of the result."""
    own = at[len(at) - len(tensor.shape) :]
    return [0 if _is_one(size) else place for size, place in zip(tensor.shape, own, strict=True)]


def moved(at: tuple[Any, ...], axis: int, place: Any) -> tuple[Any, ...]:
    """The position `at`, moved to `place` along `axis`."""
    return (*at[:axis], place, *at[axis + 1 :])


def _joined(data: Any, extents: Sequence[Any], hit: Hit, update: Any, reduction: str) -> Any:
    """`extents`: how many updates there are, along the axes that are searched."""
    dtype = str(data.dtype)
    if reduction in ("update", "none"):
        steps = _axes(extents)

        def number(*at: Any) -> Any:
            return te.max(tirx.Select(hit(at, steps), _row(steps, extents), tirx.const(-1, "int32")), axis=list(steps))

        last = te.compute(data.shape, number, name="last")

        def chosen(*at: Any) -> Any:
            row = tirx.max(last(*at), tirx.const(0, "int32"))
            return tirx.Select(last(*at) >= 0, update(at, _unravel(row, extents)), data(*at))

        return te.compute(data.shape, chosen, name="scatter")
    reducer, join, neutral = _REDUCTIONS[reduction]
    steps = _axes(extents)

    def collected(*at: Any) -> Any:
        return reducer(tirx.Select(hit(at, steps), update(at, steps), neutral(dtype)), axis=list(steps))

    found = te.compute(data.shape, collected, name="collected")
    return te.compute(data.shape, lambda *at: join(data(*at), found(*at)), name="scatter")


_REDUCTIONS: dict[str, tuple[Any, Any, Any]] = {
    "add": (te.sum, lambda a, b: a + b, lambda dtype: tirx.const(0, dtype)),
    "mul": (product, lambda a, b: a * b, lambda dtype: tirx.const(1, dtype)),
    "min": (te.min, tirx.min, tirx.max_value),
    "max": (te.max, tirx.max, tirx.min_value),
}
"""How updates are reduced, how the result joins the data, and what stands for an update that lands elsewhere."""


def _axes(extents: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(te.reduce_axis((0, extent), f"k{number}") for number, extent in enumerate(extents))


def _row(steps: Sequence[Any], extents: Sequence[Any]) -> Any:
    row: Any = tirx.const(0, "int32")
    for step, extent in zip(steps, extents, strict=True):
        row = row * _int32(extent) + _int32(step)
    return row


def _unravel(row: Any, extents: Sequence[Any]) -> tuple[Any, ...]:
    places: list[Any] = []
    for extent in reversed(extents):
        places.insert(0, tirx.floormod(row, _int32(extent)))
        row = tirx.floordiv(row, _int32(extent))
    return tuple(places)


def _place(index: Any, extent: Any) -> Any:
    return tirx.Select(index < 0, index + _int32(extent), index)


def _int32(size: Any) -> Any:
    return tirx.const(size, "int32") if isinstance(size, int) else size.astype("int32")


def _is_one(size: Any) -> bool:
    return bool(getattr(size, "value", size) == 1)


def _same(a: Any, b: Any) -> bool:
    return a is b or getattr(a, "value", None) == getattr(b, "value", object())
