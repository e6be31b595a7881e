"""Reading a repository that others push to: by git's own commands, in bounded time and memory.

Nothing of it is checked out or run. Contents are hashed here: git's object ids are SHA-1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tapml.errors import InputError, ToolchainError
from tapml.text import one_line

_SECONDS = 120.0
_PIECE = 1 << 20
_MOST_HEAD = 10_000
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace, which can be pushed, shows other contents
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}


@dataclass(frozen=True)
class Entry:
    """A file of a tree. `name`: bytes as git has them."""

    name: bytes
    mode: str
    object_id: str
    bytes: int


class Repository:
    """A bare repository. Every method raises InputError with one sentence, ToolchainError where git is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not (path / "HEAD").is_file():
            raise InputError(f"{path} is no bare git repository: make it with `tapml field init`")

    @classmethod
    def init(cls, path: Path) -> Repository:
        """A new one, which takes no push that rewrites or removes what is there."""
        if path.exists():
            raise InputError(f"{path} is there already: choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        _run(["init", "--quiet", "--bare", "--initial-branch=main", str(path)], path)
        for name in ("receive.fsckObjects", "receive.denyNonFastForwards", "receive.denyDeletes"):
            _run([f"--git-dir={path}", "config", name, "true"], path)
        return cls(path)

    def commit(self, branch: str, tag: str) -> str:
        """The commit of a tag, which has to be on the branch."""
        found = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/tags/{tag}^{{commit}}")
        if found is None:
            raise InputError(f"{self._path} has no tag {tag}: tag the version and push the tag")
        commit = found.decode().strip()
        if self._ask("merge-base", "--is-ancestor", commit, f"refs/heads/{branch}") is None:
            raise InputError(f"{self._path}: the tag {tag} is not on the branch {branch}: push the branch, too")
        return commit

    def entries(self, commit: str, most: int) -> list[Entry]:
        """All files, at most `most`."""
        found: list[Entry] = []
        with self._reading("ls-tree", "-r", "-z", "-l", "--full-tree", commit) as output:
            for record in _records(output):
                head, _, name = record.partition(b"\t")
                mode, kind, object_id, size = head.decode("ascii").split()
                if kind != "blob" or mode not in ("100644", "100755"):
                    what = {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, f"of mode {mode}")
                    shown = ascii(name.decode("utf-8", "backslashreplace")[:100])
                    raise InputError(f"{shown} is {what}: a task has regular files only")
                if len(found) == most:
                    raise InputError(f"the version has more than {most} files: put them into fewer")
                found.append(Entry(name, mode, object_id, int(size)))
        return found

    def contents(self, entry: Entry) -> Iterator[bytes]:
        """Its bytes, in pieces."""
        left = entry.bytes
        with self._reading("cat-file", "blob", entry.object_id) as output:
            while piece := output.read(min(_PIECE, left + 1)):
                left -= len(piece)
                if left < 0:
                    break
                yield piece
        if left:
            raise InputError(f"{self._path}: {entry.object_id} is damaged: push it again")

    def _ask(self, *arguments: str) -> bytes | None:
        """None where git says no."""
        return _run([f"--git-dir={self._path}", *arguments], self._path, may_fail=True)

    @contextmanager
    def _reading(self, *arguments: str) -> Iterator[IO[bytes]]:
        """What it writes, as it comes; it is killed where it takes too long or is left."""
        process = subprocess.Popen(
            [_git(), f"--git-dir={self._path}", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(),
        )  # fmt: skip
        late = threading.Timer(_SECONDS, process.kill)
        late.start()
        assert process.stdout is not None
        try:
            yield process.stdout
            if process.wait() != 0:
                raise InputError(f"{self._path}: git {arguments[0]} failed: see `git fsck` there")
        finally:
            late.cancel()
            process.kill()
            process.stdout.close()
            process.wait()


def _records(output: IO[bytes]) -> Iterator[bytes]:
    """What stands between zeros."""
    rest = b""
    while piece := output.read1(1 << 16):  # type: ignore[attr-defined]
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole
        if len(rest) > _MOST_HEAD:
            raise InputError(f"the version has a file with a name of more than {_MOST_HEAD} bytes: rename it")


def _run(arguments: list[str], where: Path, *, may_fail: bool = False) -> bytes | None:
    try:
        done = subprocess.run(
            [_git(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, env=_environment()
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{where}: git took more than {_SECONDS:.0f} s: see `git fsck` there") from None
    if done.returncode == 0:
        return done.stdout
    if may_fail:
        return None
    raise InputError(f"{where}: git says {one_line(done.stderr.decode(errors='replace'), 300)!r}")


def _git() -> str:
    found = shutil.which("git")
    if found is None:
        raise ToolchainError("tasks are kept in git: install it (Debian: apt-get install git)")
    return found


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, **_ENVIRONMENT}
