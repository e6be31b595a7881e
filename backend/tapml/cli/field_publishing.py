"""A task's repository to work in, whose versions are published as anybody publishes one: by git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tapml.errors import InputError
from tapml.field.signing import SigningKey
from tapml.field.tasks.publish import publish, scenario_path
from tapml.field.tasks.repository import Repository


class WorkingCopy:
    """`path`: what its versions are made of, the branch of `task` (SCENARIO/TASK) in a group whose scenario is new or
    there."""

    def __init__(self, path: Path, group: Path, task: str, key: SigningKey) -> None:
        """Raises InputError where git cannot make it."""
        self.path, self.task = path, task
        self._group, self._key = group, key
        scenario, self._branch = task.split("/")
        self._scenario = scenario_path(group, scenario)
        if not self._scenario.exists():
            Repository.init(self._scenario)
        path.mkdir(parents=True, exist_ok=True)
        _git(path, "init", "--quiet", "-b", self._branch)

    def publish(self, version: str) -> str:
        """Commit what is in the folder, push it with a tag and publish that. The digest of the version's manifest."""
        tag = f"{self._branch}/{version}"
        _git(self.path, "add", "-A")
        _git(self.path, "commit", "--quiet", "-m", version)
        _git(self.path, "tag", tag)
        _git(self.path, "push", "--quiet", str(self._scenario.resolve()), self._branch, tag)
        return publish(self._group, self.task, version, self._key)


def _git(folder: Path, *arguments: str) -> None:
    """With a name of its own, for git need not know the user's."""
    who = {f"GIT_{role}_{what}": "demo@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    try:
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env={**os.environ, **who})
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", b"") or b""
        raise InputError(f"git {arguments[0]} failed: {told.decode(errors='replace').strip() or error}") from error
