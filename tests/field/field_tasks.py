"""Repositories with tasks in them, as somebody pushes them."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from tapml.field.signing import SigningKey, new_key
from tapml.field.tasks import publish as publishing
from tapml.field.tasks.bytecode import compiled
from tapml.field.tasks.publish import publish, scenario_path
from tapml.field.tasks.repository import Repository

TASK = "shop/highlight"
FILES = {
    "task.json": b'{"format": "tapml.task-configuration/1"}',
    "notes.json": b"{}",
    "main.py": b"print(1)\n",
    "weights/w.bin": bytes(range(256)),
}


class Group:
    """A group with one scenario, and git's plumbing to write to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "group"
        self.repository = scenario_path(self.path, "shop")
        Repository.init(self.repository)
        self.key: SigningKey = new_key(folder / "key.pem")

    def git(self, *arguments: str, given: bytes = b"") -> str:
        who = {
            f"GIT_{role}_{what}": "somebody@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        line = ["git", f"--git-dir={self.repository}", *arguments]
        done = subprocess.run(line, input=given, capture_output=True, check=True, env={**os.environ, **who})
        return done.stdout.decode().strip()

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", given=data)

    def tree(self, entries: list[tuple[str, str, str, bytes]]) -> str:
        """Of (mode, kind, object, name): also names that no client would write."""
        body = b"".join(
            mode.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(found) for mode, _, found, name in entries
        )
        return self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", given=body)

    def commit(self, tree: str, version: str, *, branch: str = "highlight") -> None:
        made = self.git("commit-tree", tree, "-m", "a version")
        self.git("update-ref", f"refs/heads/{branch}", made)
        self.git("update-ref", f"refs/tags/highlight/{version}", made)

    def add(self, version: str, files: dict[str, bytes]) -> None:
        """A version of these files."""
        stream = f"commit refs/heads/highlight\ncommitter a <a@example.org> {int(version[0])} +0000\ndata 0\n".encode()
        stream += b"deleteall\n"
        for name, data in files.items():
            stream += f"M 100644 inline {name}\ndata {len(data)}\n".encode() + data + b"\n"
        stream += f"reset refs/tags/highlight/{version}\nfrom refs/heads/highlight\n\n".encode()
        self.git("fast-import", "--quiet", "--force", given=stream)

    def publish(self, version: str) -> str:
        with mock.patch.object(publishing, "compiled", _compiled):
            return publish(self.path, TASK, version, self.key)


def _compiled(scripts: Mapping[str, bytes]) -> dict[str, bytes]:
    """By Python in node, which takes a second to start: once for all tests of a process that have the same scripts."""
    return dict(_compiled_once(tuple(sorted(scripts.items()))))


@functools.cache
def _compiled_once(scripts: tuple[tuple[str, bytes], ...]) -> dict[str, bytes]:
    return compiled(dict(scripts))
