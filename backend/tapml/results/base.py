"""What result documents are made of (docs/results-format.md).

A result is a JSON object and stays a dict in Python: mypy knows its fields by these definitions, pydantic checks it by
them where it is read, and TypeScript's types are made of them. A field that earlier versions lack has a default, which
reading fills in; unknown fields are dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from tapml.protocol.base import JsonNumber
from tapml.protocol.fields import Count, Created, Line, Plain
from tapml.text import one_line

Axes = Annotated[list[Count], Field(max_length=32)]
Seconds = dict[Line, float]
"""What each part took."""


Doubts = Annotated[list[Line], Field(max_length=10_000, default_factory=list)]
"""Why the reference run that the suite was carved from is not to be believed, a sentence each."""


def distrust(what: str, doubts: Sequence[str]) -> list[str]:
    """What is said of whatever comes of such a suite, wherever it is shown: a line for each doubt."""
    return [one_line(f"DO NOT TRUST {what}: {doubt}", _MOST_DOUBT) for doubt in doubts]


_MOST_DOUBT = 5000


class AdapterFacts(Plain):
    """GPUAdapterInfo; empty where it is not told."""

    vendor: Annotated[Line, Field(default="")]
    architecture: Annotated[Line, Field(default="")]
    device: Annotated[Line, Field(default="")]
    description: Annotated[Line, Field(default="")]


def adapter_name(adapter: AdapterFacts) -> str:
    """All that is told of it, each word once; empty where nothing is."""
    told = (adapter["vendor"], adapter["architecture"], adapter["device"], adapter["description"])
    return " ".join(dict.fromkeys(filter(None, told)))


REPORTED_DEVICE = "reported"
"""The id of a device whose results came with an imported test: somebody's word, not what ran here."""


class DeviceFacts(Plain):
    """A device, for people."""

    name: Line
    """With its version: "Chromium 156"."""
    runtime: Annotated[Line, Field(default="")]
    """"browser", "node", "deno"; empty where it is not known."""
    user_agent: Line
    adapter: AdapterFacts
    features: Annotated[list[Line], Field(max_length=1000, default_factory=list)]
    limits: Annotated[dict[Line, float], Field(default_factory=dict)]


class DeviceDocument(DeviceFacts):
    """A device that took part."""

    id: Line
    """Of its name, with a number where several of that name were connected: "chromium-156-2". Means nothing else
    outside its document."""


def id_of_name(name: str) -> str:
    """The id of the first device of a name; `device_label` knows further ones by the number behind it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "device"


def device_label(device_id: str, name: str) -> str:
    """What tells devices of one name apart: "Chromium 156" for the first, "Chromium 156 (2)" for the second."""
    number = re.fullmatch(rf"{re.escape(id_of_name(name))}-([1-9][0-9]{{0,5}})", device_id)
    return f"{name} ({number[1]})" if number else name


def label_of(device: DeviceDocument) -> str:
    """The label of a result's device."""
    return device_label(device["id"], device["name"])


class Header(Plain):
    """What every result begins with."""

    suite: Line
    """Digest of the suite's graph and tests."""
    suite_name: Line
    synthetic: bool
    """Carved from made-up inputs."""
    doubts: Doubts
    created: Created
    interrupted: bool
    edited_kernels: list[Line]
    """Kernels whose WGSL, or how they are launched, differs from what was generated."""
    kernel_digests: Annotated[dict[Line, Line], Field(default_factory=dict)]
    """By kernel, of the WGSL and launches that ran; empty where there was none. What was found is of these: of a kernel
    that is another one by now it says nothing. Earlier versions kept none with an offload or a search."""
    devices: Annotated[list[DeviceDocument], Field(min_length=1, max_length=1000)]


class Element(Plain):
    """An element of an output."""

    index: Axes
    expected: JsonNumber
    got: JsonNumber
    bound: Annotated[JsonNumber | None, Field(default=None)]
    """What it may differ by; null where it was not told."""


class OutputElement(Element):
    """An element, and which output it is of."""

    output: Count


class Agreement(Plain):
    """How close two sets of outputs are; null where that is not a number."""

    cosine: float | None
    max_abs_error: float | None


class ModelMetric(Agreement):
    """Of the whole model's output in the worst carved step."""

    step: Annotated[Count, Field(default=0)]
    choices: Annotated[list[Line], Field(max_length=10_000, default_factory=list)]
    """Of outputs that are places (argmax, the next token): those that are others than the carved ones, and how far
    apart the two elements are. Half of that is counted as an error."""


class ModelTolerance(Plain):
    """What the whole model's output may be off by."""

    cosine: float
    """At least."""
    max_abs_error: float
    """At most."""
    reasons: list[Line]


def within(metric: Agreement, tolerance: ModelTolerance) -> bool:
    """What is not a number is not."""
    cosine, error = metric["cosine"], metric["max_abs_error"]
    if cosine is None or error is None:
        return False
    return cosine >= tolerance["cosine"] and error <= tolerance["max_abs_error"]


def badness(metric: Agreement, tolerance: ModelTolerance) -> tuple[bool, float]:
    """To find the worst of several by: what is outside the tolerance first, then the largest error."""
    error = metric["max_abs_error"]
    return not within(metric, tolerance), math.inf if error is None else error
