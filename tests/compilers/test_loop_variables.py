"""What `everywhere` asks of each kernel that a test carves; here of what it has to find, and of kernels by hand."""

from __future__ import annotations

import pytest

from loop_variables import unsaid

LOOP = "fn main() {{\n  for (var i = 0; i < 8; i++) {{\n    {}\n  }}\n  var after : f32;\n}}\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("var x : f32;\n    x += 1.0f;", ["x"]),
        ("var x: array<f32, 4>;\n    x[i] += 1.0f;", ["x"]),
        ("var x = array<f32, 4>();", []),
        ("var x : f32 = 0.0f;", []),
        ("if (i < 3) {\n      var x : f32;\n    }", ["x"]),
        ("var c : f32;\n    if (i < 3) {\n      c = 1.0f;\n    } else {\n      c = 2.0f;\n    }", []),
        ("var c : f32;\n    if (i < 3) {\n      let d = i;\n      c = 1.0f;\n    } else {\n      c = 2.0f;\n    }", []),
        ("var c : f32;\n    if (i < 3) {\n      c = 1.0f;\n    }", ["c"]),
    ],
)
def test_variables_that_a_turn_may_read_before_it_sets_them(body: str, found: list[str]) -> None:
    assert unsaid(LOOP.format(body)) == found
