"""Functions that WGSL lacks, or promises too little for, as WGSL functions that a kernel declares itself.

TVM writes such calls as C has them (`atanhf`, `x != x`), or refuses them for float16. Here every call is given a name
that WGSL has, or that of a function below, before TVM's code generator sees it; `declared` adds those that are called.

sin, cos and tan are among them: of WGSL's, nothing is promised beyond pi, and drivers differ by as much as 1 there.
So is atan2, of which nothing is promised where its first number is 0: a driver has pi for atan2(-0, 1).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm_ffi import structural_equal, structural_map

PREFIX = "tapml_"

_BUILTIN = {"atanh": "atanh"}
"""WGSL's functions of float32 and float16 that TVM spells as C does; it knows the others itself."""

_OWN: Mapping[str, str] = {
    "asinh": """\
fn tapml_asinh(x : f32) -> f32 {
  let size = abs(x);
  let found = select(
    tapml_log1p(size + size * size / (1.0f + sqrt(size * size + 1.0f))), log(size) + 0.6931472f, size > 1e9f);
  return select(found, -found, x < 0.0f);
}
""",
    "atan2": """\
// WGSL promises nothing of its own where y is 0. The signs of both decide, those of zeros as well.
fn tapml_atan2(y : f32, x : f32) -> f32 {
  let above = abs(y);
  let beside = abs(x);
  let large = max(above, beside);
  var angle = 0.0f;
  if (large > 0.0f) {
    angle = atan(min(above, beside) / large);
  }
  angle = select(angle, 1.5707964f - angle, above > beside);
  angle = select(angle, 3.1415927f - angle, (bitcast<u32>(x) & 0x80000000u) != 0u);
  return bitcast<f32>(bitcast<u32>(angle) | (bitcast<u32>(y) & 0x80000000u));
}
""",
    "copysign": """\
fn tapml_copysign(x : f32, y : f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}
""",
    "cos": """\
fn tapml_cos(x : f32) -> f32 {
  let angle = tapml_angle(x);
  return tapml_wave(angle.quadrant + 1u, angle.rest);
}
""",
    "exp10": """\
fn tapml_exp10(x : f32) -> f32 {
  return exp2(x * 3.3219281f);
}
""",
    "fmod": """\
// Exact: a long division of the two mantissas.
fn tapml_fmod(x : f32, y : f32) -> f32 {
  let a = bitcast<u32>(x) & 0x7fffffffu;
  let b = bitcast<u32>(y) & 0x7fffffffu;
  if (b == 0u || a >= 0x7f800000u || b > 0x7f800000u) {
    return bitcast<f32>(a | 0x7fc00000u);
  }
  if (a < b) {
    return x;
  }
  let scale = max(b >> 23u, 1u);
  let divisor = (b & 0x7fffffu) | select(0u, 0x800000u, b >= 0x800000u);
  var rest = ((a & 0x7fffffu) | select(0u, 0x800000u, a >= 0x800000u)) % divisor;
  var left = max(a >> 23u, 1u) - scale;
  while (left > 0u) {
    let step = min(left, 8u);
    rest = (rest << step) % divisor;
    left = left - step;
  }
  var size = rest;
  if (rest != 0u) {
    let shift = min(countLeadingZeros(rest) - 8u, scale - 1u);
    rest = rest << shift;
    size = select(rest, ((scale - shift) << 23u) | (rest & 0x7fffffu), rest >= 0x800000u);
  }
  return bitcast<f32>(size | (bitcast<u32>(x) & 0x80000000u));
}
""",
    "hypot": """\
fn tapml_hypot(x : f32, y : f32) -> f32 {
  let large = max(abs(x), abs(y));
  if (large == 0.0f) {
    return 0.0f;
  }
  let ratio = min(abs(x), abs(y)) / large;
  return large * sqrt(1.0f + ratio * ratio);
}
""",
    "infinity": """\
var<private> tapml_infinity_bits : u32 = 0x7f800000u;
fn tapml_infinity() -> f32 {
  return bitcast<f32>(tapml_infinity_bits);
}
""",
    "isnan": """\
// By its bits: x != x may be taken for false.
fn tapml_isnan(x : f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
""",
    "log10": """\
fn tapml_log10(x : f32) -> f32 {
  return log2(x) * 0.30103f;
}
""",
    "log1p": """\
fn tapml_log1p(x : f32) -> f32 {
  if (x > -0.5f && x < 1.0f) {
    let s = x / (2.0f + x);
    let t = s * s;
    return 2.0f * s * (1.0f + t * (0.33333334f + t * (0.2f + t * (0.14285715f + t * (0.11111111f
      + t * (0.09090909f + t * (0.07692308f + t * 0.06666667f)))))));
  }
  return log(1.0f + x);
}
""",
    "nan": """\
var<private> tapml_nan_bits : u32 = 0x7fc00000u;
fn tapml_nan() -> f32 {
  return bitcast<f32>(tapml_nan_bits);
}
""",
    "nextafter": """\
fn tapml_nextafter(x : f32, y : f32) -> f32 {
  let bits = bitcast<u32>(x);
  if (tapml_isnan(x) || tapml_isnan(y)) {
    return bitcast<f32>(bits | 0x7fc00000u);
  }
  if (x == y) {
    return y;
  }
  if ((bits & 0x7fffffffu) == 0u) {
    return bitcast<f32>((bitcast<u32>(y) & 0x80000000u) | 1u);
  }
  let away = (y > x) == (x > 0.0f);
  return bitcast<f32>(select(bits - 1u, bits + 1u, away));
}
""",
    "remainder": """\
// Of integers, with the sign of a: what % gives for negative ones is undefined in Vulkan.
fn tapml_remainder(a : i32, b : i32) -> i32 {
  return a - (a / b) * b;
}
""",
    "sin": """\
fn tapml_sin(x : f32) -> f32 {
  let angle = tapml_angle(x);
  return tapml_wave(angle.quadrant, angle.rest);
}
""",
    "tan": """\
fn tapml_tan(x : f32) -> f32 {
  let angle = tapml_angle(x);
  return tapml_wave(angle.quadrant, angle.rest) / tapml_wave(angle.quadrant + 1u, angle.rest);
}
""",
    # ------------------------------------------------ what those above call
    "angle": """\
struct tapml_Angle { quadrant : u32, rest : f32 }
// x less the nearest multiple of pi / 2, of any x: the product with the digits of 2 / pi that matter, in integers
// (Payne and Hanek), which no compiler rounds or reorders.
fn tapml_angle(x : f32) -> tapml_Angle {
  let bits = bitcast<u32>(x);
  let exponent = (bits >> 23u) & 0xffu;
  if (exponent < 126u) {
    return tapml_Angle(0u, x);
  }
  if (exponent == 255u) {
    return tapml_Angle(0u, bitcast<f32>(bits | 0x7fc00000u));
  }
  var digits = array<u32, 8>(
    0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0u);
  let word = (exponent - 126u) >> 5u;
  let shift = (exponent - 126u) & 31u;
  var high = digits[word];
  var middle = digits[word + 1u];
  var low = digits[word + 2u];
  if (shift != 0u) {
    high = (high << shift) | (middle >> (32u - shift));
    middle = (middle << shift) | (low >> (32u - shift));
    low = (low << shift) | (digits[word + 3u] >> (32u - shift));
  }
  let mantissa = ((bits & 0x7fffffu) | 0x800000u) << 8u;
  let carried = tapml_product_high(mantissa, low);
  let lower = mantissa * middle + carried;
  let upper = mantissa * high + tapml_product_high(mantissa, middle) + select(0u, 1u, lower < carried);
  // Quadrants with 30 binary digits behind the point, of which the nearest whole number is taken.
  let quadrant = (upper + 0x20000000u) >> 30u;
  let rest = f32(bitcast<i32>((upper << 2u) | (lower >> 30u))) * 3.6572952e-10f;
  if (bits >= 0x80000000u) {
    return tapml_Angle((4u - quadrant) & 3u, -rest);
  }
  return tapml_Angle(quadrant, rest);
}
""",
    "product_high": """\
fn tapml_product_high(a : u32, b : u32) -> u32 {
  let middle = (a >> 16u) * (b & 0xffffu) + (((a & 0xffffu) * (b & 0xffffu)) >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
}
""",
    "sigmoid": """\
// exp of what is not positive does not overflow.
fn tapml_sigmoid(x : f32) -> f32 {
  let small = exp(-abs(x));
  return select(small, 1.0f, x >= 0.0f) / (1.0f + small);
}
""",
    "wave": """\
// The sine of `rest`, which is within pi / 4, and so many quarter turns.
fn tapml_wave(quadrant : u32, rest : f32) -> f32 {
  let square = rest * rest;
  let sine = rest + rest * square
    * (-0.16666667f + square * (0.008333386f + square * (-0.00019855992f + square * 0.0000028656796f)));
  let cosine = 1.0f + square
    * (-0.5f + square * (0.041666657f + square * (-0.001388773f + square * 0.000024467707f)));
  let found = select(sine, cosine, (quadrant & 1u) == 1u);
  return select(found, -found, (quadrant & 2u) == 2u);
}
""",
}
"""Of float32, by TVM's names and those that they call themselves."""

_CALLED = re.compile(rf"{PREFIX}(?<!\w{PREFIX})(\w+)\(")
"""What comes first is looked for fast, and then that nothing of the name stands before it."""


def with_known_functions(function: Any) -> Any:
    """A PrimFunc whose calls are of functions that WGSL or `declared` knows, as far as there is one for them."""
    return structural_map(
        function,
        [
            (Call, _call),
            (tirx.Mod, _remainder),
            (tirx.BitwiseXor, _xor),
            ((tirx.EQ, tirx.NE), _equal),
            (tirx.FloatImm, _literal),
        ],
    )


def declared(wgsl: str) -> str:
    """The text with the functions of ours that it calls."""
    return with_called(wgsl, _OWN)


def with_called(wgsl: str, own: Mapping[str, str]) -> str:
    """The text with those functions that it calls, and that these call. `own`: by name, without PREFIX."""
    waiting, found = list(_CALLED.findall(wgsl)) if PREFIX in wgsl else [], {}
    while waiting:
        name = waiting.pop()
        if name in own and name not in found:
            found[name] = own[name]
            waiting += _CALLED.findall(own[name])
    return "\n".join([wgsl, *(found[name] for name in sorted(found))]) if found else wgsl


def functions_of(script: str) -> str:
    """Those of ours that a PrimFunc may call by its script, and what they call."""
    return declared("".join(f"{PREFIX}{name}(" for name in sorted(_OWN) if f"T.{name}(" in script))


def _call(call: Any) -> Any:
    namespace, _, name = str(getattr(call.op, "name", "")).partition(".")
    if namespace not in ("tirx", "prim") or not call.args:
        return call
    dtype, given = str(call.ty.dtype), str(getattr(call.args[0].ty, "dtype", ""))
    if given not in ("float32", "float16") or (dtype not in ("bool", given)):
        return call
    if name in _BUILTIN:
        return tirx.call_pure_extern(dtype, _BUILTIN[name], *call.args)
    if name == "erf" and given == "float16":
        # TVM's ratio of polynomials is off by 0.04 in float16.
        return tirx.Cast(dtype, tirx.erf(tirx.Cast("float32", call.args[0])))
    if name not in _OWN:
        return call
    return _own(name, dtype, call.args)


def _own(name: str, dtype: str, operands: Sequence[Any]) -> Any:
    """A call of one of the functions above: of float32, of which a float16 is one."""
    operands = [a if str(a.ty.dtype) == "float32" else tirx.Cast("float32", a) for a in operands]
    made = tirx.call_pure_extern("bool" if dtype == "bool" else "float32", PREFIX + name, *operands)
    return made if dtype in ("bool", "float32") else tirx.Cast(dtype, made)


def _remainder(node: Any) -> Any:
    dtype = str(node.ty.dtype)
    if dtype == "int32":
        return tirx.call_pure_extern(dtype, f"{PREFIX}remainder", node.a, node.b)
    return _own("fmod", dtype, [node.a, node.b]) if dtype in ("float32", "float16") else node


def _xor(node: Any) -> Any:
    return tirx.NE(node.a, node.b) if str(node.ty.dtype) == "bool" else node


def _equal(node: Any) -> Any:
    """x != x asks whether x is NaN."""
    if str(node.a.ty.dtype) not in ("float32", "float16") or not structural_equal(node.a, node.b):
        return node
    found = _own("isnan", "bool", [node.a])
    return found if isinstance(node, tirx.NE) else tirx.Not(found)


def _literal(number: Any) -> Any:
    """What is no number, which WGSL has no literals for."""
    value, dtype = float(number.value), str(number.ty.dtype)
    if value - value == 0 or dtype not in ("float32", "float16"):
        return number
    found = _own("nan" if value != value else "infinity", dtype, [])
    return tirx.Mul(found, tirx.FloatImm(dtype, -1.0)) if value < 0 else found


def unknown_calls(wgsl: str) -> Iterator[str]:
    """Names that a text calls, and that neither it nor WGSL has."""
    parts = [*map(_names_in, wgsl.split("{\n"))]
    own = {name for declared, _ in parts for name in declared}
    for name in dict.fromkeys(name for _, called in parts for name in called):
        if name not in own and not is_of_wgsl(name):
            yield name


def is_of_wgsl(name: str) -> bool:
    """Whether WGSL has something of that name that stands before a parenthesis."""
    return name in _WGSL or name in _KEYWORDS


@functools.lru_cache(maxsize=1024)
def _names_in(part: str) -> tuple[list[str], list[str]]:
    """What is declared in some lines, and what is called. Texts have many such parts in common, and repeat few
    lines."""
    lines = [*map(_names_on, dict.fromkeys(part.split("\n")))]
    declared = dict.fromkeys(name for found, _ in lines for name in found)
    return [*declared], [*dict.fromkeys(name for _, found in lines for name in found)]


@functools.lru_cache(maxsize=8192)
def _names_on(line: str) -> tuple[list[str], list[str]]:
    """The same of a line."""
    if not any(part in line for part in ("(", "fn", "struct")):
        return [], []
    return _DECLARES.findall(line), _CALLS.findall(line.split("//", 1)[0])


_DECLARES, _CALLS = re.compile(r"\b(?:fn|struct)\s+(\w+)"), re.compile(r"(?<![@\w.])([A-Za-z_]\w*)\s*\(")

_KEYWORDS = {"if", "while", "for", "switch", "return", "case", "loop"}

_WGSL = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "sinh"),
    *("abs", "ceil", "exp", "exp2", "floor", "inverseSqrt", "log", "log2", "pow", "round", "sqrt", "trunc"),
    *("i32", "u32", "f32", "f16", "bool", "vec2", "vec3", "vec4", "array", "bitcast", "select", "all", "any"),
    *("clamp", "cos", "degrees", "dot", "fma", "fract", "ldexp", "max", "min", "mix", "radians", "sign", "sin"),
    *("smoothstep", "step", "tan", "tanh", "countLeadingZeros", "countOneBits", "countTrailingZeros"),
    *("extractBits", "firstLeadingBit", "firstTrailingBit", "insertBits", "reverseBits", "quantizeToF16"),
    *("dot4I8Packed", "dot4U8Packed", "pack2x16float", "unpack2x16float", "pack4x8snorm", "unpack4x8unorm"),
    *("atomicAdd", "atomicMax", "atomicMin", "atomicLoad", "atomicStore", "atomicCompareExchangeWeak"),
    *("workgroupBarrier", "storageBarrier", "workgroupUniformLoad", "arrayLength", "textureLoad", "textureStore"),
    *("subgroupAdd", "subgroupMax", "subgroupMin", "subgroupBroadcast", "subgroupShuffle", "subgroupShuffleDown"),
    *("subgroupShuffleUp", "subgroupShuffleXor", "subgroupElect", "subgroupAll", "subgroupAny"),
    *("subgroupMatrixLoad", "subgroupMatrixStore", "subgroupMatrixMultiplyAccumulate"),
}
"""WGSL's functions and constructors that TVM may write, and the native compiler."""
