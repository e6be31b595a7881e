"""How a product is shared out among workgroups: each computes a rectangle of the result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rectangle:
    """Each of `high` * `wide` invocations (or subgroups) of a workgroup computes `rows` * `columns` elements."""

    rows: int
    columns: int
    high: int
    wide: int

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.rows * self.high

    @property
    def width(self) -> int:
        """Columns of a workgroup."""
        return self.columns * self.wide
