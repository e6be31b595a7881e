"""Writing a suite's folder: whole or not at all."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.files import cannot_write, why, write_json, write_text
from tapml.folder import Folder
from tapml.leftovers import put_in_place, sweep_beside, temporary_folder
from tapml.program.program import Program
from tapml.suite.suite import FORMAT, WITHOUT_PARTS, Suite
from tapml.suite.tensors import TensorStore
from tapml.suite.tests import CarvedTest
from tapml.text import size

# What others count on: links that were given away, and results that no run can bring back.
_RECORDS = {
    "shares": re.compile(r"[^.].*"),
    "results": re.compile(r"history\.sqlite3(-wal|-shm)?"),
}


def check_place(path: Path, overwrite: bool = False) -> None:
    """Raise InputError where no suite can be written at `path`, for it is taken or nothing can be written there."""
    with SuiteWriter(path, overwrite):
        pass


class SuiteWriter:
    """Writes a suite into a temporary folder beside its place; `finish` puts it there whole, once it reads as a suite.

    Leaving the `with` block without `finish` removes everything, so no half-written suite is ever seen. An OSError
    there (a full disk) becomes an InputError that says how far it came. What a killed writer of the same suite left is
    removed first.
    """

    def __init__(self, path: Path, overwrite: bool = False) -> None:
        """Raises InputError where `path` exists and is no suite, or is one and `overwrite` is false; and where nothing
        can be written there."""
        if path.exists():
            if not (path / "suite.json").is_file():
                raise InputError(f"{path} exists and is not a suite: choose another name with -o")
            if not overwrite:
                raise InputError(f"{path} exists: choose another name with -o, or replace it with --force")
        self._path = path
        self.expected_bytes: int | None = None
        """About what it will take, where that is known: said where there is no room for it."""
        self._open = contextlib.ExitStack()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            sweep_beside(path)
            self._folder = self._open.enter_context(temporary_folder(path))
        except OSError as error:
            raise InputError(f"cannot write to {path.parent}: {why(error)} with -o") from error
        self.folder = Folder(self._folder)
        self.tensors = TensorStore(self._folder / "tensors", unseen=True)

    def __enter__(self) -> SuiteWriter:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if isinstance(error, OSError):
                raise InputError(self._not_written(error)) from error
        finally:
            self._open.close()

    def _not_written(self, error: OSError) -> str:
        written = size(self.folder.nbytes())
        of = f" of about {size(self.expected_bytes)}" if self.expected_bytes else ""
        return f"{cannot_write(self._path, error)} with -o ({written}{of} were written, and are removed)"

    def finish(
        self, manifest: Mapping[str, Any], program: Program, tests: Sequence[CarvedTest], operators: Mapping[str, str]
    ) -> Suite:
        """Write the rest and move the folder to its place, in one rename. `operators`: by name, the texts of their
        programs (tapml.operator/2); none where no model is. Raises InputError, and leaves nothing, where what was
        written is none that tapml opens.

        Of a suite that is replaced, the history of its results and the tests behind shared links stay.
        """
        for name, text in operators.items():
            write_text(self._folder / "model" / "operators" / f"{name}.json", text)
        write_json(self._folder / "program.json", program.to_json())
        write_json(self._folder / "tests.json", {"tests": [test.to_json() for test in tests]})
        write_json(self._folder / "suite.json", {**manifest, "format": self._format})
        self._check()
        if self._path.exists():
            self._keep_records()
        put_in_place(self._folder, self._path)
        return Suite(self._path)

    @property
    def _format(self) -> str:
        return FORMAT if self.tensors.in_parts else WITHOUT_PARTS

    def _check(self) -> None:
        try:
            written = Suite(self._folder)
            for kernel in written.kernels:
                written.kernel_files(kernel)
        except InputError as error:
            raise InputError(str(error).replace(str(self._folder), str(self._path))) from error

    def _keep_records(self) -> None:
        before, after = Folder(self._path), self.folder
        for place, pattern in _RECORDS.items():
            for name in filter(pattern.fullmatch, before.names(place)):
                with before.open(f"{place}/{name}") as source, after.create(f"{place}/{name}") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
