"""What a mutation operator gives: one piece of the text and what it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from benchmarks.localization.wgsl_text import Code, Span

Edit: TypeAlias = tuple[Span, str, str]
"""What is replaced, by what, and that in words."""


def shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def together(code: Code, changes: Sequence[tuple[Span, str]], description: str) -> Edit:
    """Several changes, which do not overlap, as one: from the first to the last."""
    ordered = sorted(changes, key=lambda change: change[0].start)
    whole = Span(ordered[0][0].start, max(span.end for span, _ in ordered))
    text, place = "", whole.start
    for span, replacement in ordered:
        text += code.text[place : span.start] + replacement
        place = span.end
    return whole, text + code.text[place : whole.end], description
