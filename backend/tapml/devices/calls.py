"""One call to a device, from its message to its reply; survives broken connections."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from pydantic import ValidationError

from tapml.errors import DeviceError, DeviceLost
from tapml.first_error import first_error
from tapml.program import TensorType
from tapml.protocol.errors import ErrorReport
from tapml.protocol.methods import CompileProgress, GeneratedToken, TestVerdict
from tapml.protocol.session import Method, Params, Progress, Reply, Result

_Form = TypeVar("_Form", Progress, Reply)

Telling: TypeAlias = CompileProgress | TestVerdict | GeneratedToken
"""Progress that a call's user is told of."""
OnProgress: TypeAlias = Callable[[Telling], None]


@dataclass(frozen=True)
class CallResult(Generic[Result]):
    """What a call gave: its result, its downloads in order, and the bytes behind them of which it may give some."""

    result: Result
    arrays: list[np.ndarray]
    more: bytes = b""


class PendingCall(Generic[Params, Result]):
    """A call under way. Messages of it are numbered, so that one that arrives twice counts once."""

    def __init__(
        self,
        method: Method[Params, Result],
        params: Params,
        types: Sequence[TensorType],
        hang_seconds: float,
        on_progress: OnProgress,
        most_more: int = 0,
    ) -> None:
        """`types`: of the downloads; `most_more`: bytes that may come behind them."""
        self.id = secrets.token_urlsafe(16)
        self.message = method.call(call=self.id, hang_seconds=hang_seconds, params=params)
        self.name: str = self.message.method  # type: ignore[attr-defined]  # every call's message has one
        self._expected = sum(tensor.nbytes for tensor in types)
        self.download_limit = self._expected + most_more
        self.downloads = b""
        self._result = method.result
        self._types = types
        self.received = 0
        self.last_sign = time.monotonic()
        self.compiling: list[str] = []
        """Kernels whose compilation has begun and not ended, as far as the runner told."""
        self.done = threading.Event()
        self._taking = threading.Lock()
        self._on_progress = on_progress
        self._reply: Reply | None = None
        self._failure: DeviceError | None = None

    def is_id(self, given: str) -> bool:
        """Is this the call's id? It is a secret between the server and one device."""
        return hmac.compare_digest(self.id.encode(), given.encode("utf-8", "surrogatepass"))

    def progress(self, message: Any) -> None:
        """Take a Progress message of the runner."""
        parsed = self._take(Progress, message)
        if parsed is None or self.done.is_set():
            return
        progress = parsed.progress
        if progress.kind == "compiling":
            self.compiling.append(progress.kernel)
        elif progress.kind == "compile":
            rest = [kernel for kernel in self.compiling if kernel != progress.kernel]
            self.compiling = [] if progress.done >= progress.total else rest
        if isinstance(progress, Telling):
            self._on_progress(progress)

    def reply(self, message: Any) -> None:
        """Take the Reply message of the runner."""
        parsed = self._take(Reply, message)
        if parsed is not None:
            self._reply = parsed
            self.done.set()

    def fail(self, error: DeviceError) -> None:
        """End the call from this side."""
        if not self.done.is_set():
            self._failure = error
            self.done.set()

    def result(self, device: str) -> CallResult[Result]:
        """The end of a call that is done. Raises what the device reported, or why it was ended from this side."""
        if self._failure is not None:
            raise self._failure
        assert self._reply is not None
        if not self._reply.ok:
            report = self._reply.error or ErrorReport(kind="internal", message="an error that was not told")
            raise DeviceError.from_report(report, device)
        try:
            result = self._result.model_validate(self._reply.result)
        except ValidationError as error:
            raise DeviceError(f"{device} sent a malformed result: {first_error(error)}", "protocol") from error
        if not self._expected <= len(self.downloads) <= self.download_limit:
            found = f"{len(self.downloads)} bytes where {self._expected} were asked for"
            raise DeviceError(f"{device} sent {found}", "protocol")
        return CallResult(result, list(self._arrays()), self.downloads[self._expected :])

    def _arrays(self) -> Iterator[np.ndarray]:
        rest = memoryview(self.downloads)
        for tensor in self._types:
            part, rest = rest[: tensor.nbytes], rest[tensor.nbytes :]
            yield tensor.decoded(part)

    def _take(self, form: type[_Form], message: Any) -> _Form | None:
        """The checked message if it is the next one."""
        # What the old connection brought may still be on its way here when the new one brings it again.
        with self._taking:
            self.last_sign = time.monotonic()
            try:
                parsed = form.model_validate(message)
            except ValidationError as error:
                self.fail(DeviceError(f"the device sent a malformed {form.__name__}: {first_error(error)}", "protocol"))
                return None
            if parsed.number > self.received:
                self.fail(DeviceError("the device left out messages of a call", "protocol"))
            if parsed.number != self.received:
                return None
            self.received += 1
            return parsed


def hung_compiling(device: str, kernel: str, seconds: float) -> DeviceError:
    """The error for a device that says nothing any more since it announced that it compiles `kernel`."""
    message = f"compiling kernel {kernel} did not end within {seconds:g} s: {device} said nothing any more"
    report = ErrorReport(kind="device-lost", message=message, kernel=kernel, lost_reason="hung")
    return DeviceError.from_report(report, device)


def lost(device: str, why: str, *, reason: str = "gone") -> DeviceLost:
    """The error for a device that went away, with its name."""
    return DeviceLost(f"device lost: {device}: {why}", device=device, reason=reason)
