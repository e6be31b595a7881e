"""What the README says runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def examples(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = examples("README.md")


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_python_examples(number: int) -> None:
    exec(compile(EXAMPLES[number], f"README.md, Python example {number + 1}", "exec"), {})


def test_there_is_an_example() -> None:
    assert "transformer_block" in EXAMPLES[0]


def test_the_site_has_the_same_example() -> None:
    assert examples("docs/python.md")[: len(EXAMPLES)] == EXAMPLES
