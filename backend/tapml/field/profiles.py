"""The task profile: what a page's ordinary requests tell of a device, in one header.

Everything in it is said by the device and believed by nobody: it may choose which versions a device is offered, and
nothing else (`tapml.field.signing` says who may read what is not for all).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Field, ValidationError

from tapml.errors import InputError
from tapml.field.names import DeviceId, TaskName, Version, version_key
from tapml.formats import wrong_field
from tapml.protocol.base import Message
from tapml.strict_json import parse_json

HEADER = "Tapml-Profile"

MOST_BYTES = 4096
"""Of the header: half of what common web servers take for one."""

_MOST_CONTAINERS = 16
_REMEDY = "; send what @tapml/agent sends"

Scalar: TypeAlias = str | float | bool
"""An attribute's value; whole numbers are numbers."""

Fact: TypeAlias = Scalar | tuple[int, ...]
Facts: TypeAlias = Mapping[str, Fact]
"""What policies ask for, by the name of the field; app is a version's key."""

_AttributeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
_Word = Annotated[str, Field(max_length=64)]


class Browser(Message):
    """As the agent names it: chromium, firefox, safari."""

    name: _Word
    version: Annotated[int, Field(ge=0, le=1_000_000)]


class Gpu(Message):
    """Of GPUAdapterInfo; empty where it is not told."""

    vendor: _Word = ""
    architecture: _Word = ""


class Profile(Message):
    """A device, and which versions of tasks it holds."""

    device: DeviceId
    app: Version
    """Of the page."""
    browser: Browser
    gpu: Gpu = Gpu()
    speed: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """Billions of multiplications a second, as the agent measured them."""
    attributes: dict[_AttributeName, _Word | float | bool] = Field(max_length=16, default_factory=dict)
    """What the page declares of its user: age, habit."""
    holds: dict[TaskName, Version] = Field(max_length=64, default_factory=dict)


def parse_profile(header: str | bytes) -> Profile:
    """Raises InputError, one sentence, for whatever is no profile."""
    where = f"the header {HEADER}"
    if len(header) > MOST_BYTES:
        raise InputError(
            f"{where} has {len(header)} bytes, and at most {MOST_BYTES} are read: declare fewer attributes"
        )
    found = parse_json(header, where, _REMEDY.removeprefix("; "), most_containers=_MOST_CONTAINERS)
    try:
        return Profile.model_validate(found)
    except ValidationError as error:
        raise wrong_field(where, error, _REMEDY) from None


def facts(profile: Profile) -> Facts:
    """Without the device's name and what it holds: no policy asks for these."""
    found: dict[str, Fact] = {
        "app": version_key(profile.app),
        "browser": profile.browser.name,
        "browser_version": float(profile.browser.version),
        "gpu_vendor": profile.gpu.vendor,
        "gpu_architecture": profile.gpu.architecture,
    }
    if profile.speed is not None:
        found["speed"] = profile.speed
    for name, value in profile.attributes.items():
        found[f"attributes.{name}"] = value
    return found
