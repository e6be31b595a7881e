"""Mistakes as they are made by hand, with numbers of many sizes: what explanations are tested on that were written
without them (explanations.py, `--unseen`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import FLOAT, LARGEST, LEAST, Access, Binary, Code, Span

_VARIABLE = r"(?<![\w.])(?:v__\d+|ax\w+|var_\w+|k\w*|i32\((?:threadIdx|blockIdx)\.[xy]\))(?!\w)"


# ------------------------------------------------ where is read and written


def index_number(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        for match in re.finditer(r"(?<![\w.])(\d+)i\b", code[span]):
            value = int(match[1])
            for other in sorted({value + 3, value * 3, value // 3, abs(value - 5), value + 16} - {value}):
                place = Span(span.start + match.start(), span.start + match.end())
                yield place, f"{other}i", f"{value} became {other} in index {shown(code[span])}"


def index_term_lost(code: Code) -> Iterator[Edit]:
    for binary in _in_indices(code):
        if binary.operator in "+*":
            for kept, lost in ((binary.left, binary.right), (binary.right, binary.left)):
                yield binary.whole, code[kept], f"{shown(code[lost])} lost in index {shown(code[binary.whole])}"


def index_operator(code: Code) -> Iterator[Edit]:
    others = {"*": "+", "/": "%", "%": "/", "&": "|", "+": "-", ">>": "-"}
    for binary in _in_indices(code):
        if binary.operator in others:
            other, right = others[binary.operator], code[binary.right].replace("u", "i")
            text = f"({code[binary.left]} {other} {right})"
            yield binary.whole, text, f"{binary.operator} became {other} in index {shown(code[binary.whole])}"


def index_variable(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        for match in re.finditer(_VARIABLE, code[span]):
            for other in sorted(set(re.findall(_VARIABLE, code.text[code.body :])) - {match[0]}):
                place = Span(span.start + match.start(), span.start + match.end())
                yield place, other, f"{match[0]} became {other} in index {shown(code[span])}"


def neighbour_row(code: Code) -> Iterator[Edit]:
    """An input is read one row, or several, from where it should be."""
    for access in code.loads:
        for stride in sorted({int(size) for size in re.findall(r"\* (\d+)i", code[access.index])}):
            for rows in (-3, -2, -1, 1, 2, 3):
                index = f"max({code[access.index]} + {rows * stride}i, 0i)"
                yield access.index, index, f"{shown(code[access.whole])} read {rows} rows of {stride} on"


def shared_row(code: Code) -> Iterator[Edit]:
    """A place in workgroup memory, several rows of a tile from where it should be."""
    for access in code.accesses:
        if access.name in _shared(code):
            for by in (2, 4, 8, 16, 24, 32, 64):
                what = "stored" if access.stores else "read"
                index = f"({code[access.index]} + {by}i)"
                yield access.index, index, f"{shown(code[access.whole])} {what} {by} further"


def shared_variable(code: Code) -> Iterator[Edit]:
    for access in code.accesses:
        index = code[access.index]
        if access.name in _shared(code) and "threadIdx" in index:
            for old, new in (("threadIdx.x", "threadIdx.y"), ("threadIdx.y", "threadIdx.x")):
                if old in index:
                    yield access.index, index.replace(old, new), f"{old} became {new} in {shown(code[access.whole])}"


def register(code: Code) -> Iterator[Edit]:
    """Another of a thread's registers is read or written."""
    for access in code.accesses:
        size = re.search(rf"var {access.name} : array<\w+, (\d+)>", code.text)
        place = re.fullmatch(r"(\d+)i", code[access.index])
        if size and place and "local" in access.name:
            for other in range(int(size[1])):
                if other != int(place[1]):
                    yield access.index, f"{other}i", f"{code[access.whole]} became register {other}"


def result_place(code: Code) -> Iterator[Edit]:
    for access in _stores(code):
        index = code[access.index]
        for text in (f"({index} ^ 2i)", f"({index} ^ 7i)", f"({index} + 1i)", f"({index} / 2i)", f"({index} & -5i)"):
            yield access.index, text, f"result stored at {shown(text)}"


# ------------------------------------------------ arithmetic


def operator(code: Code) -> Iterator[Edit]:
    for binary in _of_values(code):
        for other in "+-*/":
            if binary.operator in "+-*/" and other != binary.operator:
                text = f"({code[binary.left]} {other} {code[binary.right]})"
                yield binary.whole, text, f"{binary.operator} became {other} in {shown(code[binary.whole])}"


def operand_lost(code: Code) -> Iterator[Edit]:
    for binary in _of_values(code):
        if binary.operator in "+-*/":
            for kept, lost in ((binary.left, binary.right), (binary.right, binary.left)):
                yield binary.whole, code[kept], f"{shown(code[lost])} lost in {shown(code[binary.whole])}"


def operand_twice(code: Code) -> Iterator[Edit]:
    for binary in _of_values(code):
        if binary.operator in "+-*/":
            left, right = code[binary.left], code[binary.right]
            for text in (f"({left} {binary.operator} {left})", f"({right} {binary.operator} {right})"):
                yield binary.whole, text, f"{shown(text)} in place of {shown(code[binary.whole])}"


def fma_operands(code: Code) -> Iterator[Edit]:
    for call in code.calls("fma"):
        a, b, c = (code[argument] for argument in call.arguments)
        for text, what in (
            (f"fma({a}, {b}, {b})", "adds its second factor"), (f"fma({b}, {b}, {c})", "squares its second factor"),
            (f"fma({a}, {a}, {c})", "squares its first factor"), (f"fma({c}, {b}, {a})", "first and last exchanged"),
            (f"(({a} + {b}) + {c})", "became a sum"), (f"(({a} * {b}) - {c})", "subtracts its summand"),
            (f"({a} + {c})", "lost its second factor"), (f"max(({a} * {b}), {c})", "became a maximum"),
        ):  # fmt: skip
            yield call.whole, text, f"fma {what} in {shown(code[call.whole])}"


def function(code: Code) -> Iterator[Edit]:
    texts = {
        "exp": ("exp2({0})", "(1.0f + ({0}))", "exp(-({0}))"), "tanh": ("sin({0})", "({0})"),
        "sqrt": ("({0})", "(({0}) * ({0}))", "log({0})"), "inverseSqrt": ("(1.0f / ({0}))", "sqrt({0})"),
        "log": ("log2({0})", "({0})"), "abs": ("({0})",), "floor": ("({0})", "ceil({0})"),
    }  # fmt: skip
    for call in code.calls(*texts):
        for text in texts[call.name]:
            new = text.format(code[call.arguments[0]])
            yield call.whole, new, f"{call.name} became {text.format('x')}"
    for call in code.calls("max", "min"):
        first, second = (code[argument] for argument in call.arguments)
        for kept in (first, second, f"abs({first})"):
            yield call.whole, f"({kept})", f"{shown(code[call.whole])} became {shown(kept)}"


def constant(code: Code) -> Iterator[Edit]:
    for match in code.matches(FLOAT):
        value = float(match[0][:-1])
        if abs(value) < LARGEST and not code.in_index(match.start()):
            for other in (value * 0.5, value * 1.5, value * 3, -value, value * 1.02, value * 10, value + 1):
                if other != value:
                    yield Span(match.start(), match.end()), f"{other:.8e}f", f"{match[0]} became {other:g}"


def sign(code: Code) -> Iterator[Edit]:
    for access in code.loads:
        if code.inputs[access.name] == "f32":
            for text in (f"(-{code[access.whole]})", f"abs({code[access.whole]})"):
                yield access.whole, text, f"{shown(text)} in place of {shown(code[access.whole])}"


def number_for_load(code: Code) -> Iterator[Edit]:
    for access in code.loads:
        if code.inputs[access.name] == "f32":
            for text in ("0.0f", "1.0f", "0.5f"):
                yield access.whole, text, f"{text} in place of {shown(code[access.whole])}"


def saturation(code: Code) -> Iterator[Edit]:
    for span in [*_results(code), *(access.whole for access in code.loads if code.inputs[access.name] == "f32")]:
        for text in ("clamp({0}, -0.5f, 0.5f)", "clamp({0}, 0.0f, 1.0f)", "min({0}, 0.25f)", "max({0}, -0.125f)"):
            yield span, text.format(code[span]), f"{text.format('x')} of {shown(code[span])}"


def scaled(code: Code) -> Iterator[Edit]:
    for span in _results(code):
        for text in ("(({0}) * 0.9f)", "(({0}) + 0.1f)", "(({0}) * 2.0f)", "(({0}) / 3.0f)", "(-({0}))"):
            yield span, text.format(code[span]), f"{text.format('x')} of the result"


def before_the_limit(code: Code) -> Iterator[Edit]:
    """An activation before the bias is added."""
    for call in code.calls("max", "min"):
        first, second = call.arguments
        for binary in code.binaries:
            if binary.whole == first and binary.operator == "+" and re.fullmatch(FLOAT, code[second]):
                text = f"({call.name}({code[binary.left]}, {code[second]}) + {code[binary.right]})"
                yield call.whole, text, f"{call.name} before {shown(code[binary.right])} is added"


def infinite(code: Code) -> Iterator[Edit]:
    """Infinity or NaN for some values."""
    for binary in _of_values(code):
        if binary.operator == "/":
            right = code[binary.right]
            for text in (f"floor({right})", f"max(({right}) - 1.0f, 0.0f)"):
                yield binary.right, text, f"division by {shown(text)}"
    for call in code.calls("exp"):
        span = call.arguments[0]
        yield span, f"(25.0f * abs({code[span]}))", "exp of 25 times the magnitude"
    for span in _results(code):
        yield span, f"(({code[span]}) * exp(90.0f * ({code[span]})))", "the result times exp of 90 times it"
        yield span, f"sqrt({code[span]})", "root of the result"
        yield span, f"(1.0f / max({code[span]}, 0.0f))", "one divided by what of the result is positive"


# ------------------------------------------------ precision


def precision(code: Code) -> Iterator[Edit]:
    texts = {
        "bitcast<f32>(bitcast<u32>({0}) & 0xfffc0000u)": "5 bits",
        "bitcast<f32>(bitcast<u32>({0}) & 0xffff8000u)": "8 bits",
        "quantizeToF16({0})": "float16", "(round(({0}) * 256.0f) / 256.0f)": "256ths",
        "(round(({0}) * 8.0f) / 8.0f)": "eighths", "f32(i32({0}))": "an integer",
    }  # fmt: skip
    for span in [*_results(code), *(access.whole for access in code.loads if code.inputs[access.name] == "f32")]:
        for text, what in texts.items():
            yield span, text.format(code[span]), f"{what} of {shown(code[span])}"


# ------------------------------------------------ control


def guard(code: Code) -> Iterator[Edit]:
    for binary in code.binaries:
        line = code[code.statement(binary.whole.start)]
        if binary.operator in ("<", "<=", "==") and not line.startswith("for"):
            left, right = code[binary.left], code[binary.right]
            for other in sorted({"<", "<=", "==", ">="} - {binary.operator}):
                yield binary.whole, f"({left} {other} {right})", f"{binary.operator} became {other} in {shown(line)}"
            number = re.fullmatch(r"(\d+)i", right)
            for value in (int(number[1]) // 2, int(number[1]) + 3, int(number[1]) - 1) if number else ():
                text = f"({left} {binary.operator} {value}i)"
                yield binary.whole, text, f"{right} became {value} in {shown(line)}"
        if binary.operator in ("&&", "||"):
            for text in (code[binary.left], code[binary.right]):
                yield binary.whole, f"({text})", f"only {shown(text)} of {shown(code[binary.whole])}"


def loop(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"for \(var (\w+) : i32 = (0i); \1 < (\d+)i; \1(\+\+)\)"):
        bound = int(match[3])
        for other in sorted({bound // 2, bound - 2, bound - 3, 1} - {bound}):
            if 0 < other < bound:
                yield Span(match.start(3), match.end(3)), str(other), f"loop over {bound} ends at {other}"
        if bound > 2:
            yield Span(match.start(2), match.end(2)), "2i", f"loop over {bound} begins at 2"
            yield Span(match.start(4), match.end(4)), " += 2", f"loop over {bound} in steps of 2"


def start(code: Code) -> Iterator[Edit]:
    """A sum that begins with what is left from before, or with a number."""
    for match in code.matches(rf"(?<=\n) *(\w+)\[[^=]*\] = (0\.000000e\+00f|{LEAST});"):
        span = Span(match.start(2), match.end(2))
        yield Span(match.start(), match.end()), "", f"start of {match[1]} lost"
        for text in ("-1.0f", "0.5f"):
            yield span, text, f"{match[1]} starts from {text}"


def mask_value(code: Code) -> Iterator[Edit]:
    for match in code.matches(rf"{LEAST}|-1\.0+e\+04f"):
        for text in ("0.0f", "-1.0f", "-10.0f"):
            yield Span(match.start(), match.end()), text, f"{match[0]} became {text}"
    for call in code.calls("select"):
        no, yes, condition = (code[argument] for argument in call.arguments)
        for text in (no, yes):
            yield call.whole, f"({text})", f"{shown(text)} whatever {shown(condition)}"


def statement(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"(?<=\n) *\w+\[.*\] = .+;$"):
        span, text = Span(match.start(), match.end()), match[0].strip()
        yield span, "", f"lost: {shown(text)}"
        yield span, f"{text} {text}", f"twice: {shown(text)}"


def one_thread(code: Code) -> Iterator[Edit]:
    """One invocation of a workgroup does not store."""
    size = code.group_size.get("x", 1)
    for access in [*_stores(code), *(each for each in code.accesses if each.stores and each.name in _shared(code))]:
        for thread in (3, size - 1) if size > 4 else ():
            line = code.statement(access.whole.start)
            text = f"if (threadIdx.x != {thread}u) {{ {code[line]} }}"
            yield line, text, f"invocation {thread} of {size} does not store {shown(code[access.whole])}"


def barrier(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"workgroupBarrier\(\);"):
        yield Span(match.start(), match.end()), "", "workgroupBarrier lost"


def _shared(code: Code) -> list[str]:
    return re.findall(r"var<workgroup> (\w+) : array", code.text)


def _stores(code: Code) -> list[Access]:
    return [access for access in code.accesses if access.stores and access.name in code.outputs]


def _results(code: Code) -> list[Span]:
    """What is stored to outputs of numbers."""
    return [
        Span(access.whole.end + len(" = "), code.statement(access.whole.start).end - 1)
        for access in _stores(code)
        if code.outputs[access.name] == "f32"
    ]


def _in_indices(code: Code) -> Iterator[Binary]:
    return (binary for binary in code.binaries if code.in_index(binary.whole.start))


def _of_values(code: Code) -> Iterator[Binary]:
    """Those of statements that compute values, not indices or conditions."""
    for binary in code.binaries:
        line = code[code.statement(binary.whole.start)]
        whole = re.match(r"let \w+ : i32", line)
        if not code.in_index(binary.whole.start) and not whole and not line.startswith(("if", "for")):
            yield binary
