"""WGSL as tokens, with their places and without."""

from __future__ import annotations

import pytest

from tapml.kernels.wgsl_tokens import token_texts, tokens


@pytest.mark.parametrize(
    ("wgsl", "texts"),
    [
        ("let a=b<<2u; // c\n x", ["let", "a", "=", "b", "<<", "2u", ";", "x"]),
        ("a /* b /* c */ d */ e // f /* g\nh", ["a", "e", "h"]),
        ("a\u2028b // x\u2028y \x0bz", ["a", "b", "y", "z"]),
        ("// only", []),
        ("a /* open", None),
    ],
)
def test_both_have_the_same_texts(wgsl: str, texts: list[str] | None) -> None:
    found = tokens(wgsl)
    assert (None if found is None else [token.text for token in found]) == texts
    assert token_texts(wgsl) == texts
