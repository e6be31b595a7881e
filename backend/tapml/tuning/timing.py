"""The time that each candidate of an operator takes on a device, by turns."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tapml.compilers.auto.digest import judged_sizes
from tapml.compilers.auto.space import Candidate
from tapml.devices import Blobs, Device
from tapml.devices.commands import allocated, freed, uploaded
from tapml.devices.messages import kernel_message
from tapml.errors import DeviceError, DeviceLost
from tapml.files import sha256
from tapml.kernels.device_class import SOFTWARE, device_classes
from tapml.lowering.operator import Operator
from tapml.program import TensorType
from tapml.protocol.methods import (
    CallCommand,
    Command,
    DownloadCommand,
    ExecuteParams,
    ExecuteResult,
    LoadCommand,
    SyncCommand,
)
from tapml.protocol.session import EXECUTE

Clock = Literal["gpu", "cpu", "wall"]
"""As tapml.tuned/1 has it."""

APART = {"float32": 1e-3, "float16": 5e-2}
"""How far a result may be from that of the first candidate, by the length of the difference: sums are added up in
another order. Others have to be the same."""

_SECONDS = 0.01
"""Of one turn, about."""
_MOST_CALLS = 100
_HOPELESS = 3.0
"""Times what the fastest took: such a candidate has two turns."""
_NEAR = 1.5
"""Times what the fastest took: between such candidates it is decided by more turns, for one that takes a tenth of a
millisecond differs from turn to turn by more than they do from each other."""
_MORE_TURNS = 2
"""For each turn of all."""
_RUNS = itertools.count()
_MOST_REASON = 300


@dataclass
class Timed:
    """A candidate with its time, or why it has none. `clock`: what told it."""

    candidate: Candidate
    seconds: float | None = None
    refused: str | None = None
    clock: Clock = "wall"
    calls: int = field(default=1, repr=False)
    timed: bool = field(default=False, repr=False)


@dataclass
class Timing:
    """On one device, the least of `turns` counting, or of three times as many for candidates near the fastest. `check`
    may raise to give up; a kernel that takes longer than `hang_seconds` is an error."""

    device: Device
    blobs: Blobs
    turns: int
    hang_seconds: float
    check: Callable[[], None] = lambda: None

    def of(self, operator: Operator, found: Sequence[Candidate]) -> list[Timed]:
        """Raises DeviceLost where the device goes, and what `check` raises."""
        lost: list[Timed] = []
        while True:
            timed = [Timed(candidate) for candidate in found if candidate not in [one.candidate for one in lost]]
            try:
                self._time(operator, timed)
                return [*timed, *lost]
            except DeviceLost as error:
                # Whoever ran then is to blame, and the others are timed on the device's next GPU.
                guilty = next((one for one in timed if one.candidate.name == self._running), None)
                if guilty is None or error.lost_reason != "hung" or not self.device.connected:
                    raise
                guilty.seconds, guilty.refused = None, error.summary[:_MOST_REASON]
                lost.append(guilty)

    def _time(self, operator: Operator, timed: Sequence[Timed]) -> None:
        prefix = f"tune{next(_RUNS)}"
        sizes = judged_sizes(operator)
        types = operator.types(sizes)
        inputs = sum(argument["role"] == "input" for argument in operator.arguments)
        arrays = [_made(one, place) for place, one in enumerate(types[:inputs])]
        names = [f"{prefix}/a{place}" for place in range(len(types))]
        texts = [text.encode() for one in timed for text in one.candidate.texts]
        try:
            with self.blobs.holding([*(array.data.cast("B") for array in arrays), *texts]) as digests:
                given = zip(names, digests, types[:inputs], strict=False)
                self._execute([uploaded(name, digest, one) for name, digest, one in given])
                for place, one in enumerate(timed):
                    self._try(one, f"{prefix}/l{place}", names, types[inputs:], sizes)
            self._compared(timed, types[inputs:])
            for turn in range(self.turns * (1 + _MORE_TURNS)):
                best = min((one.seconds for one in timed if one.seconds is not None), default=0.0)
                worth = best * (_HOPELESS if turn < self.turns else _NEAR)
                for place, one in enumerate(timed):
                    if one.seconds is not None and (turn < 2 or one.seconds <= worth):
                        self._turn(one, f"{prefix}/l{place}", names, sizes)
        finally:
            self._free([f"{prefix}/l{place}" for place in range(len(timed))], prefix)

    def _try(
        self, one: Timed, library: str, names: Sequence[str], outputs: Sequence[TensorType], sizes: Mapping[str, int]
    ) -> None:
        """A first call, whose results tell whether it computes what the others do."""
        self._running = one.candidate.name
        made = kernel_message(one.candidate.kernel.document, [sha256(text) for text in one.candidate.texts])
        given = names[len(names) - len(outputs) :]
        commands: list[Command] = [
            LoadCommand(library=library, kernels=[made]),
            *(allocated(name, found) for name, found in zip(given, outputs, strict=True)),
            CallCommand(library=library, kernel=made.kernel, sizes=dict(sizes), arguments=list(names)),
            *(DownloadCommand(tensor=name) for name in given),
        ]
        try:
            params = ExecuteParams(commands=commands, timing=True)
            called = self.device.call(EXECUTE, params, outputs, hang_seconds=self.hang_seconds, check=self.check)
        except DeviceLost:
            raise
        except DeviceError as error:
            one.refused = error.summary[:_MOST_REASON]
            return
        self._results.append((one, called.arrays))
        one.seconds, one.clock = self._read(called.result, 1)

    def __post_init__(self) -> None:
        self._results: list[tuple[Timed, list[np.ndarray]]] = []
        self._running = ""

    def _compared(self, timed: Sequence[Timed], outputs: Sequence[TensorType]) -> None:
        """Those that do not give what the first gives, TVM's where it runs, have no time."""
        results, self._results = self._results, []
        for one, arrays in results[1:]:
            first, wanted = results[0]
            pairs = zip(arrays, wanted, outputs, strict=True)
            if not all(_apart(got, expected) <= APART.get(kind.dtype, 0.0) for got, expected, kind in pairs):
                one.seconds, one.refused = None, f"it does not give what {first.candidate.name} gives"

    def _turn(self, one: Timed, library: str, names: Sequence[str], sizes: Mapping[str, int]) -> None:
        assert one.seconds is not None
        self._running = one.candidate.name
        one.calls = max(1, min(_MOST_CALLS, round(_SECONDS / one.seconds)))
        kernel = one.candidate.kernel.document["kernel"]
        call = CallCommand(library=library, kernel=kernel, sizes=dict(sizes), arguments=list(names))
        params = ExecuteParams(commands=[*[call] * one.calls, SyncCommand()], timing=True)
        result = self.device.call(EXECUTE, params, hang_seconds=self.hang_seconds, check=self.check).result
        each, clock = self._read(result, one.calls)
        # The first call has what is done once, and may be too short for the clock of the GPU.
        one.seconds = min(one.seconds, each) if one.clock == clock and one.timed else each
        one.clock, one.timed = clock, True

    def _read(self, result: ExecuteResult, calls: int) -> tuple[float, Clock]:
        """Of each of so many calls."""
        seconds, told = result.seconds, sum(result.gpu_seconds or ())
        in_software = SOFTWARE in device_classes(self.device.hello.adapter.model_dump())
        if in_software and seconds.cpu:
            return seconds.cpu / calls, "cpu"
        if told:
            return max(told / calls, 1e-9), "gpu"
        return max(seconds.run / calls, 1e-9), "wall"

    def _execute(self, commands: Sequence[Command]) -> None:
        self.device.execute(commands, hang_seconds=self.hang_seconds, check=self.check)

    def _free(self, libraries: Sequence[str], prefix: str) -> None:
        self._results = []
        if not self.device.connected:
            return
        with contextlib.suppress(DeviceError):  # it is gone, and its memory with it
            self.device.execute([command for name in libraries for command in freed(name)] + freed(prefix))


def _made(found: TensorType, seed: int) -> np.ndarray:
    """Numbers from -1 to 1; integers are 0 or 1, which are places in all that has two."""
    generator = np.random.default_rng(seed)
    if found.dtype.startswith("float"):
        return generator.uniform(-1, 1, found.shape).astype(found.dtype)
    return generator.integers(0, 2, found.shape).astype(found.dtype)


def _apart(got: np.ndarray, expected: np.ndarray) -> float:
    """The length of the difference to that of what is expected, without elements that are no numbers in both."""
    both = np.isfinite(got.astype(np.float64)) & np.isfinite(expected.astype(np.float64))
    left, right = got.astype(np.float64)[both], expected.astype(np.float64)[both]
    length = float(np.linalg.norm(right))
    return float(np.linalg.norm(left - right)) / length if length else float(np.abs(left).max(initial=0.0))


def clock(found: Iterator[Timed]) -> Clock:
    """By what all of them were timed; where that differs, by the one of the machine."""
    clocks = {one.clock for one in found if one.seconds is not None}
    return clocks.pop() if len(clocks) == 1 else "wall"
