"""Edits by chance: other numbers in indices, other buffers, statements that are lost or stand twice; and what gives NaN
or Infinity."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import FLOAT, LARGEST, Code, Span


def index_factor(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        for match in re.finditer(r"\* (\d+)i", code[span]):
            size = int(match[1])
            for other in sorted({size - 1, size + 1, size * 2, size // 2} - {0, size}):
                place = Span(span.start + match.start(), span.start + match.end())
                yield place, f"* {other}i", f"factor {size} of an index became {other}"


def index_shift(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        for match in re.finditer(r">>(\d+)u|& (\d+)i", code[span]):
            place = Span(span.start + match.start(), span.start + match.end())
            if match[1]:
                yield place, f">>{int(match[1]) + 1}u", f"shift by {match[1]} became one more"
            else:
                yield place, f"& {int(match[2]) >> 1}i", f"mask {match[2]} lost a bit"
                yield place, f"& {2 * int(match[2]) + 1}i", f"mask {match[2]} has a bit more"


def index_offset(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        for match in re.finditer(r"\+ (\d+)i", code[span]):
            size = int(match[1])
            for other in sorted({0, size + 2, size * 2, size // 2} - {size}):
                place = Span(span.start + match.start(), span.start + match.end())
                yield place, f"+ {other}i", f"offset {size} of an index became {other}"


def other_buffer(code: Code) -> Iterator[Edit]:
    for access in code.loads:
        for name, kind in code.inputs.items():
            if name != access.name and kind == code.inputs[access.name]:
                span = Span(access.whole.start, access.whole.start + len(access.name))
                yield span, name, f"{name} read in place of {shown(code[access.whole])}"


def lost_statement(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"(?<=\n) *(\w+)\[.*\] = .+;$"):
        yield Span(match.start(), match.end()), "", f"lost: {shown(match[0].strip())}"


def statement_twice(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"(?<=\n) *(\w+\[.*?\]) = (.+);$"):
        if match[1] in match[2]:
            statement = match[0].strip()
            yield Span(match.start(), match.end()), f"{match[0]} {statement}", f"twice: {shown(statement)}"


def other_operation(code: Code) -> Iterator[Edit]:
    others = {"*": "+", "+": "*", "-": "*"}
    for binary in code.binaries:
        if binary.operator in others and not code.in_index(binary.whole.start):
            span = Span(binary.left.end, binary.right.start)
            if not code.text[code.text.rfind("\n", 0, span.start) :].lstrip().startswith(("let", "if", "for")):
                yield span, f" {others[binary.operator]} ", f"{binary.operator} became {others[binary.operator]}"
    for call in code.calls("max", "min"):
        other = "min" if call.name == "max" else "max"
        yield Span(call.whole.start, call.whole.start + 3), other, f"{call.name} became {other}"
    for call in code.calls("exp", "sqrt", "tanh", "log", "abs", "floor"):
        yield call.whole, f"({code[call.arguments[0]]})", f"{call.name} left out"


def other_axis(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        for old, new in (("threadIdx.x", "threadIdx.y"), ("threadIdx.y", "threadIdx.x"), ("blockIdx.y", "blockIdx.x")):
            if old in code[span]:
                yield span, code[span].replace(old, new), f"{old} became {new} in {shown(code[span])}"


def sign_of_constant(code: Code) -> Iterator[Edit]:
    for match in code.matches(FLOAT):
        value = float(match[0][:-1])
        if value != 0 and abs(value) < LARGEST:
            yield Span(match.start(), match.end()), f"{-value:.8e}f", f"{match[0]} became its negative"
            yield Span(match.start(), match.end()), f"{2 * value:.8e}f", f"{match[0]} doubled"


def not_a_number(code: Code) -> Iterator[Edit]:
    """Roots and logarithms of what is negative, divisions by zero, exponentials that overflow."""
    for call in code.calls("sqrt", "inverseSqrt", "log", "log2"):
        span = call.arguments[0]
        yield span, f"-({code[span]})", f"{call.name} of the negative"
        yield span, f"({code[span]} - 1.0f)", f"{call.name} of one less"
    for call in code.calls("exp"):
        span = call.arguments[0]
        yield span, f"(100.0f * ({code[span]}))", "exp of a hundred times as much"
        yield span, f"abs(({code[span]}) * 40.0f)", "exp of forty times the magnitude"
    for binary in code.binaries:
        if binary.operator == "/" and not code.in_index(binary.whole.start):
            right = code[binary.right]
            if not re.search(r"\di$", right):
                yield binary.right, f"(({right}) - ({right}))", f"division by zero in place of {shown(right)}"


def other_summand(code: Code) -> Iterator[Edit]:
    for call in code.calls("fma"):
        a, b, _ = (code[argument] for argument in call.arguments)
        yield call.whole, f"fma({a}, {b}, {a})", "fma adds its first factor"
