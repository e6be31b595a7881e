"""Outputs that are places: of the largest or the smallest of a tensor (argmax, top-k, sort, a decoder's next token).

Two elements that are nearly equal may change places where what they are chosen from is off by no more than it may be.
So a place is not compared with the carved one by its number: another one counts as the least that the elements must
have been off by for it to be right, half of what they are apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tapml.program import Graph
from tapml.program.graph import shown_by


@dataclass(frozen=True)
class Choice:
    """`places`, as carved, of elements along an `axis` of `values`; `source` is the value that these are."""

    source: str
    values: np.ndarray
    axis: int
    places: np.ndarray

    def apart(self, got: np.ndarray) -> np.ndarray:
        """Of each place, as many as were carved: half of what its element and that of the carved one are apart, -1
        where they are the same place, infinite for what is no place of `values`, or is chosen twice."""
        extent = self.values.shape[self.axis]
        ours, theirs = (self._along(array) for array in (self.places, got))
        inside = (theirs >= 0) & (theirs < extent)
        wanted = np.take_along_axis(self.values, ours, self.axis).astype(np.float64)
        found = np.take_along_axis(self.values, np.where(inside, theirs, 0), self.axis).astype(np.float64)
        apart = np.where(inside & ~_several(theirs, self.axis), np.abs(wanted - found) / 2, np.inf)
        return np.where(ours == theirs, -1.0, apart)

    def most(self, by_element: np.ndarray) -> np.ndarray:
        """The most of numbers of the elements of `values` that each place is chosen from, as `apart` has them."""
        return np.broadcast_to(by_element.max(axis=self.axis, keepdims=True), self._along(self.places).shape)

    def difference(self, got: np.ndarray, names: tuple[str, str]) -> tuple[float, str]:
        """What `values` must have been off by at least for `got` to be chosen, infinite where nothing makes it right,
        and that in words; (-1, "") where nothing differs. `names`: of the places and of what they are chosen from."""
        apart = self.apart(got)
        worst = int(np.argmax(apart))
        off = float(apart.reshape(-1)[worst])
        if off < 0:
            return off, ""
        ours, theirs = (int(self._along(array).reshape(-1)[worst]) for array in (self.places, got))
        why = f"they are {2 * off:.3g} apart in {names[1]}"
        if not np.isfinite(off):
            inside = 0 <= theirs < self.values.shape[self.axis]
            why = "it is chosen twice" if inside else f"{theirs} is none of {names[1]}"
        return off, f"{names[0]} chooses {theirs} where {ours} was carved: {why}"

    def _along(self, places: np.ndarray) -> np.ndarray:
        """With the axes of `values`."""
        shape = list(self.values.shape)
        shape[self.axis] = -1
        return np.asarray(places).reshape(shape).astype(np.int64)


def _several(places: np.ndarray, axis: int) -> np.ndarray:
    """Mask of those that there are several of along the axis."""
    order = np.argsort(places, axis=axis)
    same = np.diff(np.take_along_axis(places, order, axis), axis=axis) == 0
    none = np.zeros_like(np.take(places, [0], axis), np.bool_)
    found = np.empty(places.shape, np.bool_)
    np.put_along_axis(found, order, np.append(none, same, axis) | np.append(same, none, axis), axis)
    return found


def choices(graph: Graph, read: Callable[[str], np.ndarray | None]) -> dict[int, Choice]:
    """The outputs of a graph that are such places, by where they stand among them. `read` gives what was carved of a
    value that a kernel reads or writes, None where nothing was."""
    shown = shown_by(graph)
    makers = {value: node for node in graph.kernel_nodes for value in node.outputs}
    found: dict[int, Choice] = {}
    for place, output in enumerate(graph.outputs):
        value = shown[output]
        if graph.values[value].type.dtype not in ("int32", "int64") or value not in makers:
            continue
        places = read(value)
        while value in makers and places is not None:
            node = makers[value]
            sources = [given for given in node.inputs if graph.values[given].type.dtype.startswith("float")]
            chosen = (_choice(source, read(source), places) for source in sources)
            if one := next((choice for choice in chosen if choice is not None), None):
                found[place] = one
                break
            # A conversion to another integer type changes no place.
            if len(node.inputs) != 1 or shown[node.inputs[0]] not in makers:
                break
            value = shown[node.inputs[0]]
            before = read(value)
            if before is None or not np.array_equal(before.reshape(-1), places.reshape(-1)):
                break
    return found


def _choice(source: str, values: np.ndarray | None, places: np.ndarray) -> Choice | None:
    """None where `places` are none of a ranking of `values` along one of its axes."""
    if values is None:
        return None
    for axis in reversed(range(values.ndim)):
        extent, others = values.shape[axis], values.size // max(values.shape[axis], 1)
        if extent < 2 or not others or not places.size or places.size % others or places.size // others > extent:
            continue
        shape = list(values.shape)
        shape[axis] = places.size // others
        kept = [size for at, size in enumerate(shape) if at != axis]
        if [size for size in places.shape if size != 1] not in _plain(shape, kept):
            continue
        if places.min() < 0 or places.max() >= extent or np.isnan(values).any():
            continue
        taken = np.take_along_axis(values, places.reshape(shape).astype(np.int64), axis)
        ranked = np.sort(values, axis=axis)
        best = (np.flip(ranked, axis), ranked)
        if any(np.array_equal(taken, np.take(way, range(shape[axis]), axis)) for way in best):
            return Choice(source, values, axis, places)
    return None


def _plain(*shapes: list[int]) -> list[list[int]]:
    """Without axes of one element."""
    return [[size for size in shape if size != 1] for shape in shapes]
