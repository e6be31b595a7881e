"""Mistakes of conversion, and arithmetic that is narrower than it should be."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, together
from benchmarks.localization.mutations.typed import converted, rounding
from benchmarks.localization.wgsl_text import FLOATS, Code, Span


def dtype_conversion(code: Code) -> Iterator[Edit]:
    for span, kind in code.values:
        for text, description in converted(code[span], kind):
            yield span, text, description
    for binary in code.binaries:
        if binary.operator == ">>" and binary.type in ("", "i32"):
            left, right = code[binary.left], code[binary.right]
            yield binary.whole, f"i32(u32({left})>>{right})", "shift of a signed number became one of an unsigned"


def narrow_arithmetic(code: Code) -> Iterator[Edit]:
    """Real arithmetic of a narrow format, emulated: its inputs are rounded, or whatever is stored on the way too."""
    loads = [(access.whole, code.kind(access)) for access in code.loads if code.kind(access) in FLOATS]
    values = code.float_values
    for name, function in _ROUNDED.items():
        for spans, what in ((loads, "of inputs"), (values, "throughout")):
            if spans and (name != "TF32" or spans is loads):
                changes = [(span, f"narrowed{'' if kind == 'f32' else '4'}({code[span]})") for span, kind in spans]
                functions = rounding(function, max(kind for _, kind in spans))
                end = Span(len(code.text), len(code.text))
                yield together(code, [*changes, (end, functions)], f"arithmetic in {name} {what}")


_ROUNDED = {
    "float16": "\nfn narrowed(x : f32) -> f32 { return quantizeToF16(clamp(x, -65504.0, 65504.0)); }\n",
    "bfloat16": "\nfn narrowed(x : f32) -> f32 {\n  let bits = bitcast<u32>(x);\n"
    "  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);\n}\n",
    "TF32": "\nfn narrowed(x : f32) -> f32 {\n  let bits = bitcast<u32>(x);\n"
    "  return bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);\n}\n",
}
"""To the nearest, of equals the even one."""
