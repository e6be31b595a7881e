"""TVM's WGSL as every browser takes it: the one place where its text is put right.

A shader is refused for what it says, whether or not that is ever run: a literal that no type holds, a call of a
function that WGSL has not, and an expression of constants alone that has no value, such as log(0) or 1 / 0.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import numpy as np

from tapml.compilers.tvm.constants import with_exact_constants
from tapml.compilers.tvm.functions import declared, unknown_calls

_FLOAT = r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?[fh]"
_LITERAL = rf"(?:{_FLOAT}|-?\d+[iu])"

_NOT_FINITE = re.compile(r"(-?)\b(inf|nan)([fh])\b")
"""How C++ prints them, with TVM's suffix."""

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?(?:e[+-]?\d+)?)([fh])\b")
_LARGEST = {"f": float(np.finfo(np.float32).max), "h": 65504.0}

_OF_CONSTANTS = re.compile(
    r"\b(?!(?:[iuf]32|f16|bool|vec\d|array|bitcast)\b)(?P<call>[a-z]\w*)"
    rf"\((?P<a>{_LITERAL})(?=(?:, {_LITERAL})*\))"
    rf"|\((?P<b>{_LITERAL})(?= (?:[-+*/%]|<<|>>) {_LITERAL}\))"
)
"""A call, or an operation in parentheses, whose operands are literals: up to the first of them."""

_SIGNED_REMAINDER = re.compile(r"(\blet rmod\w* : i32 = )\((.*)\);")
"""TVM's name for that of integers of which one may be negative."""

_SHIFT = re.compile(r"(?<=<<|>>)(\s*)(?:u32\((\d+)i\)|(\d+)u\b)")

_BY_ZERO = re.compile(r"(?<=[/%] )0[iu]\b")


_MANY_CONDITIONS = 20
"""Joined by `&&` in a text. SwiftShader may take a minute to compile as many as those of a convolution of four
channels, each of which may decide alone; taken together (`&`), which asks for all of them, they take no time."""

_OPENED = "{\n"
"""Where texts are taken apart."""


class SpellingError(Exception):
    """What no browser would take, in a sentence."""


def spelled(wgsl: str, values: Iterable[float]) -> str:
    """The text, with the floating-point constants `values` as exact as they are. Raises SpellingError where
    it calls a function that there is not."""
    text, constant = _joined(map(_part, wgsl.split(_OPENED)), _OPENED)
    if constant:
        text = _without_constant_expressions(text)
    if text.count(" && ") >= _MANY_CONDITIONS:
        text = text.replace(" && ", " & ")  # TVM has each in parentheses
    text = declared(with_exact_constants(text, values))
    if unknown := list(unknown_calls(text)):
        raise SpellingError(f"TVM writes {unknown[0]}(...), a function that WGSL has not")
    return text


@functools.lru_cache(maxsize=1024)
def _part(part: str) -> tuple[str, bool]:
    """The same of what stands between two openings of blocks: tiles of one size have most of it in common."""
    return _joined(map(_line, part.split("\n")), "\n")


def _joined(parts: Iterable[tuple[str, bool]], between: str) -> tuple[str, bool]:
    texts, constant = zip(*parts, strict=True)
    return between.join(texts), any(constant)


@functools.lru_cache(maxsize=8192)
def _line(line: str) -> tuple[str, bool]:
    """A line put right by itself, and whether it may have expressions of constants. Texts have few lines that are in
    no other text: a loop that is written out repeats them, and so do kernels that differ in a parameter."""
    line = _NOT_FINITE.sub(_not_finite, _SIGNED_REMAINDER.sub(_remainder, line))
    line = _SHIFT.sub(_within_a_word, _NUMBER.sub(_in_range, line))
    return line, bool(_OF_CONSTANTS.search(line) or _BY_ZERO.search(line))


def _remainder(match: re.Match[str]) -> str:
    """The operation in the middle of `(a % b)`, by a function of ours."""
    depth = 0
    for place, character in enumerate(match[2]):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if depth == 0 and match[2].startswith(" % ", place):
            return f"{match[1]}tapml_remainder({match[2][:place]}, {match[2][place + 3 :]});"
    return match[0]


def _not_finite(match: re.Match[str]) -> str:
    sign, kind, suffix = match.groups()
    found = "tapml_infinity()" if kind == "inf" else "tapml_nan()"
    found = found if suffix == "f" else f"f16({found})"
    return f"(-{found})" if sign else found


def _in_range(match: re.Match[str]) -> str:
    digits, suffix = match.groups()
    # Half a unit above the largest number still rounds to it, but not in WGSL.
    return match[0] if float(digits) <= _LARGEST[suffix] * (1 + 1e-6) else _not_finite_of(suffix)


def _within_a_word(match: re.Match[str]) -> str:
    """A shift by more than a word has bits is by as many as it can be, as on the reference platform."""
    return match[0] if int(match[2] or match[3]) < 32 else f"{match[1]}31u"


def _not_finite_of(suffix: str) -> str:
    return "tapml_infinity()" if suffix == "f" else "f16(tapml_infinity())"


def _without_constant_expressions(text: str) -> str:
    """With a variable in place of one operand: what it comes to is found when it is run, if it is run at all."""
    named: dict[str, str] = {}

    def variable(literal: str) -> str:
        return named.setdefault(literal, f"tapml_constant_{len(named)}")

    def replaced(match: re.Match[str]) -> str:
        if match["call"] is not None:
            return f"{match['call']}({variable(match['a'])}"
        return f"({variable(match['b'])}"

    text = _OF_CONSTANTS.sub(replaced, text)
    text = _BY_ZERO.sub(lambda match: variable(match[0]), text)
    types = {"f": "f32", "h": "f16", "i": "i32", "u": "u32"}
    declarations = [f"var<private> {name} : {types[literal[-1]]} = {literal};" for literal, name in named.items()]
    return "\n".join([text.rstrip("\n"), *declarations]) + "\n" if declarations else text
