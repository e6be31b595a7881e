"""Signals that end a command as Ctrl-C does: what it made and did not finish is removed on the way out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Of a service manager or a CI job that takes too long, and of a terminal that was closed."""


class Ended(KeyboardInterrupt):
    """Another signal than Ctrl-C's ended the command. What undoes things at Ctrl-C undoes them at this."""

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name
        self.exit_code = 128 + number
        super().__init__(self.name)


@contextmanager
def ending() -> Iterator[None]:
    """Raise `Ended` at such a signal; the second one ends the process at once. Commands that wait until they are told
    to end have handlers of their own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDING}

    def end(number: int, _: object) -> None:
        for each in changed:
            signal.signal(each, signal.SIG_DFL)
        raise Ended(number)

    # One that is ignored stays so (nohup).
    changed = [number for number, handler in before.items() if handler == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in before:
            signal.signal(number, before[number])
