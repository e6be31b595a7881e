"""Devices: whatever runs kernels at the other end of a session, and the blobs they fetch."""

from tapml.devices.blobs import Blobs
from tapml.devices.calls import CallResult
from tapml.devices.device import Device
from tapml.devices.hub import DeviceHub

__all__ = ["Blobs", "CallResult", "Device", "DeviceHub"]
