"""ONNX's Resize, axis by axis: each element of the result is a weighted sum of few elements of the data.

Places and weights are computed at import, by the formulas of ONNX's specification (operator Resize), in float64 but for
cubic ones; what runs on a device gathers and adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, te
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.model import Array
from tapml.importing.onnx_operands import Operands, text
from tapml.importing.onnx_shapes import resized
from tapml.importing.relax_ir import Expr, static_shape, tensor_dtype


def resize(builder: Expr, inputs: Operands, attributes: Mapping[str, Any]) -> Expr:
    """Upsample as well. Raises InputError for a mode that ONNX does not define."""
    attributes = {**_DEFAULTS, **attributes}
    if len(inputs) > 2:
        return (resized if inputs.varies(3) else _by_axes)(builder, inputs, attributes)
    # The Resize of opset 10, too: data and scales, and no attribute but the mode.
    scales = relax.const(np.array(attributes["scales"], np.float32)) if len(inputs) < 2 else inputs[1]
    attributes = {**attributes, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _by_axes(builder, [inputs[0], None, scales], attributes)


_DEFAULTS = {
    "mode": "nearest",
    "coordinate_transformation_mode": "half_pixel",
    "nearest_mode": "round_prefer_floor",
    "keep_aspect_ratio_policy": "stretch",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "extrapolation_value": 0.0,
}


def _by_axes(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """`inputs`: data, and as constants roi, scales, sizes, of which scales or sizes may be None or empty."""
    data, roi, scales, sizes = (*inputs, None, None, None)[:4]
    shape = static_shape(data.ty)
    if shape is None:
        raise InputError("Resize needs fixed sizes")
    axes = [axis % len(shape) for axis in attributes.get("axes") or range(len(shape))]
    lengths = [shape[axis] for axis in axes]
    ratios, results = _sizes(lengths, _numbers(scales), _numbers(sizes), text(attributes["keep_aspect_ratio_policy"]))
    corners = _numbers(roi) or [0.0] * len(axes) + [1.0] * len(axes)
    dtype = tensor_dtype(data.ty)
    if dtype != "float32":
        data = builder.emit(op.astype(data, "float32"))
    for number, axis in enumerate(axes):
        line = _Line(lengths[number], results[number], ratios[number], corners[number], corners[len(axes) + number])
        if line.length == line.result and ratios[number] == 1 and "crop" not in text(_mode(attributes)):
            continue
        places, weights, outside = line.taps(attributes)
        data = builder.emit(
            builder.call_te(
                _gathered, data, relax.const(places), relax.const(weights), axis, primfunc_name_hint="resize"
            )
        )
        if outside.any():
            column = [-1 if i == axis else 1 for i in range(len(shape))]
            beyond = relax.const(outside.reshape(column))
            filler = relax.const(float(attributes["extrapolation_value"]), "float32")
            data = builder.emit(op.where(beyond, filler, data))
    if dtype != "float32":
        whole = op.round(data) if dtype and "int" in dtype else data
        return op.astype(builder.emit(whole) if whole is not data else data, dtype)
    return data


def _mode(attributes: Mapping[str, Any]) -> Any:
    return attributes["coordinate_transformation_mode"]


def _numbers(expr: Any) -> list[float]:
    return [] if expr is None else [float(number) for number in expr.value.numpy().reshape(-1)]


def _sizes(
    lengths: Sequence[int], scales: Sequence[float], sizes: Sequence[float], policy: str
) -> tuple[list[float], list[int]]:
    """The scale and the length of each axis."""
    if not sizes:
        return list(scales), [math.floor(n * scale) for n, scale in zip(lengths, scales, strict=True)]
    ratios = [size / n for n, size in zip(lengths, sizes, strict=True)]
    if policy == "stretch":
        return ratios, [int(size) for size in sizes]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [ratio] * len(lengths), [math.floor(n * ratio + 0.5) for n in lengths]


@dataclass(frozen=True)
class _Line:
    """One axis: its length before and after, the scale between them, and the region that is looked at."""

    length: int
    result: int
    scale: float
    begin: float
    end: float

    def taps(self, attributes: Mapping[str, Any]) -> tuple[Array, Array, Array]:
        """int32 and float32 [result, taps]: which elements are added, with which weights; and which elements of the
        result lie outside of the region (bool [result]).
        """
        mode = text(attributes["mode"])
        # Of cubic weights ONNX's reference implementation has roundings of its own: they are ONNX Runtime's.
        single = mode == "cubic" and not attributes.get("antialias")
        places = self._places(text(_mode(attributes)), np.float32 if single else np.float64)
        cropped = text(_mode(attributes)) == "tf_crop_and_resize"
        outside = (places < 0) | (places > self.length - 1) if cropped else np.zeros(self.result, bool)
        if mode == "nearest":
            nearest = _NEAREST[text(attributes["nearest_mode"])](places)
            chosen = np.clip(nearest, 0, self.length - 1).astype(np.int32)[:, None]
            return chosen, np.ones(chosen.shape, np.float32), outside
        reach = {"linear": 1, "cubic": 2}.get(mode)
        if reach is None:
            raise InputError(f"Resize has no mode {mode!r}")
        # Where the data shrinks, the filter is as wide as what becomes one element.
        narrow = min(self.scale, 1.0) if attributes.get("antialias") else 1.0
        first = np.floor(places)
        begin = math.floor(-reach / narrow) + 1
        offsets = np.arange(begin, 2 - begin, dtype=places.dtype)
        distance = np.abs((offsets[None, :] - (places - first)[:, None]) * narrow)
        weights = _linear(distance) if reach == 1 else _cubic(distance, float(attributes["cubic_coeff_a"]))
        at = first[:, None] + offsets[None, :]
        if attributes["exclude_outside"]:
            weights = np.where((at < 0) | (at >= self.length), 0.0, weights)
        if attributes["exclude_outside"] or narrow < 1.0:
            weights = weights / weights.sum(axis=1, keepdims=True)
        return np.clip(at, 0, self.length - 1).astype(np.int32), weights.astype(np.float32), outside

    def _places(self, mode: str, number: Callable[[float], np.floating[Any]]) -> Array:
        """Where each element of the result lies in the data, in numbers of that type."""
        x: Array = np.arange(self.result, dtype=type(number(0)))
        # What the scale makes of the length need not be an integer.
        exact, scale = number(self.length * self.scale), number(self.scale)
        last = number(self.length - 1)
        if mode == "asymmetric":
            return np.divide(x, scale)
        if mode == "tf_half_pixel_for_nn":
            return np.divide(np.add(x, number(0.5)), scale)
        if mode == "align_corners":
            return np.divide(x * last, exact - number(1)) if exact != 1 else np.zeros_like(x)
        if mode == "tf_crop_and_resize":
            if self.result <= 1:
                return np.full_like(x, 0.5 * (self.begin + self.end) * last)
            return self.begin * last + x * (self.end - self.begin) * last / (self.result - 1)
        half_pixel: Array = (x + number(0.5)) / scale - number(0.5)
        if mode == "pytorch_half_pixel":
            return half_pixel if exact > 1 else np.zeros_like(x)
        if mode == "half_pixel_symmetric":
            return np.add(number(self.length / 2) * (number(1) - number(self.result) / exact), half_pixel)
        if mode == "half_pixel":
            return half_pixel
        raise InputError(f"Resize has no coordinate_transformation_mode {mode!r}")


_NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _linear(distance: Array) -> Array:
    weights: Array = np.maximum(1 - distance, 0.0)
    return weights


def _cubic(distance: Array, a: float) -> Array:
    """Keys' kernel."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    weights: Array = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    return weights


def _gathered(data: Any, places: Any, weights: Any, axis: int) -> Any:
    tap = te.reduce_axis((0, places.shape[1]), "k")
    shape = [places.shape[0] if number == axis else extent for number, extent in enumerate(data.shape)]

    def total(*at: Any) -> Any:
        source = (*at[:axis], places(at[axis], tap), *at[axis + 1 :])
        return te.sum(data(*source) * weights(at[axis], tap), axis=tap)

    return te.compute(shape, total, name="resize")
