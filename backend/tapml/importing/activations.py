"""Activations as 8-bit integers with a scale for each row, made as the model runs, and their products with weights that
are integers of 8 or 4 bits: sums of whole numbers, which are exact. Weights of 4 bits have a scale for each group of a
row: of each group there is such a sum, and these are added up as floating-point numbers.

A row `[inner]` is stored as that of a weight is: words uint32 `[ceil(inner / 4)]`, the first integer in the lowest
bits, of which 128 stands for 0, and a scale float32, its greatest absolute value over 127. An element is the nearest
integer to what it is in units of the scale, the upper one of two that are as near.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tapml.errors import InputError
from tapml.importing.kernel_calls import call_several
from tapml.importing.quantise import INT8, Kind
from tapml.text import meant

MODES = ("int8",)
"""What activations may be rounded to."""

ROWS, ROUNDED = "int8_rows", "int8_rounded"
"""Operators: what gives words and scales of rows, and what gives the numbers that these stand for."""

LARGEST = INT8.largest
"""The integer that the greatest of a row becomes."""

LEAST = 2.0**-100
"""A row with nothing greater has the scale of this number: a scale is a normal number, and so is its inverse."""

MOST_TERMS = 2**31 // (128 * 128)
"""Of a sum of products of 8 bits each that an int32 holds whatever they are."""

MOST_OF_ONE_ROW = 14336
"""The longest row that is rounded within each product that reads it, where it is the only one: as words it has room in
the workgroup memory that every device has, beside sums."""


def check_activations(activations: str, quantise: str | None) -> None:
    """Raise InputError for activations that cannot be asked for with these weights."""
    if activations not in MODES:
        raise InputError(
            f"there is no --activations {activations}{meant(activations, MODES) or ':'} it is {', '.join(MODES)}"
        )
    if quantise is None:
        raise InputError(
            f"--activations {activations} is for products with quantised weights: give --quantise q8, q844, q4f16 or "
            "q4f32, too"
        )


def packed_rows(data: Any) -> list[Any]:
    """Words uint32 `[..., ceil(inner / 4)]` and scales float32 `[..., 1]` of `data` `[..., inner]`."""
    *rows, inner = data.shape
    greatest, number = _row(data)

    def word(*at: Any) -> Any:
        *row, place = at
        found: Any = tirx.const(0, "uint32")
        for n in range(INT8.each):
            k = place * INT8.each + n
            inside = tirx.const(True) if int(inner) % INT8.each == 0 else k < inner
            code = tirx.if_then_else(inside, number(*row, k), tirx.const(0, "int32")) if n else number(*row, k)
            code = (code + tirx.const(INT8.zero, "int32")).astype("uint32")
            # A sum, of which it can be told what a device may have in it that rounds one number otherwise.
            found = found + code * tirx.const(1 << INT8.bits * n, "uint32") if n else code
        return found

    words = te.compute([*rows, INT8.words(int(inner))], word, "words")
    scales = te.compute([*rows, 1], lambda *at: greatest(*at[:-1]) / tirx.const(LARGEST, "float32"), "scales")
    return [words, scales]


def rounded(data: Any) -> Any:
    """The numbers that words and scales of `data` `[..., inner]` stand for."""
    greatest, number = _row(data)

    def element(*at: Any) -> Any:
        scale = greatest(*at[:-1]) / tirx.const(LARGEST, "float32")
        return (number(*at).astype("float32") * scale).astype(data.dtype)

    return te.compute(data.shape, element, "rounded")


def _row(data: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The greatest absolute value of a row, or LEAST, and the integer of an element."""
    *rows, inner = data.shape
    k = te.reduce_axis((0, inner), name="k")
    sizes = te.compute(rows, lambda *at: te.max(tirx.abs(data(*at, k).astype("float32")), axis=k), name="greatest")

    def greatest(*row: Any) -> Any:
        return tirx.max(sizes(*row), tirx.const(LEAST, "float32"))

    def number(*at: Any) -> Any:
        steps = data(*at).astype("float32") * (tirx.const(LARGEST, "float32") / greatest(*at[:-1]))
        return tirx.floor(steps + tirx.const(0.5, "float32")).astype("int32")

    return greatest, number


def product(words: Any, scales: Any, weight: Any, weight_scales: Any, inner: int, dtype: str, kind: Kind = INT8) -> Any:
    """Of packed rows and a packed weight `[columns, inner]` of one of OF_INTEGERS, the sums of integers times both
    scales, in `dtype`."""
    left = te.compute([*words.shape[:-1], inner], lambda *at: _integer(words, at, INT8), "numbers")
    return _scaled(left, lambda *row: scales(*row, 0), weight, weight_scales, dtype, kind)


def rounded_product(data: Any, weight: Any, weight_scales: Any, kind: Kind = INT8) -> Any:
    """The same of what the rows are packed of, `[..., inner]`, in its dtype. Integers are not packed on the way: of a
    word with a number in doubt little could be told."""
    greatest, number = _row(data)
    left = te.compute(data.shape, number, "numbers")
    largest = tirx.const(LARGEST, "float32")
    return _scaled(left, lambda *row: greatest(*row) / largest, weight, weight_scales, data.dtype, kind)


def _scaled(left: Any, scale: Callable[..., Any], weight: Any, weight_scales: Any, dtype: str, kind: Kind) -> Any:
    """Of integers `[..., inner]` and a packed weight: the sums of their products times `scale`, of a row, and that of
    the weight."""
    if kind.group is None:
        total = _summed(left, weight, kind)

        def element(*at: Any) -> Any:
            scaled = total(*at).astype("float32") * scale(*at[:-1]) * weight_scales(at[-1], 0)
            return scaled.astype(dtype)
    else:
        total = _summed_by_groups(left, weight, weight_scales, kind, kind.group)

        def element(*at: Any) -> Any:
            return (total(*at) * scale(*at[:-1])).astype(dtype)

    return te.compute(total.shape, element, "matmul")


def _summed(left: Any, weight: Any, kind: Kind) -> Any:
    """The sums of products, int32."""
    columns, inner = weight.shape[0], left.shape[-1]
    k = te.reduce_axis((0, inner), name="k")
    right = te.compute([columns, inner], lambda *at: _integer(weight, at, kind), "weights")
    shape = [*left.shape[:-1], columns]
    return te.compute(shape, lambda *at: te.sum(left(*at[:-1], k) * right(at[-1], k), axis=k), "total")


def _summed_by_groups(left: Any, weight: Any, weight_scales: Any, kind: Kind, group: int) -> Any:
    """The sums of products of each group, int32, times its scale, added up in float32."""
    *rows, inner = left.shape
    columns, groups = weight.shape[0], kind.groups(int(inner))
    right = te.compute([columns, inner], lambda *at: _integer(weight, at, kind), "weights")
    if groups * group != int(inner):
        left, right = _filled(left, groups * group), _filled(right, groups * group)
    k, own = te.reduce_axis((0, group), name="k"), te.reduce_axis((0, groups), name="group")

    def product(*at: Any) -> Any:
        *row, column, number = at
        place = number * group + k
        return te.sum(left(*row, place) * right(column, place), axis=k)

    sums = te.compute([*rows, columns, groups], product, "sums")

    def scaled(*at: Any) -> Any:
        return te.sum(sums(*at, own).astype("float32") * weight_scales(at[-1], own), axis=own)

    return te.compute([*rows, columns], scaled, "total")


def _filled(integers: Any, inner: int) -> Any:
    """With zeros behind the last one of each row: the last group has as many as the others."""
    *rows, before = integers.shape

    def element(*at: Any) -> Any:
        return tirx.if_then_else(at[-1] < before, integers(*at), tirx.const(0, "int32"))

    return te.compute([*rows, inner], element, f"{integers.op.name}_of_groups")


def _integer(words: Any, at: Any, kind: Kind) -> Any:
    *row, k = at
    shift = tirx.Cast("uint32", tirx.floormod(k, kind.each) * kind.bits)
    code = (words(*row, tirx.floordiv(k, kind.each)) >> shift) & tirx.const(2**kind.bits - 1, "uint32")
    return code.astype("int32") - tirx.const(kind.zero, "int32")


def product_of_one_row(rank: int, inner: int, columns: int, dtype: str, kind: Kind = INT8) -> Any:
    """The PrimFunc of a `rounded_product` of one row, whose data has so many dimensions."""
    data = te.placeholder([1] * (rank - 1) + [inner], dtype, "data")
    weight = te.placeholder([columns, kind.words(inner)], "uint32", "weight")
    scales = te.placeholder([columns, kind.groups(inner)], "float32", "weight_scales")
    function = te.create_prim_func([data, weight, scales, rounded_product(data, weight, scales, kind)], "int64")
    return function.without_attr("global_symbol")


def converters() -> dict[str, Callable[[Any, Any], Any]]:
    """By the operator's name as torch.export spells it (torch_rounded.py defines it)."""
    return {f"{ROUNDED}.default": _node}


def _node(node: Any, importer: Any) -> Any:
    (data,) = (importer.env[argument] for argument in node.args)
    return rounded_by_call(importer.block_builder, data)


def rounded_by_call(builder: Any, data: Any) -> Any:
    """What a kernel gives that is called ROUNDED: `rounded`, and beside it words and scales. Where products of integers
    take its place nothing is left of it; a model in detail, which has none, has their words and scales so."""
    return call_several(builder, lambda data: [rounded(data), *packed_rows(data)], [data], name=ROUNDED)[0]
