"""Verdicts: their order, and what they mean for a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, get_args

from pydantic import Field
from typing_extensions import TypedDict

from tapml.protocol.fields import Count, Plain
from tapml.protocol.methods import Verdict

VERDICTS: tuple[Verdict, ...] = get_args(Verdict.__value__)

SEVERITY: tuple[Verdict, ...] = ("pass", "unsupported", "unbounded", "fail", "error")
"""The same, from good to bad."""

FAILING: tuple[Verdict, ...] = ("unbounded", "fail", "error")
"""A kernel with one of these cannot be relied on."""

# `pass` cannot be written as a field of a class.
_Counts = TypedDict(
    "_Counts",
    {
        "pass": Count,
        "fail": Count,
        "error": Count,
        "unsupported": Count,
        "unbounded": Annotated[Count, Field(default=0)],
    },
)


class VerdictCounts(Plain, _Counts):
    """Tests by their verdict."""


def verdict_counts(verdicts: Iterable[Verdict]) -> VerdictCounts:
    """How many of each."""
    found = Counter(verdicts)
    return {
        "pass": found["pass"],
        "fail": found["fail"],
        "error": found["error"],
        "unsupported": found["unsupported"],
        "unbounded": found["unbounded"],
    }
