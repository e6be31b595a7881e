"""What becomes of a count: which operators may take a tensor that is longer than what counts of it, and where the
counted axis is in their result.

What lies behind the count must reach nothing that counts: an operator that would mix it in is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.importing.compacting import Counted


@dataclass(frozen=True)
class Call:
    """A node, with what is known of its operands: the shape and the count of each, None where there is none."""

    operator: str
    attributes: Mapping[str, Any]
    shapes: Sequence[Sequence[int] | None]
    counts: Sequence[Counted | None]
    numbers: Sequence[Sequence[int] | None]
    """Of operands that are constants."""
    results: Sequence[Sequence[int]]
    """The shapes of its outputs."""


class Mixed(Exception):
    """What lies behind a count would be mixed in; says how."""


def counted_axis(call: Call) -> int:
    """Of its outputs. Raises Mixed where what lies behind the count would be mixed in."""
    rule = _RULES.get(call.operator)
    if rule is None:
        raise Mixed("it may look at all of its input")
    return rule(call)


def _elementwise(call: Call) -> int:
    rank = len(call.results[0])
    places = {found.axis - len(shape or ()) for found, shape in _counted(call)}
    counts = {found.count for found, _ in _counted(call)}
    if len(places) > 1 or len(counts) > 1:
        raise Mixed("it joins tensors with counts of their own")
    (place,) = places
    for found, shape in zip(call.counts, call.shapes, strict=True):
        if found is None and shape is not None and len(shape) >= -place and shape[place] != 1:
            raise Mixed("it joins it with a tensor of fixed size")
    return rank + place


def _counted(call: Call) -> list[tuple[Counted, Sequence[int] | None]]:
    return [(found, shape) for found, shape in zip(call.counts, call.shapes, strict=True) if found is not None]


def _first(call: Call) -> tuple[int, list[int]]:
    """The counted axis of the first operand, which alone may have one, and its shape."""
    if call.counts[0] is None or any(call.counts[1:]):
        raise Mixed("an operand that says how it goes about has a count")
    return call.counts[0].axis, list(call.shapes[0] or ())


def _axes(call: Call, rank: int, default: Sequence[int] | None = None) -> list[int]:
    """Those that a reduction names; without any, all (or `default`)."""
    found = call.attributes.get("axes") or (call.numbers[1] if len(call.numbers) > 1 else None)
    if found is None and "axis" in call.attributes:
        found = [call.attributes["axis"]]
    if found is None:
        found = range(rank) if default is None else default
    return [int(axis) % rank for axis in found]


def _reduced(call: Call) -> int:
    axis, shape = _first(call)
    axes = _axes(call, len(shape), [0] if call.operator.startswith("Arg") else None)
    if axis in axes:
        raise Mixed("it reduces that axis")
    return axis if call.attributes.get("keepdims", 1) else axis - sum(other < axis for other in axes)


def _slice(call: Call) -> int:
    axis, shape = _first(call)
    starts = call.attributes.get("starts") or call.numbers[1]
    named = call.attributes.get("axes") or (call.numbers[3] if len(call.numbers) > 3 else None)
    computed = len(call.shapes) > 3 and call.shapes[3] is not None and call.numbers[3] is None
    if starts is None or computed:
        raise Mixed("where it begins depends on the values of the input, too")
    if axis in [int(found) % len(shape) for found in named or range(len(starts))]:
        raise Mixed("it takes a part of that axis")
    return axis


def _transpose(call: Call) -> int:
    axis, shape = _first(call)
    order = list(call.attributes.get("perm") or reversed(range(len(shape))))
    return order.index(axis)


def _reshape(call: Call) -> int:
    axis, shape = _first(call)
    result = call.results[0]
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    for place, size in enumerate(result):
        if size == shape[axis] and math.prod(result[:place]) == before and math.prod(result[place + 1 :]) == after:
            return place
    raise Mixed(f"it makes {list(result)} of {shape}, which takes that axis apart")


def _gather(call: Call) -> int:
    data, indices = call.counts[:2]
    axis = int(call.attributes.get("axis", 0)) % len(call.shapes[0] or (1,))
    if data is None and indices is not None:
        return axis + indices.axis
    if data is None or indices is not None or data.axis == axis:
        raise Mixed("it takes elements of that axis by their number")
    return data.axis if data.axis < axis else data.axis - 1 + len(call.shapes[1] or ())


def _by_indices(call: Call) -> int:
    """GatherND, GatherElements: each row of indices is looked up by itself."""
    indices = call.counts[1]
    last = call.operator == "GatherND" and indices is not None and indices.axis == len(call.shapes[1] or ()) - 1
    if indices is None or call.counts[0] is not None or last:
        raise Mixed("it takes elements of that axis by their number")
    return indices.axis


def _concat(call: Call) -> int:
    axis = int(call.attributes["axis"]) % len(call.results[0])
    counted = {(found.axis, found.count) for found in call.counts if found is not None}
    if len(counted) > 1 or None in call.counts:
        raise Mixed("it joins tensors with counts of their own")
    ((place, _),) = counted
    if place == axis:
        raise Mixed("it puts something behind that axis")
    return place


def _product(call: Call) -> int:
    """Each row by itself."""
    axis, shape = _first(call)
    transposed = call.operator == "Gemm" and bool(call.attributes.get("transA"))
    rows = axis != (0 if transposed else len(shape) - 1)
    if not rows or len(shape) < 2:
        raise Mixed("it sums along that axis")
    if call.operator == "Gemm":
        return 0
    return len(call.results[0]) - (len(shape) - axis)


def _normalized(call: Call) -> int:
    axis, shape = _first(call)
    if axis >= int(call.attributes.get("axis", -1)) % len(shape):
        raise Mixed("it normalizes along that axis")
    return axis


def _softmax(call: Call) -> int:
    axis, shape = _first(call)
    # Before opset 13 it goes along all axes from that one on, the second where none is named.
    if axis >= int(call.attributes.get("axis", 1)) % len(shape):
        raise Mixed("it goes along that axis")
    return axis


def _each(text: str, rule: Callable[[Call], int]) -> dict[str, Callable[[Call], int]]:
    return dict.fromkeys(text.split(), rule)


_RULES: Mapping[str, Callable[[Call], int]] = {
    **_each(
        "Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid", _elementwise
    ),
    **_each(
        "HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink", _elementwise
    ),
    **_each("Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Swish", _elementwise),
    **_each(
        "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Clip Div Equal Greater GreaterOrEqual Less", _elementwise
    ),
    **_each("LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor", _elementwise),
    **_each("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd", _reduced),
    **_each("ReduceSum ReduceSumSquare ArgMax ArgMin", _reduced),
    **_each("Flatten Reshape Squeeze Unsqueeze", _reshape),
    **_each("GatherElements GatherND", _by_indices),
    **_each("Gemm MatMul", _product),
    **_each("LayerNormalization RMSNormalization", _normalized),
    **_each("Softmax LogSoftmax Hardmax", _softmax),
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Transpose": _transpose,
}
