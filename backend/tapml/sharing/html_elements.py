"""The data elements of an exported HTML file, found in one pass over the file, however large it is.

No regular expression runs over more than an element's head: the time is linear in the file's length, and the memory
does not depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

_PIECE = 1 << 20
_MOST_HEAD = 600
_MOST_ELEMENTS = 10_000
_BEGIN = b'<script type="'
_END = b"</script>"
_HEAD = re.compile(
    rb'<script type="(?:'
    rb'(?P<document>application/json" id="repro")'
    rb'|text/wgsl" data-file="(?P<name>[^"]{1,300})"(?P<base64> data-encoding="base64")?'
    rb'|application/octet-stream" data-digest="(?P<digest>[0-9a-f]{64})" data-bytes="\d{1,15}" '
    rb'data-block="(?P<block>\d{1,4})"'
    rb")>"
)


@dataclass(frozen=True)
class Element:
    """One element: `kind` is "document", "wgsl" or "tensor", `name` the file's or the digest as they stand there; what
    it holds are the bytes from `start` to `end`.
    """

    kind: str
    name: bytes
    start: int
    end: int
    base64: bool = False
    block: int = 0

    @property
    def length(self) -> int:
        return self.end - self.start


def elements(file: IO[bytes]) -> Iterator[Element]:
    """All whole elements in the file's order. Raises ValueError where there are more than any test has."""
    scanner = _Scanner(file)
    at = count = 0
    while (at := scanner.find(_BEGIN, at)) >= 0:
        head = _HEAD.match(scanner.read(at, _MOST_HEAD))
        if head is None:
            at += len(_BEGIN)
            continue
        start = at + head.end()
        # WGSL may hold a "<", all else does not.
        end = scanner.find(_END if head["name"] else b"<", start)
        if end < 0:
            return
        at = end
        if scanner.read(end, len(_END)) != _END:
            continue
        count += 1
        if count > _MOST_ELEMENTS:
            raise ValueError(f"it has more than {_MOST_ELEMENTS} elements of data")
        yield _element(head, start, end)


def _element(head: re.Match[bytes], start: int, end: int) -> Element:
    if head["document"]:
        return Element("document", b"", start, end)
    if head["name"]:
        return Element("wgsl", head["name"], start, end, base64=bool(head["base64"]))
    return Element("tensor", head["digest"], start, end, block=int(head["block"]))


class _Scanner:
    """A window on a file that only moves forward where what is asked for is behind its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._window = b""
        self._start = 0

    def find(self, wanted: bytes, at: int) -> int:
        """Where `wanted` stands first, from `at` on; -1 for nowhere."""
        while True:
            found = self._window.find(wanted, at - self._start)
            if found >= 0:
                return self._start + found
            at = max(at, self._start + len(self._window) - len(wanted) + 1)
            self._move(at)
            if len(self._window) < len(wanted):
                return -1

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes, fewer at the file's end."""
        if at + size > self._start + len(self._window):
            self._move(at)
        return self._window[at - self._start : at - self._start + size]

    def _move(self, at: int) -> None:
        self._file.seek(at)
        self._window = self._file.read(_PIECE)
        self._start = at
