"""What a service looks after by itself, each on a thread of its own."""

from __future__ import annotations

import logging
import threading

from tapml.errors import TapmlError

_log = logging.getLogger(__name__)


class Looking:
    """Has `look` called every `seconds` on a thread, until it is stopped. `trouble`: what an error of it means, in the
    log; it is called again, for a database that is restarted comes back."""

    def __init__(self, name: str, seconds: float, trouble: str) -> None:
        self._seconds = seconds
        self._trouble = trouble
        self._end = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """May be called twice, and without `start`."""
        self._end.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(30)

    def poke(self) -> None:
        """Look now, for there is something to be seen."""
        self._wake.set()

    def interval(self) -> float:
        """Seconds until the next look."""
        return self._seconds

    def look(self) -> bool:
        """Do what is to be done now; whether there may be more at once."""
        raise NotImplementedError

    def _work(self) -> None:
        pause = self.interval()
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._end.is_set():
                return
            try:
                pause = 0 if self.look() else self.interval()
            except TapmlError as error:
                _log.warning("%s: %s", self._trouble, error)
                pause = max(1.0, self._seconds)
