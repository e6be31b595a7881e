"""What is left of a test that still fails: tapml.reduce/1 (docs/locate.md)."""

from __future__ import annotations

from typing import Literal

from tapml.protocol.base import JsonNumber
from tapml.protocol.fields import Count, Line, Plain
from tapml.results.base import Axes, Element, Header


class ReducedElement(Plain):
    """One that is not zero."""

    index: Axes
    value: JsonNumber


class ReducedInput(Plain):
    """What remained of an input."""

    name: Line
    dtype: Line
    shape: Axes
    total: Count
    nonzero: Count
    nonzero_before: Count
    distinct: Count
    values: list[JsonNumber]
    """The smallest, 8 at most."""
    elements: list[ReducedElement]
    """The first, 8 at most."""
    changed: bool


class ReducedOutput(Plain):
    """What is wrong for it."""

    output: Count
    dtype: Line
    shape: Axes
    total: Count
    mismatched: Count
    worst: Element | None


class Workgroups(Plain):
    """Along x, y, z."""

    total: list[Count]
    needed: list[Count] | None
    """The fewest from the first on that still write a wrong element; null where that cannot be told."""
    text: Line


class ReduceDocument(Header):
    """tapml.reduce/1."""

    format: Literal["tapml.reduce/1"]
    test: Line
    kernel: Line
    runs: Count
    seconds: float
    inputs: list[ReducedInput]
    outputs: list[ReducedOutput]
    workgroups: Workgroups
