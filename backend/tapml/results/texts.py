"""Texts of a kernel that ran: tapml.texts/1, beside the results of a suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from tapml.protocol.base import MAX_WGSL_BYTES
from tapml.protocol.fields import Created, Line, Plain
from tapml.protocol.methods import Verdict

_MOST = 8
"""The latest; those of other kinds that are kept stand beside them."""
_MOST_DEVICES = 32

FileText = Annotated[str, Field(max_length=2 * MAX_WGSL_BYTES)]


class TextVersion(Plain):
    """A kernel as it once was."""

    digest: Line
    """As `kernel_digests` of results."""
    first: Created
    """When it was seen first."""
    created: Created
    """When it ran last, or was seen last where it never ran."""
    edited: bool
    """Not as it was generated."""
    verdicts: dict[Line, Verdict]
    """By a device's name, the worst of all its tests; empty where it never ran whole."""
    files: Annotated[dict[Line, FileText], Field(max_length=1000)]
    """Its WGSL and its document, by name."""


class TextsDocument(Plain):
    """tapml.texts/1."""

    format: Literal["tapml.texts/1"]
    kernel: Line
    versions: Annotated[list[TextVersion], Field(max_length=100)]
    """Latest first."""


def joined(versions: Sequence[TextVersion], new: TextVersion) -> list[TextVersion]:
    """With one more, or one seen again: its verdicts are added. A few are kept: the latest, the first that is
    as it was generated, and the latest that passes everywhere."""
    known = next((one for one in versions if one["digest"] == new["digest"]), None)
    verdicts = {**(known["verdicts"] if known else {}), **new["verdicts"]}
    first = known["first"] if known else new["first"]
    added: TextVersion = {**new, "first": first, "verdicts": dict([*verdicts.items()][-_MOST_DEVICES:])}
    others = [one for one in versions if one["digest"] != new["digest"]]
    found = sorted([added, *others], key=lambda one: one["created"], reverse=True)
    kept = {one["digest"] for one in found[:_MOST]}
    generated = [one for one in sorted(found, key=lambda one: one["first"]) if not one["edited"]]
    passing = [one for one in found if passes(one["verdicts"])]
    kept |= {one["digest"] for one in (*generated[:1], *passing[:1])}
    return [one for one in found if one["digest"] in kept]


def passes(verdicts: Mapping[str, Verdict]) -> bool:
    """On some device, and nowhere worse."""
    return "pass" in verdicts.values() and {*verdicts.values()} <= {"pass", "unsupported"}
