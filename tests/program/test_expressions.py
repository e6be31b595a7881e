"""Expressions of sizes: the vectors that TypeScript is held to as well, and exactness on any of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tapml.expressions import (
    MOST,
    CheckedExpression,
    ExpressionError,
    Symbol,
    check_sizes,
    check_symbols,
    evaluate,
    extent,
    printed,
    symbols_of,
)

Vector = dict[str, Any]
VECTORS: dict[str, list[Vector]] = json.loads((Path(__file__).parents[1] / "vectors/expressions.json").read_text())


def shown(vector: Vector) -> str:
    return json.dumps(vector.get("expression", vector["sizes"]))[:60]


def said(call: Any) -> Any:
    """What `call` gives, or the words of its error."""
    try:
        return call()
    except ExpressionError as error:
        return str(error)


@pytest.mark.parametrize("vector", VECTORS["evaluate"], ids=shown)
def test_an_expression_has_its_value_or_its_error(vector: Vector) -> None:
    expression = vector["expression"]
    assert said(lambda: evaluate(expression, vector["sizes"])) == vector.get("value", vector.get("error"))
    if "printed" in vector:
        assert printed(expression) == vector["printed"]


@pytest.mark.parametrize("vector", VECTORS["extent"], ids=shown)
def test_an_extent_is_in_its_bounds_or_says_what_it_is_for(vector: Vector) -> None:
    bounds = {name: vector[name] for name in ("least", "most") if name in vector}
    found = said(lambda: extent(vector["expression"], vector["sizes"], vector["what"], **bounds))
    assert found == vector.get("value", vector.get("error"))


@pytest.mark.parametrize("vector", VECTORS["sizes"], ids=shown)
def test_sizes_are_those_of_the_symbols(vector: Vector) -> None:
    symbols = [Symbol.model_validate(symbol) for symbol in vector["symbols"]]
    assert said(lambda: check_sizes(symbols, vector["sizes"])) == vector["error"]


SIZES = st.fixed_dictionaries({name: st.integers(0, MOST) for name in "nmk"})
EXPRESSIONS: st.SearchStrategy[Any] = st.recursive(
    st.integers(-MOST, MOST) | st.integers(-9, 9) | st.sampled_from("nmk"),
    lambda inner: st.lists(inner, min_size=2, max_size=2).flatmap(
        lambda operands: st.sampled_from(
            ["add", "sub", "mul", "floordiv", "floormod", "ceildiv", "min", "max"]
        ).map(lambda operation: [operation, *operands])
    ),
    max_leaves=12,
)  # fmt: skip
PYTHON: dict[str, Any] = {
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "ceildiv": lambda a, b: a // b + (a % b != 0),
    "min": min,
    "max": max,
}


@given(EXPRESSIONS, SIZES)
def test_what_is_printed_is_what_is_computed(expression: Any, sizes: dict[str, int]) -> None:
    found = said(lambda: evaluate(expression, sizes))
    if isinstance(found, str):
        assert "divides by zero" in found or "beyond 2^53 - 1" in found
    else:
        assert found == eval(printed(expression), {"__builtins__": {}}, {**PYTHON, **sizes})


def test_unknown_symbols_are_named_with_their_place() -> None:
    symbol = Symbol(name="n", minimum=1, maximum=8)
    check_symbols([symbol], [("grid x", ["mul", "n", 2]), ("grid y", 1)])
    with pytest.raises(ExpressionError, match=r"^grid y: there is no symbol m here: there are n$"):
        check_symbols([symbol], [("grid x", "n"), ("grid y", ["add", "n", "m"])])
    assert symbols_of(["add", ["mul", "m", "n"], ["min", "m", 3]]) == ["m", "n"]


def test_a_field_of_a_document_says_what_is_wrong_with_it() -> None:
    field = TypeAdapter[Any](CheckedExpression)
    assert field.validate_python(["ceildiv", "n", 64]) == ["ceildiv", "n", 64]
    deep: Any = 1
    for _ in range(200):
        deep = ["add", deep, 1]
    for wrong, words in ((["pow", 2, 3], "a list of 3 is no expression"), (deep, "at most 32 levels")):
        with pytest.raises(ValidationError, match=words):
            field.validate_python(wrong)


def test_a_symbol_has_a_range() -> None:
    with pytest.raises(ValidationError, match="the minimum of n, 3, is above its maximum, 2"):
        Symbol(name="n", minimum=3, maximum=2)
    for name in ("", "1n", "a-b", "n\n"):
        with pytest.raises(ValidationError):
            Symbol(name=name, minimum=1, maximum=2)
