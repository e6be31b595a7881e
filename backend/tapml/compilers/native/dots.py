"""Products of 8-bit integers that are four to a word on both sides (docs/quantise.md): sums of whole numbers in i32,
four products at a time, by WGSL's `dot4I8Packed` or by what computes the same.

The templates are those of numbers: a vector is of four words, and the inner axis is counted in words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.factors import Factor, Factors
from tapml.compilers.native.integers import OfWords, codes_of
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import Hooks, Kind, Product
from tapml.compilers.native.stages import Index
from tapml.compilers.native.words import bare
from tapml.operators.program import Expression

FEATURE = "packed_4x8_integer_dot_product"
"""The language feature of WGSL that a text with `dot4I8Packed` asks for."""

EACH = 4
"""Integers of a word."""

_ZERO = 128
"""The integer that stands for 0: without its highest bit turned a byte is the number, as WGSL's functions take it."""

_TURNED = "0x80808080u"

_ACCUMULATED = """\
fn accumulated(sum : i32, a : vec4<u32>, b : vec4<u32>) -> i32 {
  return sum + dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}
"""
_BY_FUNCTION = """\
fn dot4(a : u32, b : u32) -> i32 {
  return dot4I8Packed(a, b);
}
"""
_BY_SHIFTS = """\
// The sum of the products of four integers each.
fn dot4(a : u32, b : u32) -> i32 {
  let places = vec4<u32>(24u, 16u, 8u, 0u);
  let left = bitcast<vec4<i32>>(vec4<u32>(a) << places) >> vec4<u32>(24u);
  let right = bitcast<vec4<i32>>(vec4<u32>(b) << places) >> vec4<u32>(24u);
  return dot(left, right);
}
"""

DOTS: Mapping[bool, Kind] = {
    by_function: Kind("i32", "0", "vec4<u32>", f"{dot}\n{_ACCUMULATED}")
    for by_function, dot in ((True, _BY_FUNCTION), (False, _BY_SHIFTS))
}
"""What the templates' texts have in place of numbers; `True`: for devices with `dot4I8Packed`."""


def uses_dots(wgsl: str) -> bool:
    """Whether a text is for devices with `dot4I8Packed` alone."""
    return "dot4I8Packed" in wgsl


def with_dots(requires: Mapping[str, Any]) -> dict[str, Any]:
    """The requirements of a text, and the one that it does not say."""
    return {**requires, "features": sorted({*requires["features"], FEATURE})}


def of_words(found: Contraction, indices: Indices, buffers: Any) -> bool:
    """Whether both factors of a product are 8-bit integers in words that follow each other along the inner axis."""
    return all(words_of(indices, buffers, value, found.inner) is not None for value in (found.left, found.right))


def words_of(indices: Indices, buffers: Any, value: Expression, inner: Sequence[Index]) -> Expression | None:
    """The load of the words whose integers a factor is, less what stands for 0."""
    if len(inner) != 1 or not isinstance(inner[0].extent, int) or value.kind != "sub" or value.dtype != "int32":
        return None
    codes, zero = value.operands
    known = codes_of(indices, buffers, codes, inner[0].variable)
    if known is None or known[1] != 8 or zero.kind != "constant" or zero.value != _ZERO:
        return None
    return known[0]


class ProductOfWords(OfWords, Hooks):
    """The functions of a product of integers: `left4` and `right4` are four words of signed bytes along the inner axis,
    which is counted in words; beyond its end they are 0."""

    def _factor(self, name: str, line: str, value: Expression, own: Sequence[Index], inner: Sequence[Index]) -> Factor:
        return self._of_words(name, line, value, own, inner)

    def _word(self, factor: Factor) -> Expression:
        found = words_of(self._indices, self._buffers, factor.value, factor.inner)
        assert found is not None
        return found

    def _inner(self) -> tuple[int, int]:
        """How many integers and how many words a line has."""
        inner = int(self._right.inner[0].extent)
        return inner, -(-inner // EACH)

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        Factors._bind(self, (), *others)
        for factor in factors:
            buffer = str(self._word(factor).value)
            self._text.bind(buffer, 4 if buffer not in self._text.accesses and self._of_vectors(factor) else 1)

    def _begin(self, factor: Factor) -> Any:
        """Where a line begins, in words."""
        return self._words_before(self._word(factor), factor.inner[0].variable, EACH)

    def _of_vectors(self, factor: Factor) -> bool:
        """Whether four words are always a vector of their buffer."""
        return self._inner()[1] % 4 == 0 and bool(self._begin(factor).divisible(4))

    def product(self, step: int) -> Product:
        words = self._inner()[1]
        return dataclasses.replace(super().product(step), inner=str(words), left_along=True, right_along=True)

    def _vector(self, factor: Factor, step: int) -> str:
        inner, words = self._inner()
        writer = self._writer()
        writer.lines.append(f"fn {factor.name}4(batch : i32, {factor.line} : i32, k : i32) -> vec4<u32> {{")
        if words % step:
            writer.line(f"if (k >= {words}) {{")
            writer.line("  return vec4<u32>();")
            writer.line("}")
        self._decoded(writer, factor.batch, "batch")
        self._decoded(writer, factor.own, factor.line)
        access = self._text.accesses[str(self._word(factor).value)]
        begin = self._begin(factor)
        # Bytes of the last word that no integer is in are made 0, once is enough.
        rest = inner % EACH if factor.name == "left" else 0
        kept = f"{hex((1 << 8 * rest) - 1)}u"
        if access.width == 4:
            text = bare(writer.polynomial(begin.divided(4)))
            where = "k / 4" if text == "0" else f"{text} + k / 4"
            turned = f"{access.name}[{where}] ^ vec4<u32>({_TURNED})"
            if rest:
                writer.line(f"var found = {turned};")
                writer.line(f"found.w = select(found.w, found.w & {kept}, k == {words - 4});")
                turned = "found"
            writer.line(f"return {turned};")
        else:
            text = bare(writer.polynomial(begin))
            where = "k + n" if text == "0" else f"{text} + k + n"
            writer.line("var found = vec4<u32>();")
            writer.line(
                f"for (var n = 0; n < min(4, {words} - k); n++) {{" if words % 4 else "for (var n = 0; n < 4; n++) {"
            )
            writer.line(f"  found[n] = {access.name}[{where}] ^ {_TURNED};")
            if rest:
                writer.line(f"  found[n] = select(found[n], found[n] & {kept}, k + n == {words - 1});")
            writer.line("}")
            writer.line("return found;")
        writer.lines.append("}\n")
        return self._ended(writer)
