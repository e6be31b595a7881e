"""What is left of a test that still fails: tapml.reduce/1 (docs/locate.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import with_config
from typing_extensions import TypedDict

from tapml.protocol.base import JsonNumber
from tapml.protocol.fields import PLAIN, Count, Line
from tapml.results.base import Axes, Element, Header


@with_config(PLAIN)
class ReducedElement(TypedDict):
    """One that is not zero."""

    index: Axes
    value: JsonNumber


@with_config(PLAIN)
class ReducedInput(TypedDict):
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


@with_config(PLAIN)
class ReducedOutput(TypedDict):
    """What is wrong for it."""

    output: Count
    dtype: Line
    shape: Axes
    total: Count
    mismatched: Count
    worst: Element | None


@with_config(PLAIN)
class Workgroups(TypedDict):
    """Along x, y, z."""

    total: list[Count]
    needed: list[Count] | None
    """The fewest from the first on that still write a wrong element; null where that cannot be told."""
    text: Line


@with_config(PLAIN)
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
