"""Compiled models that a server offers to pages: what lies in one folder, whoever put it there."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

from tapml.compiled.files import DOCUMENT, CompiledFiles, is_compiled
from tapml.compiled.model import CompiledFunction, Port
from tapml.errors import InputError
from tapml.folder import FileMissing, Folder
from tapml.results.verdicts import FAILING
from tapml.text import one_line

MOST_MODELS = 500
"""That are listed; more are served, and counted."""
_Stamp = tuple[int, int, int]


class ModelFolder:
    """Folders and single files that `tapml build` wrote, by their names in `path`.

    Raises InputError where `path` is no folder, or a compiled model itself. Symbolic links in it are not followed.
    """

    def __init__(self, path: Path) -> None:
        if is_compiled(path):
            raise InputError(f"{path} is a compiled model: give the folder that it lies in")
        if not path.is_dir():
            raise InputError(f"{path} is no folder: give the folder that your compiled models lie in")
        self._folder = Folder(path.resolve())
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Stamp, dict[str, Any] | None]] = {}

    def listed(self) -> dict[str, Any]:
        """`GET /api/models` of docs/http-api.md: each model as it is on disk now, or what is wrong with it."""
        names = [name for name in self._names() if self._looks_like_one(name)]
        found = [self._summary_or_problem(name) for name in names[:MOST_MODELS]]
        with self._lock:
            self._known = {name: known for name, known in self._known.items() if name in set(names)}
        return {"models": found, "left_out": len(names) - len(found)}

    def count(self) -> int:
        """Of what looks like a compiled model."""
        return sum(self._looks_like_one(name) for name in self._names())

    def damaged(self) -> list[str]:
        """The names of those that no page could load."""
        return [found["id"] for found in self.listed()["models"] if "problem" in found]

    def open(self, name: str, file: str | None) -> BufferedReader:
        """A file of a model's folder, or a single file where `file` is None.

        Raises FileMissing, or InputError for what is no regular file.
        """
        path = self._folder.path / name
        if name.startswith(".") or not is_compiled(path) or path.is_dir() is (file is None):
            raise FileMissing(f"{path} is no compiled model")
        return self._folder.open(name if file is None else f"{name}/{file}")

    def compiled(self, name: str) -> CompiledFiles:
        """That of this name. Raises FileMissing where there is none, InputError for one that no page could load."""
        path = self._folder.path / name
        if name.startswith(".") or "/" in name or not is_compiled(path):
            raise FileMissing(f"{path} is no compiled model")
        _stamp(path)
        files = CompiledFiles(path)
        _incomplete(files)
        files.proven()
        return files

    def _names(self) -> list[str]:
        with os.scandir(self._folder.path) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith("."))

    def _looks_like_one(self, name: str) -> bool:
        path = self._folder.path / name
        return is_compiled(path) or (path.is_symlink() and name.endswith(".tapml"))

    def _summary_or_problem(self, name: str) -> dict[str, Any]:
        shown = one_line(name, 500)
        try:
            summary = self._summary(name)
            return {"id": shown, **summary}
        except (InputError, OSError) as error:
            return {"id": shown, "problem": one_line(str(error), 2000)}

    def _summary(self, name: str) -> dict[str, Any]:
        """Raises InputError for what no page could load."""
        path = self._folder.path / name
        if _shown_otherwise(name):
            raise InputError(f"{path}: no address can have this name; give it a name of letters and digits")
        stamp = _stamp(path)
        with self._lock:
            known_stamp, known = self._known.get(name, (None, None))
        if known is not None and known_stamp == stamp and path.is_file():
            return {**known, "incomplete": None}
        files = CompiledFiles(path)
        incomplete = _incomplete(files)
        if known is None or known_stamp != stamp:
            files.proven()
            known = _summary_of(files, single=path.is_file())
            with self._lock:
                self._known[name] = (stamp, known)
        return {**known, "incomplete": incomplete}


def _shown_otherwise(name: str) -> bool:
    """Would it not come back as it is from an address?"""
    try:
        return any(ord(character) < 32 or ord(character) == 127 for character in name.encode().decode())
    except UnicodeEncodeError:
        return True


def _stamp(path: Path) -> _Stamp:
    """Of the document. Raises InputError for a symbolic link."""
    for part in (path, path / DOCUMENT):
        if part.is_symlink():
            raise InputError(f"{part} is a symbolic link: put the model itself there")
    found = (path / DOCUMENT if path.is_dir() else path).stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is no file")
    return found.st_mtime_ns, found.st_size, found.st_ino


def _incomplete(files: CompiledFiles) -> str | None:
    """What is wrong with a part that no page loads. Digests are held against bytes by who loads them.

    Raises InputError for a part that pages load, where it is missing or of another size.
    """
    incomplete = None
    for name, sentence in files.wrong_sizes():
        if not name.startswith("operators/"):
            raise InputError(sentence)
        incomplete = incomplete or sentence
    return incomplete


def _summary_of(files: CompiledFiles, *, single: bool) -> dict[str, Any]:
    """ModelSummary of docs/http-api.md, without its id and `incomplete`."""
    model = files.model
    made = model.provenance
    return {
        "single": single,
        "content": files.content,
        "name": model.name,
        "title": model.title,
        "source": made.model.source,
        "bytes": files.nbytes,
        "weights": sum(model.weights.buffers),
        "kernels": len(model.kernels),
        "symbols": [symbol.model_dump(include={"name", "minimum", "maximum"}) for symbol in model.symbols],
        "functions": {function: _ports(found) for function, found in model.functions.items()},
        "memory": {function: facts.model_dump() for function, facts in model.memory.items()},
        "tokenizer": model.tokenizer is not None,
        "doubts": list(made.doubts),
        "edited": list(made.edited),
        "validation": [
            {
                "device": found.device.name,
                "passed": sum(verdict == "pass" for verdict in found.kernels.values()),
                "failing": [kernel for kernel, verdict in found.kernels.items() if verdict in FAILING],
                "unsupported": [kernel for kernel, verdict in found.kernels.items() if verdict == "unsupported"],
            }
            for found in model.validation
        ],
    }


def _ports(function: CompiledFunction) -> dict[str, list[dict[str, Any]]]:
    def described(name: str, index: int) -> dict[str, Any]:
        tensor = function.tensors[index]
        return {"name": name, **tensor.model_dump(mode="json", include={"dtype", "shape"})}

    ports: Mapping[str, Sequence[Port]] = {"inputs": function.inputs, "outputs": function.outputs}
    return {what: [described(port.name, port.tensor) for port in found] for what, found in ports.items()}
