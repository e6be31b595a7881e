"""Every error a person is meant to read is a `TapmlError`: one sentence that names the cause and the fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tapml.text import visible

if TYPE_CHECKING:
    from tapml.protocol.errors import Diagnostic, ErrorReport


class TapmlError(Exception):
    """Base of all errors tapml raises on purpose. The text is for people; the command line prints it as it is."""

    exit_code = 1

    def __str__(self) -> str:
        # Names and messages of strangers are in it, and whoever shows it need not think of that.
        return visible(super().__str__())


class InputError(TapmlError):
    """What the user gave cannot be used (model, inputs, suite, option). The command line exits with 2.

    Of a model that is refused, besides the sentence: `operator` and `node` as the model's file names them, and
    `reason`, the cause without place and fix. Each is None where there is none to tell.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, operator: str | None = None, node: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.node = node
        self.reason = reason

    def at(self, operator: str | None, node: str | None) -> Self:
        """The same error with the place where it happened, unless it names one; in its sentence too."""
        if self.operator is None and self.node is None and operator is not None:
            self.operator, self.node, self.reason = operator, node, self.reason or str(self.args[0])
            where = f" (at {node})" if node else ""
            if operator not in self.args[0]:
                self.args = (f"the operator {operator}{where}: {self.args[0]}",)
        return self

    def within(self, what: str) -> InputError:
        """The same error of a file or a part: its name stands before the sentence."""
        return InputError(f"{what}: {self.args[0]}", **self.refusal())

    def refusal(self) -> dict[str, str | None]:
        """`operator`, `node` and `reason`, as documents and answers have them."""
        return {
            name: None if value is None else visible(value)
            for name, value in (("operator", self.operator), ("node", self.node), ("reason", self.reason))
        }


class ToolchainError(TapmlError):
    """Something tapml needs on this machine is missing or failed: emscripten, a browser, CUDA."""

    exit_code = 2


class DeviceError(TapmlError):
    """A device could not do what it was asked. The text says what happened, where, what is known, and what to do.

    `kind` is one of the protocol's ErrorKind; `report` is the whole ErrorReport, where the device sent one.
    """

    def __init__(self, message: str, kind: str = "internal", *, device: str | None = None) -> None:
        self.summary = message
        """One sentence."""
        self.kind = kind
        self.device = device
        """The device's name, such as "Chromium 156"."""
        self.report: ErrorReport | None = None
        super().__init__(message)

    @classmethod
    def from_report(cls, report: ErrorReport, device: str) -> DeviceError:
        """What a device reported: DeviceLost where the device is gone."""
        if report.kind == "device-lost":
            error: DeviceError = DeviceLost(report.message, device=device)
        else:
            error = DeviceError(report.message, report.kind, device=device)
        error.report = report
        error.args = (describe(report, device),)
        return error

    @property
    def kernel(self) -> str | None:
        return self.report.kernel if self.report else None

    @property
    def test(self) -> str | None:
        """The carved test that ran."""
        return self.report.test if self.report else None

    @property
    def arguments(self) -> list[str]:
        """Types of the kernel's arguments, such as "float32[16, 64]": inputs, then outputs."""
        return [_type(found.dtype, found.shape) for found in (self.report.arguments or [])] if self.report else []

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The WGSL compiler's messages, with file, line (from 1), column (from 1) and source line."""
        return list(self.report.diagnostics or []) if self.report else []

    @property
    def gpu_message(self) -> str | None:
        """The GPU error as the error scope gave it."""
        return self.report.gpu_message if self.report else None

    @property
    def lost_reason(self) -> str | None:
        """GPUDeviceLostInfo.reason, or "hung"; None where no device was lost."""
        return self.report.lost_reason if self.report else None

    @property
    def javascript_stack(self) -> str | None:
        """The runner's stack, where the cause is unexpected."""
        return self.report.stack if self.report else None


class DeviceLost(DeviceError):
    """The device went away: its tab was closed, its browser crashed, its GPU hung or was reset."""

    def __init__(self, message: str, *, device: str | None = None, reason: str | None = None) -> None:
        super().__init__(message, "device-lost", device=device)
        self._reason = reason

    @property
    def lost_reason(self) -> str | None:
        return self._reason or super().lost_reason


_MENDS = {
    "compile": "fix the WGSL at the place named; the device is still usable",
    "validation": "the device is still usable; nothing of this call's command ran",
    "out-of-memory": "free tensors, or use a device with more memory; the device is still usable",
    "fetch": "see that the server is still running and its files are whole; the device is still usable",
    "protocol": "this may be a defect of tapml: please report it with this text; the device is still usable",
    "unsupported": "use a device that has it, or compile other variants; the device is still usable",
    "internal": "this may be a defect of browser or tapml: please report it with this text; the device is still usable",
    "cancelled": "the device is still usable",
    "input": "the device is still usable",
    "device-lost": (
        "tensors and libraries on it are gone; the next use makes a new GPU device (tml.webgpu(...) in Python), "
        "then upload again"
    ),
}


def describe(report: ErrorReport, device: str) -> str:
    """A report as text that a stranger can act on."""
    where = f"{device}: " if device not in report.message else ""
    kernel = f"kernel {report.kernel}: " if report.kernel and report.kernel not in report.message else ""
    first = report.message.split("\n")[0] if report.diagnostics else report.message
    lines = [f"{where}{kernel}{first}"]
    for found in report.diagnostics or []:
        place = f"{found.file}:{found.line}:{found.column}" if found.line > 0 else found.file
        lines.append(f"  {place}: {found.severity}: {found.message}")
        if found.source.strip():
            source = found.source.replace("\t", " ")
            lines += [f"    {source}", f"    {' ' * max(0, found.column - 1)}^"]
    if report.variant:
        lines.append(f"  variant: {report.variant}")
    if report.arguments:
        lines.append("  arguments: " + ", ".join(_type(found.dtype, found.shape) for found in report.arguments))
    if report.gpu_message and report.gpu_message not in report.message:
        lines.append("  the GPU said: " + report.gpu_message.strip().replace("\n", "\n    "))
    if report.lost_reason:
        lines.append(f"  device lost: {report.lost_reason}")
    if report.stack:
        lines.append("  in the runner: " + report.stack.strip().replace("\n", "\n    "))
    lines.append(f"  what to do: {_MENDS[report.kind]}")
    return "\n".join(lines)


def _type(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
