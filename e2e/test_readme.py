"""What the README says runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_python_examples(number: int) -> None:
    exec(compile(EXAMPLES[number], f"README.md, Python example {number + 1}", "exec"), {})


def test_there_is_an_example() -> None:
    assert "transformer_block" in EXAMPLES[0]
