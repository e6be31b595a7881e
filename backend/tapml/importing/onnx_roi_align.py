"""ONNX's RoiAlign: the mean, or the largest, of points of each region that lie between elements.

Places are the same for all channels: a kernel of their own computes them, by axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype, call, call_several
from tapml.importing.onnx_operands import fixed_shape, text, within, zero
from tapml.importing.relax_ir import Expr, tensor_dtype

_REACH = 8
"""Points of one bin that an element may have a share in, where they are between half an element and one apart."""


@dataclass(frozen=True)
class _Line:
    """One axis: its size, the bins of a region, the points of a bin (0: as many as it is elements long)."""

    axis: int
    size: int
    bins: int
    points: int
    scale: float
    half_pixel: bool

    def start(self, rois: Any, roi: Any) -> Any:
        return self._end(rois, roi, 1 - self.axis)

    def bin(self, rois: Any, roi: Any) -> Any:
        """The length of one."""
        length = self._end(rois, roi, 3 - self.axis) - self.start(rois, roi)
        if not self.half_pixel:
            length = tirx.max(length, tirx.const(1.0, rois.dtype))
        return length / tirx.const(float(self.bins), rois.dtype)

    def _end(self, rois: Any, roi: Any, column: int) -> Any:
        place = rois(roi, column) * tirx.const(self.scale, rois.dtype)
        return place - tirx.const(0.5, rois.dtype) if self.half_pixel else place

    def inside(self, place: Any) -> Any:
        return tirx.all(place >= tirx.const(-1.0, place.ty.dtype), place <= tirx.const(self.size, place.ty.dtype))

    def clamped(self, place: Any) -> Any:
        dtype = place.ty.dtype
        return tirx.max(tirx.min(place, tirx.const(self.size - 1, dtype)), zero(dtype))


def roi_align(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Raises InputError for the largest of a number of points that depends on the region."""
    data, rois, batches = inputs
    height, width = fixed_shape(data, "RoiAlign")[2:]
    mode = text(attributes.get("mode", b"avg"))
    points = max(int(attributes.get("sampling_ratio", 0)), 0)
    half = text(attributes.get("coordinate_transformation_mode", b"output_half_pixel")) == "half_pixel"
    scale, extents = float(attributes.get("spatial_scale", 1.0)), (height, width)
    bins = [int(attributes.get(f"output_{name}", 1)) for name in ("height", "width")]
    if mode not in ("avg", "max"):
        raise InputError(f"RoiAlign has no mode {mode!r}")
    lines = [_Line(axis, extents[axis], bins[axis], points, scale, half) for axis in (0, 1)]
    names = [f"roi_{name}" for name in ("rows", "columns")]
    if points:
        tables = [
            table
            for line, name in zip(lines, names, strict=True)
            for table in call_several(builder, _points, [rois], line, name=name)
        ]
        made = call(builder, _pooled, [data, batches, *tables], bins, points, mode, name="roi_align")
    elif mode == "max":
        raise InputError("RoiAlign (max) of sampling_ratio 0 is not supported: give it a sampling_ratio")
    else:
        rows, columns = (
            call(builder, _shares, [rois], line, name=name, alone=True) for line, name in zip(lines, names, strict=True)
        )
        across = call(builder, _across, [data, batches, columns], name="roi_align_columns", alone=True)
        made = call(builder, _down, [across, rows], name="roi_align_rows")
    return as_dtype(builder, made, tensor_dtype(data.ty))


def _points(rois: Any, line: _Line) -> list[Any]:
    """[region, point]: the element before it; [region, point, 2]: the shares of that and of the next, which are 0 where
    the point is outside.
    """
    shape = (rois.shape[0], line.bins * line.points)

    def at(roi: Any, number: Any) -> Any:
        dtype = rois.dtype
        whole, part = tirx.floordiv(number, line.points), tirx.floormod(number, line.points)
        length = line.bin(rois, roi)
        share = (part.astype(dtype) + tirx.const(0.5, dtype)) / tirx.const(float(line.points), dtype)
        return line.start(rois, roi) + (whole.astype(dtype) + share) * length

    places = te.compute(shape, at, name="points")

    def low(roi: Any, number: Any) -> Any:
        return te.floor(line.clamped(places(roi, number))).astype("int32")

    def share(roi: Any, number: Any, which: Any) -> Any:
        place = line.clamped(places(roi, number))
        behind = place - te.floor(place)
        found = tirx.Select(which == 0, tirx.const(1.0, rois.dtype) - behind, behind)
        return tirx.Select(line.inside(places(roi, number)), found, zero(rois.dtype))

    return [te.compute(shape, low, name="low"), te.compute((*shape, 2), share, name="shares")]


def _pooled(data: Any, batches: Any, *rest: Any) -> Any:
    rows, row_shares, columns, column_shares, bins, points, mode = rest
    height, width = data.shape[2:]
    steps = [te.reduce_axis((0, points), name) for name in ("p", "q")]

    def parts(roi: Any, channel: Any, i: Any, j: Any) -> list[Any]:
        down, across = i * points + steps[0], j * points + steps[1]
        found = []
        for row in (0, 1):
            for column in (0, 1):
                at = (
                    within(rows(roi, down) + row, height.astype("int32")),
                    within(columns(roi, across) + column, width.astype("int32")),
                )
                share = row_shares(roi, down, row) * column_shares(roi, across, column)
                found.append(share * data(batches(roi), channel, *at))
        return found

    def total(*at: Any) -> Any:
        a, b, c, d = parts(*at)
        if mode == "max":
            # ONNX takes the largest of the four shares, not of what they add up to.
            return te.max(tirx.max(tirx.max(a, b), tirx.max(c, d)), axis=steps)
        return te.sum(((a + b) + (c + d)) * tirx.const(1.0 / points**2, data.dtype), axis=steps)

    return te.compute((rows.shape[0], data.shape[1], *bins), total, name="roi_align")


def _shares(rois: Any, line: _Line) -> Any:
    """[region, bin, element]: the share of each element in the mean of the points of a bin."""
    dtype, one = rois.dtype, tirx.const(1.0, rois.dtype)
    point = te.reduce_axis((0, _REACH), "p")

    def total(roi: Any, number: Any, element: Any) -> Any:
        length = line.bin(rois, roi)
        # A whole number of elements stays one, however a device divides.
        count = te.ceil(length * tirx.const(1 - 1e-6, dtype))
        step = length / tirx.max(count, one)
        start = line.start(rois, roi) + number.astype(dtype) * length
        here = element.astype(dtype)
        # The first point that may have a share in the element, or one before it.
        first = te.floor((here - one - start) / tirx.max(step, tirx.const(0.5, dtype))) - one
        place_in_bin = tirx.Select(count > one, tirx.max(first, zero(dtype)) + point.astype(dtype), point.astype(dtype))
        place = start + (place_in_bin + tirx.const(0.5, dtype)) * step
        near = one - te.abs(line.clamped(place) - here)
        counts = tirx.all(place_in_bin < count, line.inside(place))
        return te.sum(
            tirx.Select(counts, tirx.max(near, zero(dtype)) / tirx.max(count, one), zero(dtype)), axis=[point]
        )

    return te.compute((rois.shape[0], line.bins, line.size), total, name="shares")


def _across(data: Any, batches: Any, shares: Any) -> Any:
    column = te.reduce_axis((0, data.shape[3]), "x")
    shape = (batches.shape[0], data.shape[1], data.shape[2], shares.shape[1])

    def total(roi: Any, channel: Any, row: Any, number: Any) -> Any:
        return te.sum(data(batches(roi), channel, row, column) * shares(roi, number, column), axis=[column])

    return te.compute(shape, total, name="across")


def _down(across: Any, shares: Any) -> Any:
    row = te.reduce_axis((0, across.shape[2]), "y")
    shape = (across.shape[0], across.shape[1], shares.shape[1], across.shape[3])

    def total(roi: Any, channel: Any, i: Any, j: Any) -> Any:
        return te.sum(across(roi, channel, row, j) * shares(roi, i, row), axis=[row])

    return te.compute(shape, total, name="roi_align")
