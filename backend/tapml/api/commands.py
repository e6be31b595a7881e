"""Lists of commands: what one message takes, what must be done although others failed, what Python dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from tapml.protocol import methods

Commands = Sequence[methods.Command]

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


def _weight(command: methods.Command) -> int:
    """Of some hundred bytes each."""
    match command:
        case methods.LoadCommand():
            return 30 * len(command.kernels)
        case methods.CallCommand():
            return 1 + len(command.arguments) // 4
        case methods.FreeCommand():
            return 1 + len(command.tensors) // 4
    return 1


def still_due(left: Iterable[methods.Command]) -> list[methods.Command]:
    """Of commands that did not run: tensors that Python has by now are made, and what it dropped is freed."""
    commands = list(left)
    ends = {command.prefix for command in commands if isinstance(command, methods.FreePrefixCommand)}

    def due(command: methods.Command) -> bool:
        if isinstance(command, methods.AllocateCommand):
            return command.tensor.rpartition("/")[0] + "/" not in ends
        return isinstance(command, methods.FreeCommand | methods.FreePrefixCommand | methods.UnloadCommand)

    return [command for command in commands if due(command)]


class Dropped:
    """Names that Python let go, to be freed on the device.

    Finalizers call `put` in whatever thread the garbage collector runs, perhaps inside another call: it never waits
    and takes no lock.
    """

    def __init__(self) -> None:
        self._commands: deque[methods.FreeCommand | methods.UnloadCommand] = deque()
        self.put = self._commands.extend

    def take(self) -> list[methods.Command]:
        """What was put since, as few commands."""
        tensors: list[str] = []
        others: list[methods.Command] = []
        while self._commands:
            command = self._commands.popleft()
            if isinstance(command, methods.FreeCommand):
                tensors += command.tensors
            else:
                others.append(command)
        return [*([methods.FreeCommand(tensors=tensors)] if tensors else []), *others]
