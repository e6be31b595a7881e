"""Running failing tests again and bringing their outputs home: what no verdict tells."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from tapml.devices import Blobs, Device
from tapml.devices.device import HANG_SECONDS
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost
from tapml.graph.model import numpy_dtype
from tapml.suite import CarvedTest, TensorRef

_RUNS = itertools.count()
_MOST_BYTES = 64 << 20
"""Of one call's downloads."""

Outputs = list[np.ndarray]


def fill_of(run: int) -> int:
    """The byte that outputs' buffers hold before a run: an element that nobody writes keeps it.

    The first two runs begin alike, so that what differs between them is no matter of fill; the third does not.
    """
    return 0x00 if run % 3 == 2 else 0xFF


class Examiner:
    """Runs tests several times on one device, many to a call."""

    def __init__(
        self,
        device: Device,
        blobs: Blobs,
        messages: KernelMessages,
        *,
        check: Callable[[], None] = lambda: None,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        self._device = device
        self._blobs = blobs
        self._messages = messages
        self._check = check
        self._hang_seconds = hang_seconds

    def run(
        self, tests: Sequence[CarvedTest], runs: int, ran: Callable[[CarvedTest], None] = lambda test: None
    ) -> dict[str, list[Outputs]]:
        """Test id -> the outputs of each run. A test that the device does not run this time is left out.

        Raises DeviceLost where the device is gone.
        """
        found: dict[str, list[Outputs]] = {}
        for part in _parts(tests, runs):
            try:
                found |= self._call(part, runs)
            except DeviceLost:
                raise
            except DeviceError:
                # One of them fails the call: the others are worth a call each.
                for test in part if len(part) > 1 else ():
                    with contextlib.suppress(DeviceError):
                        found |= self._call([test], runs)
            for test in part:
                ran(test)
        return found

    def _call(self, tests: Sequence[CarvedTest], runs: int) -> dict[str, list[Outputs]]:
        with ExitStack() as held, self._library(tests) as (library, commands):
            zeros = self._zeros(tests, held)
            for number, test in enumerate(tests):
                commands += self._commands(test, f"{library}/{number}/", library, runs, zeros)
            size = runs * sum(ref.type.nbytes for test in tests for ref in test.outputs)
            called = self._device.call(
                "execute",
                {"commands": commands, "timing": False},
                download_bytes=size,
                check=self._check,
                hang_seconds=self._hang_seconds,
            )
        if len(called.downloads) != size:
            raise DeviceError(f"the device sent {len(called.downloads)} bytes where {size} were asked for", "protocol")
        return _split(tests, runs, called.downloads)

    @contextmanager
    def _library(self, tests: Sequence[CarvedTest]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """A library of the tests' kernels; it and its tensors are freed whatever happens."""
        library = f"x{next(_RUNS)}"
        kernels = [self._messages.kernel(name) for name in dict.fromkeys(test.kernel for test in tests)]
        try:
            yield library, [{"op": "load", "library": library, "kernels": kernels}]
        finally:
            if self._device.connected:
                freed = [{"op": "unload", "library": library}, {"op": "free_prefix", "prefix": f"{library}/"}]
                with contextlib.suppress(DeviceError):  # it is gone, and its memory with it
                    self._device.call("execute", {"commands": freed, "timing": False})

    def _zeros(self, tests: Sequence[CarvedTest], held: ExitStack) -> dict[int, str]:
        """Bytes of an output -> the digest of so many zeros."""
        sizes = sorted({ref.type.nbytes for test in tests for ref in test.outputs})
        digests = held.enter_context(self._blobs.holding(bytes(size) for size in sizes))
        return dict(zip(sizes, digests, strict=True))

    def _commands(
        self, test: CarvedTest, prefix: str, library: str, runs: int, zeros: Mapping[int, str]
    ) -> list[dict[str, Any]]:
        inputs = [f"{prefix}i{place}" for place in range(len(test.inputs))]
        outputs = [f"{prefix}o{place}" for place in range(len(test.outputs))]
        commands = [
            {"op": "upload", "tensor": name, **ref.to_json()} for name, ref in zip(inputs, test.inputs, strict=True)
        ]
        for run in range(runs):
            for name, ref in zip(outputs, test.outputs, strict=True):
                commands.append(_output(name, ref, None if fill_of(run) else zeros[ref.type.nbytes]))
            commands.append({"op": "call", "library": library, "kernel": test.kernel, "arguments": inputs + outputs})
            commands += [{"op": "download", "tensor": name} for name in outputs]
        commands.append({"op": "free_prefix", "prefix": prefix})
        return commands


def _output(name: str, ref: TensorRef, zeros: str | None) -> dict[str, Any]:
    tensor = {"tensor": name, "dtype": ref.dtype, "shape": list(ref.shape)}
    return {"op": "allocate", **tensor} if zeros is None else {"op": "upload", "digest": zeros, **tensor}


def _parts(tests: Sequence[CarvedTest], runs: int) -> Iterator[list[CarvedTest]]:
    part: list[CarvedTest] = []
    size = 0
    for test in tests:
        needed = runs * sum(ref.type.nbytes for ref in test.outputs)
        if part and size + needed > _MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(test)
        size += needed
    if part:
        yield part


def _split(tests: Sequence[CarvedTest], runs: int, downloads: bytes) -> dict[str, list[Outputs]]:
    data = memoryview(downloads)
    found: dict[str, list[Outputs]] = {}
    for test in tests:
        found[test.id] = []
        for _ in range(runs):
            outputs = []
            for ref in test.outputs:
                size = ref.type.nbytes
                outputs.append(np.frombuffer(data[:size], numpy_dtype(ref.dtype)).reshape(ref.shape))
                data = data[size:]
            found[test.id].append(outputs)
    return found
