"""Running failing tests again and bringing their outputs home: what no verdict tells."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

import numpy as np

from tapml.devices import Blobs, Device
from tapml.devices.commands import allocated, freed, uploaded
from tapml.devices.device import HANG_SECONDS
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost
from tapml.protocol import methods
from tapml.suite import CarvedTest

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
            types = [ref.type for test in tests for _ in range(runs) for ref in test.outputs]
            called = self._device.execute(commands, types, check=self._check, hang_seconds=self._hang_seconds)
        rest = iter(called.arrays)
        return {test.id: [list(islice(rest, len(test.outputs))) for _ in range(runs)] for test in tests}

    @contextmanager
    def _library(self, tests: Sequence[CarvedTest]) -> Iterator[tuple[str, list[methods.Command]]]:
        """A library of the tests' kernels; it and its tensors are freed whatever happens."""
        library = f"x{next(_RUNS)}"
        kernels = [self._messages.kernel(name) for name in dict.fromkeys(test.kernel for test in tests)]
        try:
            yield library, [methods.LoadCommand(library=library, kernels=kernels)]
        finally:
            if self._device.connected:
                with contextlib.suppress(DeviceError):  # it is gone, and its memory with it
                    self._device.execute(freed(library))

    def _zeros(self, tests: Sequence[CarvedTest], held: ExitStack) -> dict[int, str]:
        """Bytes of an output -> the digest of so many zeros."""
        sizes = sorted({ref.type.nbytes for test in tests for ref in test.outputs})
        digests = held.enter_context(self._blobs.holding(bytes(size) for size in sizes))
        return dict(zip(sizes, digests, strict=True))

    def _commands(
        self, test: CarvedTest, prefix: str, library: str, runs: int, zeros: Mapping[int, str]
    ) -> list[methods.Command]:
        inputs = [f"{prefix}i{place}" for place in range(len(test.inputs))]
        outputs = [f"{prefix}o{place}" for place in range(len(test.outputs))]
        commands: list[methods.Command] = [
            uploaded(name, ref.digest, ref.type) for name, ref in zip(inputs, test.inputs, strict=True)
        ]
        for run in range(runs):
            for name, ref in zip(outputs, test.outputs, strict=True):
                zero = zeros[ref.type.nbytes]
                commands.append(allocated(name, ref.type) if fill_of(run) else uploaded(name, zero, ref.type))
            commands.append(
                methods.CallCommand(
                    library=library, kernel=test.kernel, sizes=dict(test.sizes), arguments=inputs + outputs
                )
            )
            commands += [methods.DownloadCommand(tensor=name) for name in outputs]
        commands.append(methods.FreePrefixCommand(prefix=prefix))
        return commands


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
