"""Where a text's states are, on this machine or on a device: what goes on with it computes only what they have not."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Protocol

from tapml.compiled.files import CompiledFiles
from tapml.devices import Blobs, Device
from tapml.devices.commands import message
from tapml.devices.compiled import served_model
from tapml.devices.device import HANG_SECONDS
from tapml.errors import DeviceError
from tapml.generation.asked import Text
from tapml.generation.calls_on_cpu import Calls
from tapml.generation.on_cpu import chosen_on_cpu
from tapml.generation.on_device import chosen_on_device
from tapml.generation.writing import Chosen
from tapml.protocol.methods import GenerateParams, KeptTexts
from tapml.protocol.session import GENERATE


class Kept(Protocol):
    """States of a text. What they lack of it, because another text was written or a device was lost, is computed."""

    def chosen(self, text: Text) -> Generator[Chosen]:
        """Tokens behind a text, as `chosen_on_cpu` and `chosen_on_device` give them."""

    def fork(self) -> Kept:
        """Those of another text, which begin with what these hold."""

    def close(self) -> None:
        """Give them back."""


class KeptOnCpu:
    """On this machine."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def chosen(self, text: Text) -> Generator[Chosen]:
        """As Kept."""
        return chosen_on_cpu(text, self._calls)

    def fork(self) -> KeptOnCpu:
        """As Kept."""
        return KeptOnCpu(self._calls.fork())

    def close(self) -> None:
        """As Kept: they are garbage now."""


class _Family:
    """Texts that were forked from one: what is due travels with the next call of any."""

    def __init__(self, device: Device, blobs: Blobs, files: CompiledFiles, hang_seconds: float) -> None:
        self.device, self.blobs, self.files, self.hang_seconds = device, blobs, files, hang_seconds
        self.forks: dict[str, str] = {}
        self.drop: list[str] = []
        self.alive: set[str] = set()

    def due(self, writer: str) -> KeptTexts:
        found = KeptTexts(writer=writer, forks=self.forks, drop=self.drop)
        self.forks, self.drop = {}, []
        return found

    def give_back(self) -> None:
        """All of it: no text is left."""
        if not self.drop:
            return
        kept = self.due(self.drop[0])
        with suppress(DeviceError), served_model(self.blobs, self.files) as digest:
            fields: dict[str, Any] = {
                **{"model": digest, "prompts": [], "tokens": 1, "stop_ids": [], "greedy": True, "temperature": None},
                **{"top_k": None, "top_p": None, "repetition_penalty": 1.0, "seed": None, "speculate": None},
                "kept": kept.model_dump(),
            }
            self.device.call(GENERATE, message(GenerateParams, fields, "texts"), hang_seconds=self.hang_seconds)


class KeptOnDevice:
    """On a device, between calls; copies are made there."""

    def __init__(self, family: _Family, name: str | None = None) -> None:
        self._family = family
        self._name = name or f"w{uuid.uuid4().hex}"
        family.alive.add(self._name)
        self._there = name is not None

    @classmethod
    def on(cls, device: Device, blobs: Blobs, files: CompiledFiles, hang_seconds: float = HANG_SECONDS) -> KeptOnDevice:
        """Of a model, on a device."""
        return cls(_Family(device, blobs, files, hang_seconds))

    def chosen(self, text: Text) -> Generator[Chosen]:
        """As Kept."""
        family = self._family
        self._there = True
        source = chosen_on_device(
            family.device, family.blobs, [text], hang_seconds=family.hang_seconds, kept=family.due(self._name)
        )
        try:
            for _, found in source:
                yield found
        finally:
            source.close()

    def fork(self) -> KeptOnDevice:
        """As Kept. The copy is made before the next call of any text of the model."""
        name = f"w{uuid.uuid4().hex}"
        if self._there:
            self._family.forks[name] = self._name
        return KeptOnDevice(self._family, name)

    def close(self) -> None:
        """As Kept: with the next call, or, of the last text, at once."""
        family = self._family
        if self._name not in family.alive:
            return
        family.alive.remove(self._name)
        if family.forks.pop(self._name, None) is None and self._there:
            family.drop.append(self._name)
        if not family.alive:
            family.give_back()
