"""Functions that native kernels declare themselves, beside those of `tvm/functions.py`: of one number, and of four.

tanh and erf are spelled as TVM expands them, which is what their bounds are derived for (docs/bounds.md).
"""

from __future__ import annotations

from tapml.compilers.tvm.functions import with_called

_ERF = """\
// A ratio of polynomials; beyond 4 it is 1 in float32.
fn {NAME}(x : {T}) -> {T} {{
  let a = clamp(x, {T}(-4.0f), {T}(4.0f));
  let s = a * a;
  let above = ((((((-2.72614226e-10f * s + 2.77068142e-08f) * s - 2.10102402e-06f) * s - 5.69250639e-05f) * s
    - 7.34990630e-04f) * s - 2.95459981e-03f) * s - 1.60960333e-02f) * a;
  let below = (((-1.45660718e-05f * s - 2.13374055e-04f) * s - 1.68282697e-03f) * s - 7.37332917e-03f) * s
    - 1.42647391e-02f;
  return above / below;
}}
"""

_TANH = """\
// exp of what is not positive does not overflow.
fn {NAME}(x : {T}) -> {T} {{
  let small = exp(-2.0f * abs(x));
  let size = (1.0f - small) / (1.0f + small);
  return select(-size, size, x >= {T}(0.0f));
}}
"""

_SIGMOID = """\
fn {NAME}(x : {T}) -> {T} {{
  let small = exp(-abs(x));
  return select(small, {T}(1.0f), x >= {T}(0.0f)) / (1.0f + small);
}}
"""

_OWN = {
    "erf": _ERF.format(NAME="tapml_erf", T="f32"),
    "tanh": _TANH.format(NAME="tapml_tanh", T="f32"),
    "erf_of_4": _ERF.format(NAME="tapml_erf_of_4", T="vec4<f32>"),
    "tanh_of_4": _TANH.format(NAME="tapml_tanh_of_4", T="vec4<f32>"),
    "sigmoid_of_4": _SIGMOID.format(NAME="tapml_sigmoid_of_4", T="vec4<f32>"),
    "floordiv": """\
// Downwards: WGSL divides towards zero.
fn tapml_floordiv(a : i32, b : i32) -> i32 {
  let quotient = a / b;
  return select(quotient, quotient - 1, quotient * b != a && (a < 0) != (b < 0));
}
""",
    "floormod": """\
fn tapml_floormod(a : i32, b : i32) -> i32 {
  return a - tapml_floordiv(a, b) * b;
}
""",
}

OF_FOUR = ("erf", "tanh", "sigmoid")
"""Those that there are of four numbers at once."""


def with_own_functions(wgsl: str) -> str:
    """The text with the functions of this module that it calls, and that these call."""
    return with_called(wgsl, _OWN)
