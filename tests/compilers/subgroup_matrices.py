"""Texts of subgroup matrices for devices that have none: of each the invocations of a subgroup hold parts."""

from __future__ import annotations

import re

from tapml.compilers.native.blocks import SIDE, SUBGROUP
from tapml.kernels.bundle import bindings

_KIND = r"subgroup_matrix_(left|right|result)<(f16|f32), 16, 16>"
_PLACE = r"&(\w+)\[(\w+)\], (\w+), (\w+)"
_LOAD = re.compile(rf"subgroupMatrixLoad<{_KIND}, (row|col)_major>\({_PLACE}\)")
_RIGHT = re.compile(rf"let (\w+) = subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, (row|col)_major>\({_PLACE}\)")
_MULTIPLY = re.compile(r"subgroupMatrixMultiplyAccumulate\((\w+), (\w+), (\w+)\)")
_STORE = re.compile(r"subgroupMatrixStore<row_major>\(&(\w+)\[(\w+)\], (\w+), (\w+), (\w+)\)")
_BUILTIN = re.compile(r",\s*@builtin\(subgroup_id\) subgroup : u32")

# An invocation has a row of a left matrix and eight columns of a result. A right matrix is where it lies in workgroup
# memory: it is multiplied before that changes. Compilers would unroll loops whose ends they know.
_MATRICES = """
struct Left {{ row : array<f32, 16> }}
struct Right {{ group : u32, offset : u32, stride : u32 }}
struct Result {{ sums : array<f32, 8> }}

fn up_to(count : u32) -> u32 {{
  return count + arrayLength(&{BUFFER}) / 0x7fffffffu;
}}

fn words(four : vec4<f16>) -> vec2<u32> {{
  return vec2<u32>(pack2x16float(vec2<f32>(four.xy)), pack2x16float(vec2<f32>(four.zw)));
}}

fn two_halves(word : u32) -> vec2<f16> {{
  return vec2<f16>(unpack2x16float(word));
}}

fn word_of(two : vec2<f16>) -> u32 {{
  return pack2x16float(vec2<f32>(two));
}}

fn half_in(four : vec4<u32>, number : u32) -> f32 {{
  return unpack2x16float(four[number / 2u])[number % 2u];
}}
"""

_LEFT = """
fn {NAME}(group : u32, offset : u32, stride : u32, lane : u32) -> Left {{
  var found : Left;
  for (var k = 0u; k < up_to(16u); k++) {{
    let at = offset * 8u + {PLACE};
    found.row[k] = half_in({ARRAY}[group][at / 8u], at % 8u);
  }}
  return found;
}}
"""
_MULTIPLIED = """
fn {NAME}(a : Left, b : Right, c : Result, lane : u32) -> Result {{
  var found = c;
  var left = a;
  for (var j = 0u; j < up_to(8u); j++) {{
    let column = lane % 2u * 8u + j;
    for (var k = 0u; k < up_to(16u); k++) {{
      let at = b.offset * 8u + {PLACE};
      found.sums[j] += left.row[k] * half_in({ARRAY}[b.group][at / 8u], at % 8u);
    }}
  }}
  return found;
}}
"""
_STORED = """
fn {NAME}(group : u32, offset : u32, value : Result, stride : u32, lane : u32) {{
  for (var j = 0u; j < up_to(8u); j++) {{
    let at = offset * 4u + lane / 2u * stride * 4u + lane % 2u * 8u + j;
    {ARRAY}[group][at / 4u][at % 4u] = value.sums[j];
  }}
}}
"""
_RESULT = """
fn {NAME}(group : u32, offset : u32, stride : u32, lane : u32) -> Result {{
  var found : Result;
  for (var j = 0u; j < up_to(8u); j++) {{
    let at = offset * 4u + lane / 2u * stride * 4u + lane % 2u * 8u + j;
    found.sums[j] = {ARRAY}[group][at / 4u][at % 4u];
  }}
  return found;
}}
"""
_PLACES = {
    ("left", "row"): "lane / 2u * stride * 8u + k",
    ("left", "col"): "k * stride * 8u + lane / 2u",
    ("right", "row"): "k * b.stride * 8u + column",
    ("right", "col"): "column * b.stride * 8u + k",
}


def in_software(wgsl: str) -> str:
    """The same text for every device that has float16: subgroups are what lies beside each other in a workgroup."""
    assert (SIDE, SUBGROUP) == (16, 32)
    functions: dict[str, str] = {}

    rights: dict[str, tuple[str, str]] = {}

    def referred(match: re.Match[str]) -> str:
        variable, order, array, group, offset, stride = match.groups()
        assert rights.setdefault(variable, (array, order)) == (array, order)
        return f"let {variable} = Right({group}, {offset}, {stride})"

    def multiplied(match: re.Match[str]) -> str:
        left, right, result = match.groups()
        array, order = rights[right]
        name = f"multiplied_by_{array}_{order}"
        functions[name] = _MULTIPLIED.format(NAME=name, ARRAY=array, PLACE=_PLACES["right", order])
        return f"{name}({left}, {right}, {result}, lane_of_subgroup)"

    def loaded(match: re.Match[str]) -> str:
        kind, _, order, array, group, offset, stride = match.groups()
        name = f"{array}_{kind}_{order}"
        text = {"left": _LEFT, "result": _RESULT}[kind]
        functions[name] = text.format(NAME=name, ARRAY=array, PLACE=_PLACES.get((kind, order)))
        return f"{name}({group}, {offset}, {stride}, lane_of_subgroup)"

    def stored(match: re.Match[str]) -> str:
        array, group, offset, value, stride = match.groups()
        name = f"{array}_stored"
        functions[name] = _STORED.format(NAME=name, ARRAY=array)
        return f"{name}({group}, {offset}, {value}, {stride}, lane_of_subgroup)"

    text = _STORE.sub(stored, _LOAD.sub(loaded, _MULTIPLY.sub(multiplied, _RIGHT.sub(referred, wgsl))))
    # Of float16, which not all compilers take.
    text = text.replace("bitcast<vec2<u32>>(", "words(").replace("bitcast<vec2<f16>>(", "two_halves(")
    text = text.replace("bitcast<u32>(vec2<f16>(", "word_of(vec2<f16>(")
    text = re.sub(r"subgroup_matrix_result<f32, 16, 16>", "Result", text)
    text = re.sub(r"enable (subgroups|chromium_experimental_subgroup_matrix);\n", "", text)
    text, count = _BUILTIN.subn("", text)
    assert count == 1
    buffer = next(found["name"] for found in bindings(text) if found["access"] == "read")
    head, main = text.rsplit("@compute", 1)
    begin = main.index("{\n") + 2
    indices = f"  let subgroup = number / {SUBGROUP}u;\n  let lane_of_subgroup = number % {SUBGROUP}u;\n"
    declared = _MATRICES.format(BUFFER=buffer) + "".join(functions.values())
    text = f"{head}{declared}\n@compute{main[:begin]}{indices}{main[begin:]}"
    assert not re.search("subgroup_?matrix", text, re.IGNORECASE)
    return text
