"""Progress of long work: bars on a terminal, plain lines otherwise."""

from __future__ import annotations

import threading
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tapml.text import indented, one_line

# Plain output: a line when a phase begins and ends, and one this often in between.
_PLAIN_SECONDS = 5.0


class ProgressReport:
    """Phases with a count each: `update("carving", 3, 101)`. Safe from any thread; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._bars: dict[str, TaskID] = {}
        self._last: dict[str, tuple[float, int]] = {}
        self._progress = Progress(
            TextColumn("{task.description:<34}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            # Else what others print meanwhile would be read for escape sequences, links among them.
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> ProgressReport:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def update(self, phase: str, done: int, total: int, note: str = "") -> None:
        """`done` of `total` things of a phase; `note` is shown behind the bar."""
        phase, note = one_line(phase), one_line(note)
        with self._lock:
            if self._console.is_terminal:
                self._update_bar(phase, done, total, note)
            else:
                self._update_plain(phase, done, total, note)

    def _update_bar(self, phase: str, done: int, total: int, note: str) -> None:
        if phase not in self._bars:
            self._bars[phase] = self._progress.add_task(phase, total=total, note="")
        self._progress.update(self._bars[phase], completed=done, total=total, note=note)
        if done >= total:
            self._progress.stop_task(self._bars[phase])

    def _update_plain(self, phase: str, done: int, total: int, note: str) -> None:
        now = time.monotonic()
        last, last_done = self._last.get(phase, (0.0, -1))
        if done == last_done or (done < total and now - last < _PLAIN_SECONDS):
            return
        self._last[phase] = (now, done)
        text = f"{phase}: {done}/{total}" + (f" {note}" if note else "")
        self._console.print(text)

    def line(self, text: str) -> None:
        """A line of its own, above the bars."""
        self._console.print(indented(text))
