"""Verdicts on disk as they come, so that a killed process loses none that it reported."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
import uuid
from collections.abc import Iterator
from io import BufferedWriter
from typing import TypeAlias

import psutil

from tapml.errors import InputError
from tapml.files import slug
from tapml.folder import FileMissing
from tapml.formats import MOST_BYTES, format_version, validated
from tapml.results.checks import TEST_RESULT, VALIDATION_HEADER
from tapml.results.validation import TestResult, ValidationHeader
from tapml.strict_json import parse_json
from tapml.suite import Suite

FORMAT = "tapml.validation/1"

LeftBehind: TypeAlias = tuple[str, ValidationHeader | None, list[TestResult]]
"""The journal of a process that is no more: its name in the suite, and what is in it."""

_FOLDER = "results/running"
_NAME = re.compile(r".+\.([0-9]{1,9})\.[0-9a-f]{1,8}\.jsonl")
_MOST_PROBLEMS = 20
# Names of those that this process writes: a lock of its own says nothing until it is taken.
_WRITING: set[str] = set()
# Every header begins so.
_BEGIN = json.dumps({"format": FORMAT})[:-1].encode()


class Journal:
    """The results of one device in one run, a JSON line each, after a line with the document's header.

    Lies in `results/running/`, locked as long as its process lives, and is removed when its `with` block is left: by
    then the results are saved for good. What a killed process leaves is found by `left_behind`. Where nothing can be
    written, it is none.
    """

    def __init__(self, suite: Suite, device_name: str, header: ValidationHeader) -> None:
        name = slug(device_name, "device")[:200]
        self._folder = suite.folder
        self._name = f"{_FOLDER}/{name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.jsonl"
        self._header = header
        self._lock = threading.Lock()
        self._file: BufferedWriter | None = None

    def __enter__(self) -> Journal:
        _WRITING.add(self._name)
        try:
            self._file = self._folder.create(self._name)
        except OSError:  # a suite that is read-only, say: whoever saves the results will tell
            return self
        with contextlib.suppress(OSError):  # where there are no locks, the number of the process has to do
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self.write(self._header)
        return self

    def write(self, document: ValidationHeader | TestResult) -> None:
        """Append one line; it is the operating system's when this returns."""
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(json.dumps(document, allow_nan=False).encode() + b"\n")
                self._file.flush()
            except OSError:
                self._give_up()

    def _give_up(self) -> None:
        """The disk is full, say. Whoever saves the results tells; what the journal took is free again for them."""
        file, self._file = self._file, None
        with contextlib.suppress(OSError):  # closing tries again to write what is left
            if file is not None:
                file.close()
        with contextlib.suppress(OSError):
            self._folder.remove(self._name)

    def __exit__(self, kind: object, *_: object) -> None:
        if self._file is not None:
            if kind is None:
                self._give_up()
            else:
                self._file.close()
        _WRITING.discard(self._name)


def left_behind(suite: Suite, problems: list[str]) -> Iterator[LeftBehind]:
    """What killed processes left. A line that was cut off is left out.

    A file that is no journal stays where it is; why it is none is added to `problems`, as a sentence.
    """
    told = 0
    for file in suite.folder.names(_FOLDER):
        found = _NAME.fullmatch(file)
        name = f"{_FOLDER}/{file}"
        if found is None or name in _WRITING:
            continue
        try:
            if journal := _read(suite, name, int(found[1])):
                yield journal
        except FileMissing:  # its run has just ended
            continue
        except InputError as error:
            told += 1
            if told <= _MOST_PROBLEMS:
                problems.append(f"{error}; no results are recovered from it: remove it by hand")


def _read(suite: Suite, name: str, process: int) -> LeftBehind | None:
    """None where the process lives."""
    where = suite.path / name
    with suite.folder.open(name) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        except OSError:
            if psutil.pid_exists(process):
                return None
    *lines, cut_off = suite.folder.read(name, MOST_BYTES).split(b"\n")
    documents = [
        parse_json(line, f"{where}, line {number}", "it is no journal") for number, line in enumerate(lines, 1)
    ]
    if not documents:
        if not cut_off.startswith(_BEGIN[: len(cut_off)]):
            raise InputError(f"{where} is no journal")
        return name, None, []
    first = documents[0]
    format_version(where, first, FORMAT, "a journal")
    header = validated(where, VALIDATION_HEADER, first, "")
    results: dict[str, TestResult] = {}
    for number, found in enumerate(documents[1:], 2):
        result = validated(f"{where}, line {number}", TEST_RESULT, found, "")
        if result["device"] != header["devices"][0]["id"]:
            raise InputError(f"{where}, line {number}: device: it is not the journal's")
        results[result["id"]] = result  # one that is reported again counts once
    return name, header, list(results.values())
