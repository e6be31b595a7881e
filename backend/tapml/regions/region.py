"""Regions: what is moved, as MNN's geometric computing has it; those that together are one box become one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapml.regions.forms import Form, Size, sized


@dataclass(frozen=True)
class View:
    """Elements of a dense buffer: that at the point (a, b, ...) of a box lies `offset` + a * strides[0] + b *
    strides[1] + ... elements behind its beginning."""

    offset: Size
    strides: tuple[Size, ...]


@dataclass(frozen=True)
class Region:
    """For each point of a box of `sizes`, one element of the buffer `source` is copied, or where that is None `value`
    written: from where `read` says to where `write` says. A size may be 0 at some sizes of symbols.
    """

    sizes: tuple[Size, ...]
    write: View
    source: str | None
    read: View
    """Of a constant: nothing, at offset 0."""
    value: bool | int | float | None = None

    @property
    def views(self) -> tuple[View, ...]:
        return (self.write, self.read) if self.source is not None else (self.write,)

    @property
    def elements(self) -> Size:
        found = Form.of(1)
        for size in self.sizes:
            found = found * size
        return _size(found)


def merged(regions: Sequence[Region]) -> list[Region]:
    """The same with as few axes, and as few regions, as it takes (horizontal merging)."""
    found = [flat(region) for region in regions]
    changed = True
    while changed:
        changed = False
        for place, region in enumerate(found):
            for other in range(place + 1, len(found)):
                if (both := _together(region, found[other])) is not None:
                    found[place : place + 1], found[other : other + 1] = [flat(both)], []
                    changed = True
                    break
            if changed:
                break
    return found


def flat(region: Region) -> Region:
    """Without axes of one element, and with one for two of which the outer goes on where the inner ends."""
    axes = [axis for axis in range(len(region.sizes)) if region.sizes[axis] != 1]
    found = _of_axes(region, axes)
    for axis in range(len(found.sizes) - 2, -1, -1):
        inner = found.sizes[axis + 1]
        if all(_times(view.strides[axis + 1], inner) == view.strides[axis] for view in found.views):
            found = _as_one(found, axis)
    return found


def _of_axes(region: Region, axes: Sequence[int]) -> Region:
    def of(view: View) -> View:
        return View(view.offset, tuple(view.strides[axis] for axis in axes) if view.strides else ())

    sizes = tuple(region.sizes[axis] for axis in axes)
    return dataclasses.replace(region, sizes=sizes, write=of(region.write), read=of(region.read))


def _as_one(region: Region, axis: int) -> Region:
    kept = [place for place in range(len(region.sizes)) if place != axis]
    sizes = list(region.sizes)
    sizes[axis + 1] = _times(sizes[axis], sizes[axis + 1])
    return _of_axes(dataclasses.replace(region, sizes=tuple(sizes)), kept)


def _together(one: Region, other: Region) -> Region | None:
    """Both as one region, where the other begins where the one ends."""
    if (one.source, repr(one.value)) != (other.source, repr(other.value)):
        return None
    pairs = ((one, other), (other, one))
    for first, second in (found for of_same in (_alike, _with_axes) for pair in pairs for found in of_same(*pair)):
        for axis in range(len(first.sizes)):
            if _follows(first, second, axis):
                sizes = list(first.sizes)
                sizes[axis] = _plus(sizes[axis], second.sizes[axis])
                return dataclasses.replace(first, sizes=tuple(sizes))
    return None


def _alike(first: Region, second: Region) -> Iterator[tuple[Region, Region]]:
    if len(first.sizes) == len(second.sizes):
        yield first, second


def _with_axes(first: Region, second: Region) -> Iterator[tuple[Region, Region]]:
    """With an axis more, along which what lacks it has one element."""
    if first.sizes == second.sizes:
        steps = [_minus(b.offset, a.offset) for a, b in zip(first.views, second.views, strict=True)]
        yield _with_axis(first, 0, steps), _with_axis(second, 0, steps)
    if len(first.sizes) == len(second.sizes) + 1:
        for axis in range(len(first.sizes)):
            yield first, _with_axis(second, axis, [view.strides[axis] for view in first.views])


def _with_axis(region: Region, axis: int, steps: Sequence[Size]) -> Region:
    views = [
        View(view.offset, (*view.strides[:axis], step, *view.strides[axis:]))
        for view, step in zip(region.views, steps, strict=True)
    ]
    sizes = (*region.sizes[:axis], 1, *region.sizes[axis:])
    read = views[1] if region.source is not None else region.read
    return dataclasses.replace(region, sizes=sizes, write=views[0], read=read)


def _follows(first: Region, second: Region, axis: int) -> bool:
    others = [place for place in range(len(first.sizes)) if place != axis]
    if any(first.sizes[place] != second.sizes[place] for place in others):
        return False
    for a, b in zip(first.views, second.views, strict=True):
        if a.strides != b.strides or _plus(a.offset, _times(a.strides[axis], first.sizes[axis])) != b.offset:
            return False
    return True


def _size(form: Form) -> Size:
    found = sized(form)
    assert found is not None, "sizes are integers"
    return found


def _times(a: Size, b: Size) -> Size:
    return _size(Form.of(a) * b)


def _plus(a: Size, b: Size) -> Size:
    return _size(Form.of(a) + b)


def _minus(a: Size, b: Size) -> Size:
    return _size(Form.of(a) - b)
