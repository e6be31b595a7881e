"""Mistakes of conversion, and arithmetic that is narrower than it should be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import FLOAT, Edit, together
from benchmarks.localization.wgsl_text import Code, Span


def dtype_conversion(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"([\w\[\]() +*.>&%/]+?) = (.+);"):
        span = Span(match.start(2), match.end(2))
        value, kind = code[span], code.element_type(match[1])
        if match[0].lstrip().startswith(("let", "for", "var")) or re.fullmatch(FLOAT + r"|-?\d+i", value):
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


def narrow_arithmetic(code: Code) -> Iterator[Edit]:
    """Real arithmetic of a narrow format, emulated: its inputs are rounded, or whatever is stored on the way too."""
    loads = [access.whole for access in code.loads if code.inputs[access.name] == "f32"]
    values = []
    for match in code.matches(r"(\w+)(?:\[.*\])? = (.+);"):
        if code.element_type(match[1]) == "f32" and not re.fullmatch(FLOAT, match[2]):
            values.append(Span(match.start(2), match.end(2)))
    for name, function in _ROUNDED.items():
        for spans, what in ((loads, "of inputs"), (values, "throughout")):
            if spans and (name != "TF32" or spans is loads):
                changes = [(span, f"narrowed({code[span]})") for span in spans]
                end = Span(len(code.text), len(code.text))
                yield together(code, [*changes, (end, function)], f"arithmetic in {name} {what}")


_ROUNDED = {
    "float16": "\nfn narrowed(x : f32) -> f32 { return quantizeToF16(clamp(x, -65504.0, 65504.0)); }\n",
    "bfloat16": "\nfn narrowed(x : f32) -> f32 {\n  let bits = bitcast<u32>(x);\n"
    "  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);\n}\n",
    "TF32": "\nfn narrowed(x : f32) -> f32 {\n  let bits = bitcast<u32>(x);\n"
    "  return bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);\n}\n",
}
"""To the nearest, of equals the even one."""
