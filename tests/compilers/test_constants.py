"""Constants keep all their digits on the way to WGSL."""

from __future__ import annotations

import re

import numpy as np
from tvm import relax

from helpers import compiled_anew
from tapml.compilers.tvm.constants import with_exact_constants
from tapml.lowering.lower import lower


def test_a_literal_is_the_constant_it_was_printed_from() -> None:
    scale = float(np.float32(0.35355338454246521))
    text = with_exact_constants("y = 3.535534e-01f * x - 1.000000e+00f + 3.535534e-01f;", {scale, 1.0})
    assert text == "y = 3.5355338e-01f * x - 1.000000e+00f + 3.5355338e-01f;"
    assert np.float32("3.5355338e-01") == np.float32(scale)


def test_a_negative_constant_is_found_by_its_magnitude() -> None:
    assert with_exact_constants("-2.726142e-10f", {-2.72614225801306e-10}) == "-2.7261424e-10f"


def test_what_is_ambiguous_or_unknown_stays() -> None:
    close = {float(np.float32(0.35355338454246521)), float(np.float32(0.3535534143447876))}
    for text, values in (("3.535534e-01f", close), ("3.535534e-01f", set()), ("a3.535534e-01f", {0.35355338})):
        assert with_exact_constants(text, values) == text


def test_the_largest_number_is_spelled_within_its_range() -> None:
    """A WGSL literal must not exceed what its type holds; 3.4028235e+38, the shortest text, does."""
    largest = np.finfo(np.float32).max
    text = with_exact_constants("-3.402823e+38f", {-float(largest)})
    assert text == "-3.4028234e+38f"
    assert np.float32(text[1:-1]) == largest
    assert float(text[1:-1]) <= float(largest)


def test_the_least_integer_is_spelled_within_its_range() -> None:
    """WGSL reads -2147483648i as minus a literal that is too large."""
    assert with_exact_constants("best = -2147483648i;", set()) == "best = (-2147483647i - 1i);"


def test_compiled_kernels_hold_the_constants_of_their_operators() -> None:
    """TVM prints 3.535534e-01 for this one."""
    scale = np.float32(0.35355338454246521)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.multiply(x, relax.const(scale, "float32")))
        builder.emit_func_output(result)
    kernel = compiled_anew(lower(builder.finalize(), 1).operators[0])
    literals = re.findall(r"\* ([\d.e+-]+)f", kernel.files[0].text)
    assert [np.float32(literal) for literal in literals] == [scale]
