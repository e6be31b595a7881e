"""What tasks, versions and devices are called, and what of them may come from strangers."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import Field

from tapml.first_error import in_words

_PART = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"

PART = f"^{_PART}$"
"""Of a scenario, and of a task in it: it names a repository and a branch."""

VERSION = in_words(
    rf"^{_NUMBER}(?:\.{_NUMBER}){{0,3}}$", "a version is one to four numbers with dots between, such as 1.2.0"
)

TASK = in_words(
    f"^{_PART}/{_PART}$",
    "a task is SCENARIO/TASK, two names of 1 to 63 small letters, digits and - (not first or last)",
)

TaskName = Annotated[str, Field(max_length=127, pattern=TASK)]
"""SCENARIO/TASK."""

Version = Annotated[str, Field(max_length=40, pattern=VERSION)]
"""One to four numbers with dots between."""

DEVICE = in_words("^[A-Za-z0-9_-]{16,64}$", "a device's name is 16 to 64 letters, digits, - or _")

DeviceId = Annotated[str, Field(pattern=DEVICE)]
"""Drawn at random by the agent, once; it says nothing of who uses the device."""

SubjectId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""Whose exclusive files they are, as the page's own server calls its users."""


@lru_cache(maxsize=4096)
def version_key(version: str) -> tuple[int, ...]:
    """Versions in their order: 1.10 is above 1.9, and 1.4 is 1.4.0. Of a `Version` only."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
