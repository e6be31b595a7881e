"""A connection to the history's database; every trouble with it is one sentence without the password."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tapml.errors import InputError
from tapml.history import schema
from tapml.history.suite_file import SuiteFile, check_tables

_BUSY_SECONDS = 30
_CONNECT_SECONDS = 10
# "tapml" in ASCII: writers of one PostgreSQL database take turns, so that two may make the tables at once.
_LOCK = 0x7461706D6C
_MOST_OF_A_REASON = 300
_MOST_BYTES_A_ROW = 1_000_000


class Database:
    """One database. Connections live as long as a `with` block: nothing is held open between runs."""

    def __init__(
        self, url: str | Path, of_suite: SuiteFile | None = None, tables: schema.Tables = schema.HISTORY
    ) -> None:
        """A path is a SQLite file; `of_suite`: it came with a suite, and nothing in it is believed. `tables`: what is
        made in an empty one.

        Raises InputError for an address that is none, or whose driver is missing."""
        self._of_suite = of_suite
        self._tables = tables
        self._engines: dict[tuple[str, bool], Engine] = {}
        if isinstance(url, Path):
            self._url = URL.create("sqlite", database=str(url))
        else:
            self._url = _parse(url)
        self.path = Path(self._url.database or "") if self._url.get_backend_name() == "sqlite" else None
        """The file of a SQLite database."""
        self.shown = str(self.path) if self.path else _shown(self._url)
        """Where it is, without user, password and options."""
        if self.path is None:
            self._server()  # a missing driver is told now

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """A transaction that only reads; None where nothing was ever recorded.

        Raises InputError where the database cannot be read or was written by a newer tapml.
        """
        if not self._exists():
            yield None
            return
        with self._troubles("read"):
            if self._of_suite is not None:
                self._of_suite.check()
            with self._engine(write=False).begin() as connection:
                yield connection if self._version(connection) is not None else None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes, alone, on tables that are there. Raises InputError as `reading` does."""
        with self._troubles("written"):
            if self.path is not None:
                self._prepare_file(self.path)
            with self._engine(write=True).begin() as connection:
                if self.path is None:
                    connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_LOCK)))
                found = self._version(connection)
                if found is None or found < self._tables.newest:  # a newer version has further tables, and no others
                    self._tables.metadata.create_all(connection)
                    connection.execute(sql.delete(self._tables.version))
                    connection.execute(sql.insert(self._tables.version).values(version=self._tables.newest))
                yield connection

    def _exists(self) -> bool:
        if self._of_suite is not None:
            return self._of_suite.exists
        return self.path is None or self.path.exists()

    def _version(self, connection: Connection) -> int | None:
        """None where there are no tables yet."""
        if self._of_suite is not None:
            check_tables(connection)
        what, version, newest = self._tables.what, self._tables.version, self._tables.newest
        if not sql.inspect(connection).has_table(version.name):
            return None
        found = connection.execute(sql.select(version.c.version)).scalar()
        if not isinstance(found, int):
            raise InputError(f"{what} in {self.shown} does not tell its version: move it away, or correct it")
        if found > newest:
            raise InputError(
                f"{what} in {self.shown} was written by a newer tapml (version {found}; this one knows "
                f"{newest}): update tapml, or name another one with --database-url"
            )
        return found

    def _engine(self, *, write: bool) -> Engine:
        return self._file(self.path, write) if self.path is not None else self._server()

    def _kept(self, address: str, write: bool, make: Callable[[], Engine]) -> Engine:
        """An engine remembers how statements are compiled, and has no connections (NullPool)."""
        found = self._engines.get((address, write))
        if found is None:
            found = self._engines.setdefault((address, write), make())
        return found

    def _server(self) -> Engine:
        options = {"connect_timeout": _CONNECT_SECONDS}
        try:
            return self._kept("", True, lambda: sql.create_engine(self._url, poolclass=NullPool, connect_args=options))
        except ImportError as error:
            raise InputError(
                f"PostgreSQL ({self.shown}) needs the driver psycopg: run pip install 'tapml[postgres]'"
            ) from error

    def _file(self, path: Path, write: bool) -> Engine:
        mode = "rwc" if write else "rw"
        if not write and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            # SQLite's log beside the file cannot be made here; without one, the file is the whole truth.
            mode = "ro" if path.with_name(path.name + "-wal").exists() else "ro&immutable=1"
        address = f"file:{quote(str(path.absolute()))}?mode={mode}"

        def connect() -> sqlite3.Connection:
            # Transactions are begun by hand: the module would begin one late, and read what it then overwrites.
            connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES_A_ROW)
            connection.execute("PRAGMA trusted_schema=off")
            connection.execute("PRAGMA cell_size_check=on")
            return connection

        def make() -> Engine:
            engine = sql.create_engine("sqlite://", creator=connect, poolclass=NullPool)
            begin = "BEGIN IMMEDIATE" if write else "BEGIN"
            sql.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
            return engine

        return self._kept(address, write, make)

    def _prepare_file(self, path: Path) -> None:
        """With its log, readers and a writer do not wait for each other. The file remembers."""
        if self._of_suite is not None:
            self._of_suite.make_folder()
            self._of_suite.check()
        else:
            path.parent.mkdir(exist_ok=True)
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                # This change alone does not wait for others, who make it too; without it only waits are longer.
                connection.execute("PRAGMA journal_mode=wal")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        finally:
            connection.close()

    @contextmanager
    def _troubles(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError, ValueError, OverflowError, TypeError, LookupError) as error:
            if isinstance(error, TypeError | LookupError) and self._of_suite is None:
                raise  # a defect of ours; in a suite's own file it is what somebody else wrote there
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            raise InputError(f"{self._tables.what} in {self.shown} cannot be {what}: {self._reason(cause)}") from None

    def _reason(self, error: BaseException) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = (getattr(error, "strerror", None) or (lines[0] if lines else type(error).__name__)).rstrip(".")
        for secret in filter(None, (self._url.password, self._url.query.get("password"))):
            for form in (str(secret), quote(str(secret), safe="")):
                text = text.replace(form, "***")
        text = text[:_MOST_OF_A_REASON]
        if self.path is not None and ("not a database" in text or "malformed" in text):
            return f"it is damaged ({text}); move the file away, and the next run begins a new one"
        return text


def _parse(text: str) -> URL:
    """Nothing of a text that is no address is repeated: parts of a password may be anywhere in it."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if url is None or "@" in (url.host or "") + (url.database or ""):
        raise InputError(
            "--database-url is no address: write it as sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE, "
            "with the password's special characters percent-encoded"
        )
    backend = url.get_backend_name()
    if backend == "sqlite":
        if not url.database or url.database == ":memory:" or url.database.startswith("file:") or url.query:
            raise InputError("--database-url names no SQLite file: write it as sqlite:///FILE")
        return url
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise InputError(
        f"--database-url is of {url.drivername}, but the history is kept in SQLite (sqlite:///FILE) or PostgreSQL "
        "(postgresql://USER:PASSWORD@HOST/DATABASE) only"
    )


def _shown(url: URL) -> str:
    host = url.host or str(url.query.get("host", "") or "localhost")
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{host}{port}/{url.database or ''}"
