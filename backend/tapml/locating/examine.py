"""Running failing tests again and bringing their outputs home: what no verdict tells."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from tapml.devices.commands import allocated, freed, uploaded
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost
from tapml.protocol import methods
from tapml.suite import CarvedTest
from tapml.validation.context import JobContext

_Item = TypeVar("_Item")

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

    def __init__(self, context: JobContext, messages: KernelMessages) -> None:
        self._context = context
        self._messages = messages

    def run(
        self, tests: Sequence[CarvedTest], runs: int, ran: Callable[[CarvedTest], None] = lambda test: None
    ) -> dict[str, list[Outputs]]:
        """Test id -> the outputs of each run. A test that the device does not run this time is left out.

        Raises DeviceLost where the device is gone.
        """
        found: dict[str, list[Outputs]] = {}
        for part in parts(tests, lambda test: runs * sum(ref.type.nbytes for ref in test.outputs), _MOST_BYTES):
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

    def once(self, test: CarvedTest) -> Outputs:
        """Its outputs of one run. Raises DeviceError where the device does not run it."""
        return self._call([test], 1)[test.id][0]

    def _call(self, tests: Sequence[CarvedTest], runs: int) -> dict[str, list[Outputs]]:
        library = f"x{next(_RUNS)}"
        kernels = [self._messages.kernel(name) for name in dict.fromkeys(test.kernel for test in tests)]
        commands: list[methods.Command] = [methods.LoadCommand(library=library, kernels=kernels)]
        sizes = sorted({ref.type.nbytes for test in tests for ref in test.outputs})
        try:
            with self._context.blobs.holding(map(bytes, sizes)) as digests:
                zeros = dict(zip(sizes, digests, strict=True))
                for number, test in enumerate(tests):
                    prefix = f"{library}/{number}/"
                    commands += [uploaded(f"{prefix}i{i}", ref.digest, ref.type) for i, ref in enumerate(test.inputs)]
                    for run in range(runs):
                        commands += one_run(test, library, prefix, zeros, fill_of(run))
                    commands.append(methods.FreePrefixCommand(prefix=prefix))
                types = [ref.type for test in tests for _ in range(runs) for ref in test.outputs]
                rest = iter(self._context.execute(commands, types))
        finally:
            self._context.free(freed(library))
        return {test.id: [list(islice(rest, len(test.outputs))) for _ in range(runs)] for test in tests}


def one_run(
    test: CarvedTest, library: str, prefix: str, zeros: Mapping[int, str], fill: int
) -> Iterator[methods.Command]:
    """Make the test's outputs anew, call its kernel and bring them home; its inputs are there, `{prefix}i0` and so on.

    `zeros`: bytes of an output -> the digest of so many zeros. `fill`: what the outputs hold before, 0xFF or 0.
    """
    outputs = [f"{prefix}o{place}" for place in range(len(test.outputs))]
    for name, ref in zip(outputs, test.outputs, strict=True):
        yield allocated(name, ref.type) if fill else uploaded(name, zeros[ref.type.nbytes], ref.type)
    arguments = [*(f"{prefix}i{place}" for place in range(len(test.inputs))), *outputs]
    yield methods.CallCommand(library=library, kernel=test.kernel, sizes=dict(test.sizes), arguments=arguments)
    for name in outputs:
        yield methods.DownloadCommand(tensor=name)


def parts(items: Iterable[_Item], nbytes: Callable[[_Item], int], most: int) -> Iterator[list[_Item]]:
    """Cut into parts of at most so many bytes; one item may have more."""
    part: list[_Item] = []
    size = 0
    for item in items:
        needed = nbytes(item)
        if part and size + needed > most:
            yield part
            part, size = [], 0
        part.append(item)
        size += needed
    if part:
        yield part
