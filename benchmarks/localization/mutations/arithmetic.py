"""Mistakes of arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit
from benchmarks.localization.mutations.typed import clamped
from benchmarks.localization.wgsl_text import FLOATS, LARGEST, Code, Span


def swapped_operands(code: Code) -> Iterator[Edit]:
    for binary in code.binaries:
        if binary.operator in ("-", "/") and not code.in_index(binary.whole.start):
            left, right = code.operand(binary.left), code.operand(binary.right)
            yield binary.whole, f"({right} {binary.operator} {left})", f"operands of {binary.operator} swapped"
    for call in code.calls("select"):
        no, yes, condition = (code[argument] for argument in call.arguments)
        yield call.whole, f"select({yes}, {no}, {condition})", "alternatives of select swapped"
    for call in code.calls("fma"):
        a, b, c = (code[argument] for argument in call.arguments)
        yield call.whole, f"fma({a}, {c}, {b})", "factor and summand of fma swapped"


def sign(code: Code) -> Iterator[Edit]:
    for binary in code.binaries:
        if binary.operator in ("+", "-") and not code.in_index(binary.whole.start) and code.computes_floats(binary):
            other = "-" if binary.operator == "+" else "+"
            span = Span(binary.left.end, binary.right.start)
            yield span, f" {other} ", f"{binary.operator} became {other}"
    for call in code.calls("fma"):
        span = call.arguments[0]
        yield span, f"-({code[span]})", "first factor of fma negated"


def wrong_constant(code: Code) -> Iterator[Edit]:
    for match, value in code.floats():
        if value != 0 and abs(value) < LARGEST:
            yield Span(match.start(), match.end()), f"{value * 1.1:.6e}f", f"{match[0]} became 1.1 times as large"


def wrong_epsilon(code: Code) -> Iterator[Edit]:
    for match, value in _epsilons(code):
        span = Span(match.start(), match.end())
        yield span, "0.000000e+00f", f"epsilon {match[0]} dropped"
        yield span, f"{1e-3 if value < 1e-5 else value * 100:.6e}f", f"epsilon {match[0]} too large"


def _epsilons(code: Code) -> Iterator[tuple[re.Match[str], float]]:
    """Small constants under a root, with their values."""
    for call in code.calls("sqrt", "inverseSqrt"):
        for match, value in code.floats():
            if call.whole.start <= match.start() < call.whole.end and 0 < value <= 1e-3:
                yield match, value


def rounded_constant(code: Code) -> Iterator[Edit]:
    """A coefficient with three digits: 0.0447 for 0.044715."""
    for match, value in code.floats():
        short = float(f"{value:.2e}")
        if 0 < abs(value) < LARGEST and abs(short - value) > 1e-6 * abs(value):
            yield Span(match.start(), match.end()), f"{short:.6e}f", f"{match[0]} became {short:g}"


def other_epsilon(code: Code) -> Iterator[Edit]:
    """The one of another framework."""
    for match, value in _epsilons(code):
        for times in (0.1, 10.0):
            text = f"{value * times:.6e}f"
            yield Span(match.start(), match.end()), text, f"epsilon {match[0]} became {value * times:g}"


def saturated_value(code: Code) -> Iterator[Edit]:
    """What is stored, or goes into exp, stays within a range."""
    found = [(call.arguments[0], code.type_of(call.arguments[0])) for call in code.calls("exp")]
    for access in code.accesses:
        kind = code.outputs.get(access.name, "")
        if access.stores and kind in FLOATS:
            found.append((Span(access.whole.end + len(" = "), code.statement(access.whole.start).end - 1), kind))
    for span, kind in found:
        for low, high in ((-1.0, 1.0), (-6.0, 6.0), (0.0, 6.0)):
            text = clamped(code[span], kind, low, high)
            yield span, text, f"value saturated to {low:g} to {high:g}"


def removed_max_subtraction(code: Code) -> Iterator[Edit]:
    for call in code.calls("exp"):
        argument = call.arguments[0]
        for binary in code.binaries:
            if binary.whole == argument and binary.operator == "-":
                yield argument, code[binary.left], "exp of the difference became exp of the first"
