"""WGSL as browsers take it: literals, constant expressions, and functions that there are not."""

from __future__ import annotations

import pytest

from tapml.compilers.tvm.functions import _OWN, declared
from tapml.compilers.tvm.spelling import SpellingError, spelled


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("y = -2147483648i;", "y = (-2147483647i - 1i);"),
        ("y = -inff;", "y = (-tapml_infinity());"),
        ("y = infh;", "y = f16(tapml_infinity());"),
        ("y = nanf;", "y = tapml_nan();"),
        ("y = 1.000000e+39f;", "y = tapml_infinity();"),
        ("y = 1.000000e+05h;", "y = f16(tapml_infinity());"),
        ("y = log(0.000000e+00f);", "y = log(tapml_constant_0);"),
        ("y = pow(-1.000000e+00f, 5.000000e-01f);", "y = pow(tapml_constant_0, 5.000000e-01f);"),
        ("y = (1.000000e+00f / 0.000000e+00f);", "y = (tapml_constant_0 / 0.000000e+00f);"),
        ("y = (x / 0i);", "y = (x / tapml_constant_0);"),
        ("y = (x % 0u);", "y = (x % tapml_constant_0);"),
        ("y = (x<<u32(32i)) + (x>>40u);", "y = (x<<31u) + (x>>31u);"),
        ("y = (x<<u32(5i)) + (x>>u32(z));", "y = (x<<u32(5i)) + (x>>u32(z));"),
        (
            "let rmod_1 : i32 = ((x[(i % 4i)] - 1i) % y[i]);",
            "let rmod_1 : i32 = tapml_remainder((x[(i % 4i)] - 1i), y[i]);",
        ),
        ("y = f32(3i) + max(x, 0.000000e+00f);", "y = f32(3i) + max(x, 0.000000e+00f);"),
        ("y = (x + 1.000000e+00f);", "y = (x + 1.000000e+00f);"),
    ],
)
def test_what_a_shader_would_be_refused_for_is_spelled_rightly(text: str, wanted: str) -> None:
    assert spelled(text, set()).splitlines()[0] == wanted


def test_variables_and_functions_are_declared_once() -> None:
    text = spelled("y = log(0.000000e+00f) + log(0.000000e+00f) + tapml_sin(x) + tapml_cos(x);\n", set())
    assert text.count("var<private> tapml_constant_0 : f32 = 0.000000e+00f;") == 1
    assert text.count("fn tapml_angle(") == text.count("fn tapml_wave(") == text.count("fn tapml_product_high(") == 1
    assert declared("y = x;") == "y = x;"


def test_all_own_functions_call_only_what_there_is() -> None:
    for name in _OWN:
        spelled(f"y = tapml_{name}(x);\n", set())


def test_a_function_that_wgsl_has_not_is_named() -> None:
    with pytest.raises(SpellingError, match=r"TVM writes lgammaf\(\.\.\.\), a function that WGSL has not"):
        spelled("y = lgammaf(x);", set())


def test_many_conditions_are_asked_for_together() -> None:
    few, many = ("".join(f"if (((i < {n}i) && (j < 4i))) {{ y = x; }}\n" for n in range(count)) for count in (8, 20))
    assert spelled(few, set()) == few
    assert spelled(many, set()) == many.replace("&&", "&")
