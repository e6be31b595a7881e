"""Mistakes of registers, limits, approximations and formats."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import LARGEST, Code, Span


def first_element(code: Code) -> Iterator[Edit]:
    """Always the first element is read."""
    for access in code.loads:
        if not re.fullmatch(r"\d+i", code[access.index]):
            yield access.index, "0i", f"{shown(code[access.whole])} read at 0"


def no_limit(code: Code) -> Iterator[Edit]:
    """A limit is left out, or another number."""
    for call in code.calls("max", "min"):
        first, second = call.arguments
        if re.search(r"e[+-]\d+f$", code[second]) and abs(float(code[second][:-1])) < LARGEST:
            yield call.whole, f"({code[first]})", f"{call.name} with {code[second]} left out"
            yield second, f"({code[second]} + 0.5f)", f"{call.name} with {code[second]} and a half more"


def other_register(code: Code) -> Iterator[Edit]:
    """What is stored comes from the register beside it."""
    for access in code.accesses:
        match = re.fullmatch(r"(\d+)i", code[access.index])
        if match and not access.stores and access.name.endswith("_local"):
            yield access.index, f"{int(match[1]) ^ 1}i", f"{code[access.whole]} became that beside it"


def lost_summand(code: Code) -> Iterator[Edit]:
    """The product alone, or what it is added to alone."""
    for call in code.calls("fma"):
        a, b, c = (code[argument] for argument in call.arguments)
        yield call.whole, f"({a} * {b})", "the summand of fma is lost"
        yield call.whole, f"({c})", "the product of fma is lost"


def tighter_guard(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"< (\d+)i"):
        size = int(match[1])
        if size > 2 and "for (" not in code[code.statement(match.start())]:
            yield Span(match.start(), match.end()), f"< {size - 2}i", f"limit {size} of a condition became 2 less"


def approximation(code: Code) -> Iterator[Edit]:
    """A function that is only near the one that is meant."""
    for call in code.calls("exp", "sqrt", "tanh", "sin", "cos"):
        x = code[call.arguments[0]]
        texts = {
            "exp": f"pow(1.0f + ({x}) / 1024.0f, 1024.0f)", "tanh": f"(({x}) / (1.0f + abs({x})))",
            "sqrt": f"exp2(0.5f * round(8.0f * log2({x})) / 8.0f)",
        }  # fmt: skip
        if call.name in texts:
            yield call.whole, texts[call.name], f"{call.name} approximated"
        else:
            yield call.whole, f"(({x}) - ({x}) * ({x}) * ({x}) / 6.0f)", f"{call.name} by the first terms of its series"


def rows_exchanged(code: Code) -> Iterator[Edit]:
    """What is stored goes where the neighbour's should, or a few elements on."""
    for access in code.accesses:
        if access.stores and access.name in code.outputs:
            index = code[access.index]
            for text, what in ((f"({index} ^ 1i)", "its neighbour's place"), (f"({index} ^ 4i)", "the place 4 beside")):
                yield access.index, text, f"{shown(code[access.whole])} stored in {what}"


def few_bits(code: Code) -> Iterator[Edit]:
    """Inputs as float8 holds them, or as integers of so many steps."""
    rounded = "round(({0}) * {1}) / {1}"
    for access in code.loads:
        if code.inputs[access.name] == "f32":
            whole = code[access.whole]
            bits = f"bitcast<f32>((bitcast<u32>({whole}) + 0x80000u) & 0xfff00000u)"
            yield access.whole, bits, f"{shown(whole)} as float8"
            yield access.whole, rounded.format(whole, "16.0f"), f"{shown(whole)} in sixteenths"


def other_shift(code: Code) -> Iterator[Edit]:
    """Bits are taken from another place."""
    for match in code.matches(r">>(\d+)u\) & (\d+)i|>>u32\(|& 15i"):
        if match[1] and int(match[1]) >= 4:
            yield Span(match.start(), match.start() + 2 + len(match[1])), f">>{int(match[1]) - 4}u", "shift 4 less"
        elif match[0] == "& 15i":
            yield Span(match.start(), match.end()), "& 7i", "mask of 15 became 7"


def start_of_maximum(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"= (-(?:3\.4028\d*e\+38|0x1\.fffffep\+127)f);"):
        yield Span(match.start(1), match.end(1)), "1.0f", "the maximum begins at 1"


def scaled_twice(code: Code) -> Iterator[Edit]:
    for access in code.accesses:
        if access.stores and code.outputs.get(access.name) == "f32":
            statement = code.statement(access.whole.start)
            start = code[statement].index(" = ") + 3
            span = Span(statement.start + start, statement.end - 1)
            yield span, f"(({code[span]}) * 0.125f)", "the result an eighth as large"
            yield span, f"(({code[span]}) * ({code[span]}))", "the result squared"
