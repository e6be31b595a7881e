"""A real PostgreSQL in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


class Postgres:
    """A cluster that answers on a socket in its own folder only."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """`durable`: what is committed is on the disk, as it is by default; a test does not wait for that."""
        self.folder = folder
        self._commands = _commands()
        # It refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            folder.chmod(0o755)
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        self._run("initdb", "-D", data, "-A", "trust", "-U", self.user, "--no-sync", "--locale=C.UTF-8")
        fast = "" if durable else "-c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        self._options = f"-k {folder} -c listen_addresses= {fast}"
        self.start()

    def start(self) -> None:
        """Also after it was stopped."""
        line = ["-D", self.folder / "data", "-w", "-l", self.folder / "log", "-o", self._options]
        self._run("pg_ctl", *line, "start")

    def database(self) -> str:
        """A new, empty database's address."""
        name = f"tapml_{uuid.uuid4().hex[:12]}"
        self._run("createdb", "-h", self.folder, "-U", self.user, name)
        return self.url(name)

    def url(self, name: str, *, user: str | None = None) -> str:
        return f"postgresql://{user or self.user}@/{name}?host={self.folder}"

    def stop(self) -> None:
        """At once, as if it had crashed."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")

    def _run(self, command: str, *arguments: str | Path) -> None:
        prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        line = [*prefix, str(self._commands / command), *map(str, arguments)]
        # Its output goes to a file: a server that pg_ctl leaves behind would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(line, stdout=output, stderr=subprocess.STDOUT, cwd="/", timeout=600)
            output.seek(0)
            assert done.returncode == 0, f"{' '.join(line)}: {output.read()}"


def _commands() -> Path:
    """Where Debian keeps the server's commands, which are in no PATH; elsewhere they may be."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if command := shutil.which("initdb"):
        return Path(command).resolve().parent
    pytest.fail("these tests need a PostgreSQL server: install the Debian package `postgresql` (`make test` does)")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # Not under pytest's folder, whose path is too long for a socket and closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="tapml-pg-"))
    cluster = Postgres(folder)
    yield cluster
    cluster.stop()
    shutil.rmtree(folder)
