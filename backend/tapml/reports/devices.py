"""Devices on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from tapml.reports.console import Table
from tapml.results.base import adapter_name
from tapml.text import size

_SHOWN_LIMITS = {
    "maxComputeInvocationsPerWorkgroup": "invocations",
    "maxComputeWorkgroupStorageSize": "workgroup storage",
    "maxStorageBufferBindingSize": "binding",
    "maxBufferSize": "buffer",
    "maxStorageBuffersPerShaderStage": "storage buffers",
}
_IN_BYTES = {"maxComputeWorkgroupStorageSize", "maxStorageBufferBindingSize", "maxBufferSize"}
_SHOWN_FEATURES = ("shader-f16", "subgroups", "timestamp-query")


def show_devices(console: Console, document: Mapping[str, Any]) -> None:
    """The document of `tapml devices`."""
    table = Table("device", "state", "adapter", "features", "limits")
    for device in document["connected"]:
        state = "busy" if device.get("busy") else "connected"
        _row(table, device["id"], state, device, device.get("unavailable"))
    for entry in document["startable"]:
        state = "startable" if entry["available"] else "not here"
        _row(table, entry["name"], state, entry["device"], entry["message"])
    console.print(table)
    console.print("use one with --device NAME; `tapml device NAME` attaches one to a running `tapml serve`")


def _row(table: Table, name: str, state: str, device: Mapping[str, Any] | None, problem: str | None) -> None:
    if device is None:
        table.add_row(name, state, problem or "", "", "")
        return
    shown = problem or adapter_name(device["adapter"]) or "not named"
    features = ", ".join(feature for feature in _SHOWN_FEATURES if feature in device["features"]) or "none"
    table.add_row(name, state, f"{device['name']}: {shown}", features, _limits(device["limits"]))


def _limits(limits: Mapping[str, float]) -> str:
    known = [(label, limits[name], name in _IN_BYTES) for name, label in _SHOWN_LIMITS.items() if name in limits]
    return ", ".join(f"{label} {size(int(value)) if in_bytes else int(value)}" for label, value, in_bytes in known)
