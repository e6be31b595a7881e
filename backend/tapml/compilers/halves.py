"""Kernels that read weights as float16, two to a word, where they were made to read float32: half of the memory.

Every compiler's text will do, as long as it reads such a weight element by element, or vec4 by vec4.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings

HALVES = "float16"
"""The encoding (tapml/encodings.py)."""

# By integers: what is below the smallest normal float16 is kept on every device, which `unpack2x16float` leaves open.
# Read as those of a normal number, its bits are half of it and half of the smallest normal number, which is the more;
# twice that, less the smallest normal number, is it. Of a normal number that is more than itself.
_HALF = """
// The number that the lower half of a word is, as float16. It is finite.
fn half_of(word : u32) -> f32 {
  let normal = bitcast<f32>(((word << 13u) & 0x0fffe000u) + 0x38000000u);
  let number = min(normal, fma(normal, 2.0, -6.103515625e-5f));
  return bitcast<f32>(bitcast<u32>(number) | ((word << 16u) & 0x80000000u));
}
"""
_ONE = """
fn {NAME}(at : u32) -> f32 {{
  return half_of({ARRAY}[at >> 1u] >> ((at & 1u) << 4u));
}}
"""
_FOUR = """
fn {NAME}(at : u32) -> vec4<f32> {{
  let words = {ARRAY}[at];
  return vec4<f32>(half_of(words.x), half_of(words.x >> 16u), half_of(words.y), half_of(words.y >> 16u));
}}
"""

_READ = {"array<f32>": ("array<u32>", _ONE), "array<vec4<f32>>": ("array<vec2<u32>>", _FOUR)}
"""The type of a binding by what it was before, and the function that reads as many numbers at once."""

_WRITTEN = re.compile(r"\s*(([-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")
"""Behind an element."""
_POINTED_AT = re.compile(r"(^|[^\w)\]&\s])\s*&\s*\(*\s*$")
"""Before one: an `&` with nothing in front of it that it could be an operator of."""


def in_halves(name: str) -> tuple[str, str]:
    """The name of a constant of a text by which it knows whether its binding of this name is read as float16, and the
    lines that declare it as false: `halved` makes it true."""
    constant = f"{name}_in_halves"
    return constant, f"// Whether it is read as float16.\nconst {constant} = false;\n"


def halved(kernel: CompiledKernel, arguments: Collection[int]) -> CompiledKernel | None:
    """The kernel with these of its arguments, inputs of float32, read as float16; None where its text does something
    else with one of them than to read an element."""
    document = kernel.document
    if document["unsupported"] or not document["variants"]:
        return None
    texts = {file.name: file.text for file in kernel.files}
    variants = []
    for variant in document["variants"]:
        entry_points = []
        for entry_point in variant["entry_points"]:
            text = texts[entry_point["file"]]
            names = _read(variant, entry_point, text, arguments)
            if names is None or (text := _halved(text, names)) is None:  # type: ignore[assignment]
                return None
            texts[entry_point["file"]] = text
            entry_points.append({**entry_point, "generated_sha256": sha256(text), "bindings": bindings(text)})
        variants.append({**variant, "entry_points": entry_points})
    described = [
        {**argument, "encoding": HALVES} if place in arguments else argument
        for place, argument in enumerate(document["arguments"])
    ]
    files = [WgslFile(file.name, texts[file.name]) for file in kernel.files]
    return CompiledKernel({**document, "arguments": described, "variants": variants}, files)


def _read(
    variant: dict[str, Any], entry_point: dict[str, Any], text: str, arguments: Collection[int]
) -> list[str] | None:
    """The names of the bindings that are these arguments, in every launch; None where one is something else in some."""
    launches = [launch["operands"] for launch in variant["launches"] if launch["entry_point"] == entry_point["name"]]
    storage = [found for found in bindings(text) if found["access"] != "uniform"]
    names = []
    for place, found in enumerate(storage):
        bound = {operands[place].get("argument") in arguments for operands in launches}
        if bound == {True, False}:
            return None
        if bound == {True}:
            if found["access"] != "read":
                return None
            names.append(str(found["name"]))
    return names


def _halved(text: str, names: Collection[str]) -> str | None:
    if not names:
        return text
    if re.search(r"\bhalf_of\b", text):
        return None
    made = _HALF
    for name in names:
        declared = re.search(rf"\b{name}\s*:\s*([\w<>]+)\s*;", text)
        if declared is None or declared[1] not in _READ:
            return None
        words, function = _READ[declared[1]]
        reads = f"{name}_read"
        head, body = text[: declared.start()], text[declared.end() :]
        replaced = _called(body, name, reads)
        if replaced is None or re.search(rf"\b({name}|{reads})\b", head):
            return None
        text = f"{head}{name} : {words};{replaced}"
        constant, _ = in_halves(name)
        text = text.replace(f"const {constant} = false;", f"const {constant} = true;")
        made += function.format(NAME=reads, ARRAY=name)
    return text.rstrip("\n") + "\n" + made


def _called(text: str, array: str, function: str) -> str | None:
    """With `function(u32(index))` for each `array[index]`; None where the array stands without an index, or one of its
    elements is written or pointed at."""
    found, end = "", 0
    while (match := re.compile(rf"\b{array}\b").search(text, end)) is not None:
        begin = match.end()
        close = _closing(text, begin) if text[begin : begin + 1] == "[" else None
        if close is None or _WRITTEN.match(text, close + 1) or _POINTED_AT.search(text[: match.start()]):
            return None
        if (index := _called(text[begin + 1 : close], array, function)) is None:
            return None
        found += f"{text[end : match.start()]}{function}(u32({index}))"
        end = close + 1
    return found + text[end:]


def _closing(text: str, opening: int) -> int | None:
    depth = 0
    for place in range(opening, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return None
