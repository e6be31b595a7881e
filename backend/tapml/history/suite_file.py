"""A history that came with a suite: whoever wrote it may have written anything.

SQLite opens files by their paths, runs views and triggers that it finds in them, and removes what a journal beside them
names. So what lies there is looked at before SQLite opens it, and its tables before any of them is read.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateIndex, CreateTable

from tapml.errors import InputError
from tapml.folder import FileMissing, Folder
from tapml.history import schema

_ENDINGS = ("", "-wal", "-shm", "-journal")
# At the end of a journal that names another file, which SQLite would remove in the end. None of ours does.
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")


@dataclass(frozen=True)
class SuiteFile:
    """`name` in a suite's folder."""

    folder: Folder
    name: str

    @property
    def exists(self) -> bool:
        return self.folder.taken(self.name)

    def make_folder(self) -> None:
        """Raises OSError."""
        self.folder.make(self.name.rpartition("/")[0])

    def check(self) -> None:
        """Raises InputError unless database, log and journal are regular files of the suite, or not there."""
        for ending in _ENDINGS:
            try:
                with self.folder.open(self.name + ending) as file:
                    size = os.fstat(file.fileno()).st_size
                    if ending == "-journal" and size >= 8:
                        file.seek(size - 8)
                        if file.read(8) == _NAMES_ANOTHER:
                            path = self.folder.path / (self.name + ending)
                            raise InputError(f"{path} is no journal that tapml left: remove it")
            except FileMissing:
                continue


def check_tables(connection: Connection) -> None:
    """Raises ValueError where there is more in the database than tables as tapml makes them: a view in place of a table
    may never end, and a trigger may change what is recorded."""
    dialect = sqlite.dialect()
    ours = {}
    for table in schema.metadata.sorted_tables:
        ours[table.name] = _plain(str(CreateTable(table).compile(dialect=dialect)))
        for index in table.indexes:
            ours[str(index.name)] = _plain(str(CreateIndex(index).compile(dialect=dialect)))
    for name, text in connection.exec_driver_sql("SELECT name, sql FROM sqlite_master"):
        if text is None and str(name).startswith("sqlite_autoindex_"):
            continue
        if name not in ours or _plain(str(text)) != ours[name]:
            raise ValueError(f"its {str(name)[:60]!r} is not as tapml makes it; move the file away")


def _plain(text: str) -> str:
    """A statement without what may differ between versions of SQLAlchemy."""
    return re.sub(r'[\s"]+', "", text).lower()
