"""Arithmetic that is narrower than it should be: cut off in place of rounded, in sums, products or results alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from benchmarks.localization.mutations.edit import Edit, together
from benchmarks.localization.wgsl_text import FLOAT, Code, Span


def cut_off(code: Code) -> Iterator[Edit]:
    """Of inputs, of sums on their way, of results, or of whatever is stored."""
    yield from _narrowed(code, _loads(code), _CUT, "of inputs")
    yield from _narrowed(code, _sums(code), _CUT, "of sums so far")
    yield from _narrowed(code, _stored(code, set(code.outputs)), _CUT, "of results")
    stored = [span for span in _stored(code, None) if not re.fullmatch(FLOAT, code[span])]
    yield from _narrowed(code, stored, _CUT, "throughout")


def narrow_sums(code: Code) -> Iterator[Edit]:
    yield from _narrowed(code, _sums(code), _NEAREST, "of sums so far")


def narrow_products(code: Code) -> Iterator[Edit]:
    """The product of an fma is rounded before it is added."""
    for name, function in _NEAREST.items():
        changes = []
        for call in code.calls("fma"):
            a, b, c = (code[argument] for argument in call.arguments)
            changes.append((call.whole, f"(narrowed(({a} * {b})) + {c})"))
        yield from _together(code, changes, function, f"{name} of products")


def narrow_staging(code: Code) -> Iterator[Edit]:
    """What goes through workgroup memory is narrower there."""
    spans = _stored(code, set(_shared(code)))
    yield from _narrowed(code, spans, {**_NEAREST, **_CUT}, "in workgroup memory")


def _loads(code: Code) -> list[Span]:
    return [access.whole for access in code.loads if code.inputs[access.name] == "f32"]


def _shared(code: Code) -> list[str]:
    return re.findall(r"var<workgroup> (\w+) : array<f32", code.text)


def _stored(code: Code, names: set[str] | None) -> list[Span]:
    """Values that are stored to these arrays, or to any."""
    found = []
    for match in code.matches(r"(\w+)(?:\[.*?\])? = (.+);"):
        if code.element_type(match[1]) == "f32" and (names is None or match[1] in names):
            found.append(Span(match.start(2), match.end(2)))
    return found


def _sums(code: Code) -> list[Span]:
    """Sums with one more term: what is stored stands in the value."""
    found = []
    for match in code.matches(r"(\w+\[[^=]*?\]) = (.+);"):
        name = match[1].split("[")[0]
        value = match[2]
        adds = value.startswith("fma(") or " + " in re.sub(r"\[.*?\]", "", value)
        if code.element_type(name) == "f32" and match[1] in value and adds:
            found.append(Span(match.start(2), match.end(2)))
    return found


def _narrowed(code: Code, spans: Sequence[Span], functions: dict[str, str], what: str) -> Iterator[Edit]:
    for name, function in functions.items():
        changes = [(span, f"narrowed({code[span]})") for span in spans]
        yield from _together(code, changes, function, f"{name} {what}")


def _together(code: Code, changes: list[tuple[Span, str]], function: str, description: str) -> Iterator[Edit]:
    spans = [span for span, _ in changes]
    apart = [
        (span, text)
        for span, text in changes
        if not any(other is not span and other.start <= span.start and span.end <= other.end for other in spans)
    ]
    if apart:
        end = Span(len(code.text), len(code.text))
        yield together(code, [*apart, (end, function)], f"arithmetic in {description}")


_HALF = "\nfn narrowed(x : f32) -> f32 {\n  let y = clamp(x, -65504.0, 65504.0);\n"
_BITS = "\nfn narrowed(x : f32) -> f32 {\n  let bits = bitcast<u32>(x);\n"
_CUT = {
    "float16 cut off": f"{_HALF}  if (abs(y) < 6.2e-5) {{ return trunc(y * 16777216.0) / 16777216.0; }}\n"
    "  return bitcast<f32>(bitcast<u32>(y) & 0xffffe000u);\n}\n",
    "bfloat16 cut off": f"{_BITS}  return bitcast<f32>(bits & 0xffff0000u);\n}}\n",
    "TF32 cut off": f"{_BITS}  return bitcast<f32>(bits & 0xffffe000u);\n}}\n",
}
_NEAREST = {
    "float16": f"{_HALF}  return quantizeToF16(y);\n}}\n",
    "bfloat16": f"{_BITS}  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);\n}}\n",
}
