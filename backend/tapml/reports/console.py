"""Where everything that tapml writes for people passes: no name or message of a stranger steers their terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich import table
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from tapml.text import one_line, shortened, visible

_MOST_CELL = 100_000

_SHORTEST_KERNEL = 34
"""Characters of a kernel's name that a terminal always has room for, as a graph's boxes have."""


class SafeConsole(Console):
    """rich's Console, which obeys its own styles only: markup in texts is text, and escape sequences are shown."""

    def __init__(self, file: TextIO, **options: Any) -> None:
        super().__init__(file=file, markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text)
            # The cursor's movements of progress bars are rich's own.
            yield segment if text == segment.text else Segment(text, segment.style)


class Table(table.Table):
    """rich's Table without frame; each cell is one line, however it is broken to fit."""

    def __init__(self, *columns: str, right: Collection[str] = (), title: str = "", **options: Any) -> None:
        """`right`: the columns whose cells end at the same place, as numbers do."""
        shown = Text(one_line(title)) if title else None
        super().__init__(title=shown, title_justify="left", box=None, pad_edge=False, **options)
        for column in columns:
            self.add_column(column, justify="right" if column in right else "left", overflow="fold")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            self._shorten_kernels(max(_SHORTEST_KERNEL, options.max_width // 3))
        if self.columns:
            # What a row is of stands in one piece, to be copied, where that leaves room for the others.
            first = [cell.plain for cell in self.columns[0].cells if isinstance(cell, Text)]
            self.columns[0].no_wrap = 2 * max(map(len, first), default=0) <= options.max_width
        rendered = super().__rich_console__(console, options)
        # Lines end where their text does: what is copied from a terminal, too.
        for line in Segment.split_lines(part for part in rendered if isinstance(part, Segment)):
            while line and not line[-1].text.strip(" "):
                line.pop()
            if line:
                last = line.pop()
                line.append(Segment(last.text.rstrip(" "), last.style))
            yield from line
            yield Segment.line()

    def _shorten_kernels(self, most: int) -> None:
        """A fused operator's name has up to 120 characters. What goes to a file or a pipe has all of them."""
        for column in self.columns:
            if column.header == "kernel":
                cells = [
                    Text(shortened(found.plain, most), style=found.style) if isinstance(found, Text) else found
                    for found in column.cells
                ]
                column._cells = cells

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_cell, cells), **options)


def show_facts(console: Console, facts: Iterable[tuple[str, str]]) -> None:
    """A name and a text a line. On a terminal long texts are broken between words, beside their names; in a file or a
    pipe each is one line."""
    for name, text in facts:
        if not console.is_terminal:
            console.print(f"{name:<10} {text}")
            continue
        width = max(20, console.width - 11)
        for place, line in enumerate(textwrap.wrap(text, width, break_on_hyphens=False) or [""]):
            console.print(f"{'' if place else name:<10} {line}")


def _cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return Text(one_line(cell, _MOST_CELL))
    if isinstance(cell, Text) and not cell.plain.isprintable():
        return Text(one_line(cell.plain, _MOST_CELL), style=cell.style)
    return cell


class _SafeStream:
    """A text stream that shows escape sequences. For what is written past the console: argparse, warnings, logging."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def safe_streams() -> Iterator[tuple[TextIO, TextIO]]:
    """Clean what is printed to standard output and error; gives the real ones, for consoles that do it themselves."""
    real = sys.stdout, sys.stderr
    for stream in real:
        # Lone surrogates, and a terminal of another encoding: an escape rather than an exception.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    safe: Any = [_SafeStream(stream) for stream in real]
    sys.stdout, sys.stderr = safe
    try:
        yield real
    finally:
        sys.stdout, sys.stderr = real
