"""Devices: whatever runs kernels at the other end of a session, and the blobs they fetch."""

from tapml.devices.blobs import Blobs
from tapml.devices.hub import CallResult, Device, DeviceHub
from tapml.devices.protocol import PROTOCOL_VERSION

__all__ = ["PROTOCOL_VERSION", "Blobs", "CallResult", "Device", "DeviceHub"]
