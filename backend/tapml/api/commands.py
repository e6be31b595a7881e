"""Lists of commands: what one message takes, what must be done although others failed, what Python dropped."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator, Sequence
from typing import Any

Commands = Sequence[dict[str, Any]]

# A message holds no more commands, and no more of the largest parts of commands, than these (MAX_MESSAGE_BYTES).
_MOST_COMMANDS = 20_000
_MOST_WEIGHT = 60_000


def messages(commands: Commands) -> Iterator[Commands]:
    """The commands in order, cut into what one message may hold."""
    begin = weight = 0
    for place, command in enumerate(commands):
        own = _weight(command)
        if place - begin >= _MOST_COMMANDS or weight + own > _MOST_WEIGHT:
            yield commands[begin:place]
            begin, weight = place, 0
        weight += own
    yield commands[begin:]


def _weight(command: dict[str, Any]) -> int:
    """Of some hundred bytes each."""
    match command["op"]:
        case "load":
            return 30 * len(command["kernels"])
        case "call":
            return 1 + len(command["arguments"]) // 4
        case "free":
            return 1 + len(command["tensors"]) // 4
    return 1


def still_due(commands: Commands) -> list[dict[str, Any]]:
    """Of commands that did not run: tensors that Python has by now are made, and what it dropped is freed."""
    ends = {command["prefix"] for command in commands if command["op"] == "free_prefix"}

    def due(command: dict[str, Any]) -> bool:
        if command["op"] == "allocate":
            return command["tensor"].rpartition("/")[0] + "/" not in ends
        return command["op"] in ("free", "free_prefix", "unload")

    return [command for command in commands if due(command)]


class Dropped:
    """Names that Python let go, to be freed on the device.

    Finalizers call `put` in whatever thread the garbage collector runs, perhaps inside another call: it never waits
    and takes no lock.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def put(self, command: dict[str, Any]) -> None:
        """Take a "free" or an "unload"."""
        self._queue.put(command)

    def end(self) -> None:
        """Nobody waits any more."""
        self._queue.put(None)

    def wait(self) -> bool:
        """Wait until something is there; False after `end`."""
        command = self._queue.get()
        self._queue.put(command)
        return command is not None

    def take(self) -> list[dict[str, Any]]:
        """What was put since, as few commands."""
        tensors: list[str] = []
        others = []
        with contextlib.suppress(queue.Empty):
            while True:
                command = self._queue.get_nowait()
                if command is None:
                    self._queue.put(None)
                    break
                if command["op"] == "free":
                    tensors += command["tensors"]
                else:
                    others.append(command)
        return [*([{"op": "free", "tensors": tensors}] if tensors else []), *others]
