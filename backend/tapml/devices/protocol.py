"""The session protocol's Python half; the TypeScript half is runner_js/src/protocol/messages.ts.

Only what arrives is described and checked here (everything from the network is hostile); what is sent is built
by `tapml.devices.messages` and read by the runner's own types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROTOCOL_VERSION = 1

_MAX_TEXT = 2000


class ProtocolError(ValueError):
    """A message that is not what the protocol says. The text goes back to the sender."""


@dataclass(frozen=True)
class Hello:
    """A runner's first message: who it is and what its device can do."""

    protocol: int
    resume: str | None
    tag: str | None
    name: str
    user_agent: str
    adapter: dict[str, str]
    features: list[str] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    unavailable: str | None = None

    @staticmethod
    def parse(message: Any) -> Hello:
        """Raises ProtocolError naming the field that is wrong, or the versions that do not fit."""
        if not isinstance(message, Mapping):
            raise ProtocolError("hello is not an object")
        version = message.get("protocol")
        if version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"this server speaks protocol {PROTOCOL_VERSION}, the runner speaks {version!r}: reload the page"
            )
        adapter = message.get("adapter") or {}
        if not isinstance(adapter, Mapping):
            raise ProtocolError("hello.adapter is not an object")
        features, limits = message.get("features") or [], message.get("limits") or {}
        if not isinstance(features, list) or not isinstance(limits, Mapping):
            raise ProtocolError("hello.features or hello.limits is malformed")
        return Hello(
            protocol=PROTOCOL_VERSION,
            resume=_optional_text(message, "resume"),
            tag=_optional_text(message, "tag"),
            name=_text(message, "name"),
            user_agent=_text(message, "user_agent"),
            adapter={
                key: str(adapter.get(key, ""))[:_MAX_TEXT]
                for key in ("vendor", "architecture", "device", "description")
            },
            features=[str(f)[:100] for f in features[:200]],
            limits={str(k)[:100]: _number(v) for k, v in list(limits.items())[:200]},
            unavailable=_optional_text(message, "unavailable"),
        )


def _text(message: Mapping[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise ProtocolError(f"hello.{key} is not a string")
    return value[:_MAX_TEXT]


def _optional_text(message: Mapping[str, Any], key: str) -> str | None:
    return None if message.get(key) is None else _text(message, key)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProtocolError("hello.limits holds something that is no number")
    return value
