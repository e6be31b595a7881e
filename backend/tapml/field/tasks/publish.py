"""A tag of a scenario's repository, made a version that never changes."""

from __future__ import annotations

import re
from pathlib import Path

from tapml.errors import InputError
from tapml.field.names import PART, VERSION
from tapml.field.signing import SigningKey
from tapml.field.tasks.bytecode import compiled
from tapml.field.tasks.configuration import CONFIGURATION, check_configuration, check_installable
from tapml.field.tasks.paths import check_apart, checked_path, subject_of
from tapml.field.tasks.published import MOST_FILES, Published, TaskFile
from tapml.field.tasks.repository import Entry, Repository
from tapml.text import exact_size

MOST_BYTES = 256_000_000
"""Of one file; weights come in shards."""

MOST_TOTAL = 2_000_000_000
"""Of a version."""

_MOST_CONFIGURATION = 100_000
_MOST_SCRIPTS = 10_000_000


def scenario_path(group: Path, scenario: str) -> Path:
    """Raises InputError for what is no name of a scenario."""
    _check("scenario", scenario, PART)
    return group / f"{scenario}.git"


def published_path(group: Path) -> Path:
    return group / "published"


def publish(group: Path, task: str, version: str, key: SigningKey) -> str:
    """The tag TASK/VERSION, on the branch TASK, of SCENARIO.git in the group: `task` is SCENARIO/TASK. Gives the digest
    of its manifest; publishing the same files again changes nothing. Scripts are published as bytecode.

    Raises ToolchainError where scripts cannot be compiled here; InputError for names, paths, sizes and scripts that are
    refused, for a version without a task.json that agents take, and for one that was published with others.
    """
    scenario, slash, branch = task.partition("/")
    if not slash:
        raise InputError(f"{task[:100]!r} is no SCENARIO/TASK: give both, as shop/highlight")
    place = scenario_path(group, scenario)
    _check("task", branch, PART)
    _check("version", version, VERSION)
    repository = Repository(place)
    entries = repository.entries(repository.commit(branch, f"{branch}/{version}"), MOST_FILES)
    paths = [checked_path(entry.name) for entry in entries]
    check_apart(paths)
    _check_sizes(entries, paths)
    for path in paths:
        subject_of(path)  # of what is nobody's it raises
    check_installable(task, version, paths)
    made = _bytecode(repository, dict(zip(paths, entries, strict=True)))
    shared: list[TaskFile] = []
    exclusive: dict[str, list[TaskFile]] = {}
    placed = [
        (f"{found}c" if found in made else found, found, entry) for found, entry in zip(paths, entries, strict=True)
    ]
    published = Published(published_path(group))
    for name, found, entry in sorted(placed, key=lambda one: one[0]):
        owner = subject_of(name)
        code = made.get(found)
        pieces = repository.contents(entry) if code is None else [code]
        digest = published.add_blob(pieces, exclusive=owner is not None)
        into = shared if owner is None else exclusive.setdefault(owner[0], [])
        size = entry.bytes if code is None else len(code)
        into.append(TaskFile(path=name if owner is None else owner[1], sha256=digest, bytes=size))
    return published.add_version(task, version, shared, exclusive, key)


def _bytecode(repository: Repository, entries: dict[str, Entry]) -> dict[str, bytes]:
    """Of the scripts by their paths: it is what an agent runs. The configuration is checked first."""
    configuration = entries[CONFIGURATION]
    if configuration.bytes > _MOST_CONFIGURATION:
        raise InputError(f"{CONFIGURATION} has more than {_MOST_CONFIGURATION} bytes: make it shorter")
    check_configuration(b"".join(repository.contents(configuration)), entries)
    scripts = {path: entry for path, entry in entries.items() if path.endswith(".py")}
    if twice := sorted(path for path in scripts if f"{path}c" in entries):
        raise InputError(f"{twice[0]}c is what {twice[0]} is compiled to: remove it")
    if (total := sum(entry.bytes for entry in scripts.values())) > _MOST_SCRIPTS:
        raise InputError(f"the scripts have {total} bytes, and at most {exact_size(_MOST_SCRIPTS)}: make them smaller")
    return compiled({path: b"".join(repository.contents(entry)) for path, entry in scripts.items()})


def _check_sizes(entries: list[Entry], paths: list[str]) -> None:
    if not entries:
        raise InputError("the version has no files: commit some")
    for entry, path in zip(entries, paths, strict=True):
        if entry.bytes > MOST_BYTES:
            raise InputError(f"{path} has {entry.bytes} bytes, and a file at most {exact_size(MOST_BYTES)}: split it")
    if (total := sum(entry.bytes for entry in entries)) > MOST_TOTAL:
        raise InputError(f"the version has {total} bytes, and one at most {exact_size(MOST_TOTAL)}: make it smaller")


def _check(what: str, name: str, pattern: str) -> None:
    # $ of Python also stands before a line's end.
    if not re.fullmatch(pattern.removesuffix("$"), name):
        form = "1 to 4 numbers with dots between" if what == "version" else "a-z, 0-9 and - between, at most 63"
        raise InputError(f"{name[:100]!r} is no name of a {what}: give {form}")
