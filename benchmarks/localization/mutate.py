"""Mutation operators on WGSL as TVM writes it: each a mistake that people who write kernels make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.localization.wgsl_text import Code, Span

Edit = tuple[Span, str, str]
"""What is replaced, by what, and that in words."""

_FLOAT = r"(?<![\w.])-?\d\.\d+e[+-]\d+f"
_LARGEST = 3e38
_LEAST = r"-(?:3\.4028\d*e\+38|0x1\.fffffep\+127)f"


@dataclass(frozen=True)
class Mutant:
    """One mistake in one file. `line`, counted from 1, is where it begins."""

    operator: str
    line: int
    description: str
    edit: Span
    replacement: str
    original: str = field(repr=False)

    @property
    def text(self) -> str:
        """The whole file, mutated."""
        return self.original[: self.edit.start] + self.replacement + self.original[self.edit.end :]


def mutants(wgsl: str) -> list[Mutant]:
    """All mutants of a file, in the order of OPERATORS and then of the text. None of them can loop for ever."""
    code = Code(wgsl)
    found: dict[tuple[int, int, str], Mutant] = {}
    for operator, edits in OPERATORS.items():
        for span, replacement, description in edits(code):
            if code[span] != replacement:
                mutant = Mutant(operator, code.line_of(span.start), description, span, replacement, wgsl)
                found.setdefault((span.start, span.end, replacement), mutant)
    return list(found.values())


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


# ------------------------------------------------ where things are read and written


def _index_off_by_one(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        index = code[span]
        if not re.fullmatch(r"\d+i", index):
            yield span, f"({index} + 1i)", f"index {_shown(index)} plus 1"


def _swapped_axes(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        index = code[span]
        swapped = re.sub(r"\.([xy])\b", lambda axis: ".y" if axis[1] == "x" else ".x", index)
        if ".x" in index and ".y" in index and swapped != index:
            yield span, swapped, f"x and y swapped in index {_shown(index)}"
    for outer in code.binaries:
        if outer.operator != "+" or not code.in_index(outer.whole.start):
            continue
        # (row * columns + column) becomes (column * columns + row)
        product = re.fullmatch(r"\((.+) \* (\d+i)\)", code[outer.left])
        column = code[outer.right]
        if product and not re.fullmatch(r"\d+i", column) and product[1] != column:
            swapped = f"(({column} * {product[2]}) + {product[1]})"
            yield outer.whole, swapped, f"row and column swapped in {_shown(code[outer.whole])}"


def _dropped_barrier(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"workgroupBarrier\(\);"):
        yield Span(match.start(), match.end()), "", "workgroupBarrier dropped"


# ------------------------------------------------ arithmetic


def _swapped_operands(code: Code) -> Iterator[Edit]:
    for binary in code.binaries:
        if binary.operator in ("-", "/") and not code.in_index(binary.whole.start):
            left, right = code[binary.left], code[binary.right]
            yield binary.whole, f"({right} {binary.operator} {left})", f"operands of {binary.operator} swapped"
    for call in code.calls("select"):
        no, yes, condition = (code[argument] for argument in call.arguments)
        yield call.whole, f"select({yes}, {no}, {condition})", "alternatives of select swapped"
    for call in code.calls("fma"):
        a, b, c = (code[argument] for argument in call.arguments)
        yield call.whole, f"fma({a}, {c}, {b})", "factor and summand of fma swapped"


def _sign(code: Code) -> Iterator[Edit]:
    for binary in code.binaries:
        if binary.operator in ("+", "-") and not code.in_index(binary.whole.start) and _is_float(code, binary.left):
            other = "-" if binary.operator == "+" else "+"
            span = Span(binary.left.end, binary.right.start)
            yield span, f" {other} ", f"{binary.operator} became {other}"
    for call in code.calls("fma"):
        span = call.arguments[0]
        yield span, f"-({code[span]})", "first factor of fma negated"


def _is_float(code: Code, span: Span) -> bool:
    """Not an index computed in a statement of its own."""
    line_start = code.text.rfind("\n", 0, span.start) + 1
    line = code.text[line_start : code.text.find("\n", span.start)]
    return not re.match(r"\s*(let \w+ : i32|if|for)\b", line)


def _wrong_constant(code: Code) -> Iterator[Edit]:
    for match in code.matches(_FLOAT):
        value = float(match[0][:-1])
        if value != 0 and abs(value) < _LARGEST:
            yield Span(match.start(), match.end()), f"{value * 1.1:.6e}f", f"{match[0]} became 1.1 times as large"


def _wrong_epsilon(code: Code) -> Iterator[Edit]:
    for call in code.calls("sqrt", "inverseSqrt"):
        for match in re.compile(_FLOAT).finditer(code.text, call.whole.start, call.whole.end):
            value = float(match[0][:-1])
            if 0 < value <= 1e-3:
                span = Span(match.start(), match.end())
                yield span, "0.000000e+00f", f"epsilon {match[0]} dropped"
                yield span, f"{1e-3 if value < 1e-5 else value * 100:.6e}f", f"epsilon {match[0]} too large"


def _removed_max_subtraction(code: Code) -> Iterator[Edit]:
    for call in code.calls("exp"):
        argument = call.arguments[0]
        for binary in code.binaries:
            if binary.whole == argument and binary.operator == "-":
                yield argument, code[binary.left], "exp of the difference became exp of the first"


# ------------------------------------------------ conversions


def _dtype_conversion(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"([\w\[\]() +*.>&%/]+?) = (.+);"):
        span = Span(match.start(2), match.end(2))
        value, kind = code[span], code.element_type(match[1])
        if match[0].lstrip().startswith(("let", "for", "var")) or re.fullmatch(_FLOAT + r"|-?\d+i", value):
            continue
        if kind == "f32":
            yield span, f"f32(i32({value}))", "value went through i32"
            yield span, f"unpack2x16float(pack2x16float(vec2<f32>({value}, 0.0))).x", "value went through f16"
            yield span, f"bitcast<f32>(bitcast<u32>({value}) & 4294901760u)", "value went through bfloat16"
        elif kind == "i32":
            yield span, f"({value} & 255i)", "value went through uint8"
            yield span, f"i32(f32({value}) * 0.00390625) * 256i", "value went through a coarse float"
    for binary in code.binaries:
        if binary.operator == ">>":
            left, right = code[binary.left], code[binary.right]
            yield binary.whole, f"i32(u32({left})>>{right})", "shift of a signed number became one of an unsigned"


# ------------------------------------------------ control


def _conditions(code: Code) -> Iterator[Span]:
    """Those of branches in which no barrier stands: a barrier in one does not compile."""
    for match in code.matches(r"if \("):
        start = match.end() - 1
        end = code.closing(start)
        closed = _block_end(code.text, code.text.index("{", end))
        if "workgroupBarrier" not in code.text[end:closed]:
            yield Span(start + 1, end)


def _block_end(text: str, position: int) -> int:
    depth = 0
    for place in range(position, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def _dropped_guard(code: Code) -> Iterator[Edit]:
    for span in _conditions(code):
        yield span, "true", f"guard {_shown(code[span])} dropped"


def _inverted_guard(code: Code) -> Iterator[Edit]:
    for span in _conditions(code):
        yield span, f"!({code[span]})", f"guard {_shown(code[span])} inverted"


def _accumulation_start(code: Code) -> Iterator[Edit]:
    starts = {"0.000000e+00f": "1.000000e+00f", "0i": "1i"}
    for match in code.matches(rf"(\w+)\[[^=]*\] = (0\.000000e\+00f|0i|{_LEAST});"):
        span, start = Span(match.start(2), match.end(2)), starts.get(match[2], "0.000000e+00f")
        yield span, start, f"{match[1]} starts from {start} instead of {match[2]}"


def _reduction_bound(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"for \(var (\w+) : i32 = (0i); \1 < (\d+)i; \1\+\+\)"):
        bound = int(match[3])
        if bound > 1:
            yield Span(match.start(3), match.end(3)), str(bound - 1), f"loop over {bound} ends one early"
            yield Span(match.start(2), match.end(2)), "1i", f"loop over {bound} begins one late"
    for match in code.matches(r"if \(i32\(threadIdx\.x\) < (\d+)i\) \{"):
        bound = int(match[1])
        if bound > 1 and code.text[match.end() :].lstrip().startswith("red_buf"):
            yield Span(match.start(1), match.end(1)), str(bound - 1), f"reduction step over {bound} ends one early"


OPERATORS: dict[str, Callable[[Code], Iterator[Edit]]] = {
    "index off by one": _index_off_by_one,
    "swapped operands": _swapped_operands,
    "dropped barrier": _dropped_barrier,
    "wrong epsilon": _wrong_epsilon,  # before "wrong constant", which finds the same places
    "wrong constant": _wrong_constant,
    "sign": _sign,
    "dropped guard": _dropped_guard,
    "inverted guard": _inverted_guard,
    "dtype conversion": _dtype_conversion,
    "wrong accumulation start": _accumulation_start,
    "swapped axes": _swapped_axes,
    "removed max-subtraction": _removed_max_subtraction,
    "wrong reduction bound": _reduction_bound,
}
