"""Which of the connected devices is meant."""

from __future__ import annotations

from collections.abc import Mapping

from tapml.errors import InputError


def device_named(wanted: str, connected: Mapping[str, str], otherwise: str) -> str:
    """The id of the device that has this id or, alone, this name. `connected`: names by id.

    Raises InputError that lists them where there is none or are several; `otherwise` says what else could be given.
    """
    if wanted in connected:
        return wanted
    found = [device for device, name in connected.items() if name.casefold() == wanted.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{len(found)} connected devices are called {wanted}: give the id of one, {', '.join(found)}")
    listed = ", ".join(f"{name} ({device})" for device, name in connected.items()) or "none"
    raise InputError(f"no device {wanted!r}: give the name or id of a connected device ({listed}), or {otherwise}")
