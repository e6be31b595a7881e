"""Verdicts on disk as they come, so that a killed process loses none that it reported."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import psutil

from tapml.files import slug
from tapml.suite import Suite


class Journal:
    """The results of one device in one run, a JSON line each, after a line with the document's header.

    Lies in `results/running/` and is removed when its `with` block is left: by then the results are saved for good.
    What a killed process leaves is found by `left_behind`. Where nothing can be written, it is none.
    """

    def __init__(self, suite: Suite, device_name: str, header: Mapping[str, Any]) -> None:
        name = slug(device_name, "device")
        self._path = _folder(suite) / f"{name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.jsonl"
        self._header = header
        self._lock = threading.Lock()
        self._file: TextIO | None = None

    def __enter__(self) -> Journal:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w")
        except OSError:  # a suite that is read-only, say: whoever saves the results will tell
            return self
        self.write(self._header)
        return self

    def write(self, document: Mapping[str, Any]) -> None:
        """Append one line; it is the operating system's when this returns."""
        if self._file is None:
            return
        with self._lock:
            self._file.write(json.dumps(document, allow_nan=False) + "\n")
            self._file.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        self._file.close()
        if kind is None:
            self._path.unlink(missing_ok=True)


def left_behind(suite: Suite) -> Iterator[tuple[Path, dict[str, Any], list[dict[str, Any]]]]:
    """Journals of processes that are no more: (path, header, results). A line that was cut off is left out."""
    for path in sorted(_folder(suite).glob("*.jsonl")):
        if psutil.pid_exists(int(path.name.split(".")[-3])):
            continue
        lines = []
        for line in path.read_text().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
        if lines:
            yield path, lines[0], lines[1:]
        else:
            path.unlink(missing_ok=True)


def _folder(suite: Suite) -> Path:
    return suite.path / "results" / "running"
