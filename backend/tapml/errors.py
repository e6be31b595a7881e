"""Every error a person is meant to read is a `TapmlError`: one sentence that names the cause and the mend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapml.protocol import ErrorReport


class TapmlError(Exception):
    """Base of all errors tapml raises on purpose. The text is for people; the command line prints it as it is."""

    exit_code = 1


class InputError(TapmlError):
    """What the user gave cannot be used (model, inputs, suite, option). The command line exits with 2."""

    exit_code = 2


class ToolchainError(TapmlError):
    """Something tapml needs on this machine is missing or failed: emscripten, a browser, CUDA."""

    exit_code = 2


class DeviceError(TapmlError):
    """A device could not do what it was asked; `kind` is one of the protocol's ErrorKind."""

    def __init__(self, message: str, kind: str = "internal") -> None:
        super().__init__(message)
        self.kind = kind
        self.summary = message
        self.device: str | None = None
        self.kernel: str | None = None
        self.test: str | None = None
        self.lost_reason: str | None = None

    @classmethod
    def from_report(cls, report: ErrorReport, device: str) -> DeviceError:
        error = DeviceLost(report.message) if report.kind == "device-lost" else DeviceError(report.message, report.kind)
        error.device, error.kernel, error.test = device, report.kernel, report.test
        error.lost_reason = report.lost_reason
        return error


class DeviceLost(DeviceError):
    """The device went away: its tab was closed, its browser crashed or its GPU was reset."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "device-lost")
